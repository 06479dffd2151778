//! The identity provider: whether people could sign in through it.

use crate::commands::doctor::finding::Findings;
use api::{
    config::{Config, Oidc},
    oidc::Provider,
};
use engine::{Clock as _, SystemClock};
use reqwest::Url;
use std::time::Duration;

/// What it is called.
const CHECK: &str = "identity provider";
/// Where settings are described.
const PAGE: &str = "the manual, page access, an identity provider";

/// Looks at the settings of the provider; asks it, unless `patience` is none.
pub(super) async fn look(config: &Config, patience: Option<Duration>, found: &mut Findings) {
    let provider = match Provider::of(&config.oidc) {
        Ok(Some(provider)) => provider,
        Ok(None) => return found.ok(CHECK, "none is named: whoever asks has a token of the service"),
        Err(why) => return found.failed(CHECK, why, "give the server a file that it can read"),
    };
    url(config, found);
    let Some(patience) = patience else { return };
    let issuer = &config.oidc.issuer;
    let looked = match tokio::time::timeout(patience, provider.look(SystemClock.now())).await {
        Ok(Ok(looked)) => looked,
        Ok(Err(error)) => {
            let remedy = "see whether oidc.issuer is what its discovery document says, letter by letter; oidc.ca_file names an authority of yours";
            return found.failed(CHECK, format!("{issuer}: {error}"), remedy);
        }
        Err(_) => {
            let says = format!("{issuer} does not answer within {patience:?}");
            return found.failed(
                CHECK,
                says,
                "see whether a firewall is in the way; --timeout waits for longer",
            );
        }
    };
    let keys = format!("{} of its {} keys", looked.usable, looked.published);
    if looked.usable == 0 {
        let remedy = "have it sign with RS256, PS256, ES256 or EdDSA, by a key of 2048 bits or more";
        found.failed(CHECK, format!("{issuer} answers, and {keys} can check a signature here"), remedy);
    } else {
        found.ok(CHECK, format!("{issuer} answers and calls itself so; {keys} can check a signature here"));
    }
    devices(&config.oidc, looked.has_devices, found);
}

/// Whether `tenure login` can sign in by a browser elsewhere.
fn devices(oidc: &Oidc, has_devices: bool, found: &mut Findings) {
    match (has_devices, oidc.device_client_id.is_empty()) {
        (true, _) => {
            let says =
                format!("it offers sign-in for devices: `tenure login` asks as {}", oidc.device_client());
            found.ok(CHECK, says);
        }
        (false, true) => {
            found.ok(CHECK, "it offers no sign-in for devices: `tenure login` needs --id-token-file");
        }
        (false, false) => found.failed(
            CHECK,
            "oidc.device_client_id is set, and the provider offers no sign-in for devices",
            "turn the device flow (RFC 8628) on there, or leave the setting out",
        ),
    }
}

/// Whether browsers come back from the provider.
fn url(config: &Config, found: &mut Findings) {
    let said = &config.oidc.url;
    if said.is_empty() {
        return found.ok(CHECK, "oidc.url is not set: the console offers no sign-in, the command line does");
    }
    let Ok(url) = Url::parse(said) else { return };
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        let says = format!("oidc.url {said} has more than a host: the console is served at `/` alone");
        return found.warning(CHECK, says, format!("name the address alone: {PAGE}"));
    }
    let is_near = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    if is_near && !config.listen.ip().to_canonical().is_loopback() {
        let says =
            format!("oidc.url {said} is this machine, and browsers of others are sent back to their own");
        return found.warning(
            CHECK,
            says,
            format!("name the address that browsers know the server by: {PAGE}"),
        );
    }
    found.ok(CHECK, format!("browsers come back to {}/login/callback", said.trim_end_matches('/')));
}

#[cfg(test)]
mod tests {
    use crate::commands::doctor::{finding::State, oidc::*};

    fn state(say: impl Fn(&mut Findings)) -> State {
        let mut found = Findings::default();
        say(&mut found);
        assert_eq!(found.0.len(), 1, "{found:?}");
        found.0[0].state
    }

    #[test]
    fn an_address_that_no_browser_comes_back_to_is_told() {
        let of = |said: &str, listen: &str| {
            let mut config = Config { listen: listen.parse().unwrap(), ..Config::default() };
            config.oidc.url = said.into();
            state(|found| url(&config, found))
        };
        assert_eq!(of("", "0.0.0.0:7878"), State::Ok);
        assert_eq!(of("https://tenure.example.com/", "0.0.0.0:7878"), State::Ok);
        assert_eq!(of("http://127.0.0.1:7878", "127.0.0.1:7878"), State::Ok);
        for said in ["https://example.com/tenure", "https://example.com/?a=b", "http://localhost:7878"] {
            assert_eq!(of(said, "0.0.0.0:7878"), State::Warning, "{said}");
        }
    }

    #[test]
    fn a_client_for_devices_needs_a_provider_that_has_them() {
        let of = |client: &str, has: bool| {
            let oidc = Oidc { device_client_id: client.into(), ..Oidc::default() };
            state(|found| devices(&oidc, has, found))
        };
        assert_eq!((of("cli", true), of("", false)), (State::Ok, State::Ok));
        assert_eq!(of("cli", false), State::Failed);
    }
}
