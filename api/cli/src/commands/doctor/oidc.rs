//! Checks of the identity provider.

use crate::commands::doctor::finding::Findings;
use api::{
    config::{Config, Oidc},
    oidc::Provider,
};
use engine::{Clock as _, SystemClock};
use reqwest::Url;
use std::time::Duration;

/// The name of the check.
const CHECK: &str = "identity provider";
/// The page that describes the settings.
const PAGE: &str = "see the manual, page access";

/// Checks the settings, and the provider itself if `patience` is given.
pub(super) async fn look(config: &Config, patience: Option<Duration>, found: &mut Findings) {
    let provider = match Provider::of(&config.oidc) {
        Ok(Some(provider)) => provider,
        Ok(None) => return found.ok(CHECK, "none is set; every caller needs a token of this service"),
        Err(why) => return found.failed(CHECK, why, "name a file that the server can read"),
    };
    url(config, found);
    let Some(patience) = patience else { return };
    let issuer = &config.oidc.issuer;
    let looked = match tokio::time::timeout(patience, provider.look(SystemClock.now())).await {
        Ok(Ok(looked)) => looked,
        Ok(Err(error)) => {
            let remedy = "check that oidc.issuer equals the issuer in the discovery document exactly; set oidc.ca_file for your own certificate authority";
            return found.failed(CHECK, format!("{issuer}: {error}"), remedy);
        }
        Err(_) => {
            let says = format!("{issuer} does not answer within {patience:?}");
            return found.failed(CHECK, says, "check firewalls; --timeout sets a longer wait");
        }
    };
    let keys = format!("{} of its {} keys", looked.usable, looked.published);
    if looked.usable == 0 {
        let remedy =
            "configure it to sign with RS256, PS256, ES256 or EdDSA, with an RSA key of at least 2048 bits";
        found.failed(CHECK, format!("{issuer} answers; {keys} are supported"), remedy);
    } else {
        found.ok(CHECK, format!("{issuer} answers with the same issuer; {keys} are supported"));
    }
    devices(&config.oidc, looked.has_devices, found);
}

/// Checks whether `tenure login` can use the device flow.
fn devices(oidc: &Oidc, has_devices: bool, found: &mut Findings) {
    match (has_devices, oidc.device_client_id.is_empty()) {
        (true, _) => {
            let says =
                format!("it offers the device flow; `tenure login` uses the client {}", oidc.device_client());
            found.ok(CHECK, says);
        }
        (false, true) => {
            found.ok(CHECK, "it offers no device flow; `tenure login` needs --id-token-file");
        }
        (false, false) => found.failed(
            CHECK,
            "oidc.device_client_id is set, but the provider offers no device flow",
            "enable the device flow (RFC 8628) at the provider, or remove the setting",
        ),
    }
}

/// Checks whether the provider can send browsers back to the console.
fn url(config: &Config, found: &mut Findings) {
    let said = &config.oidc.url;
    if said.is_empty() {
        return found.ok(CHECK, "oidc.url is not set; only the command line offers sign-in");
    }
    let Ok(url) = Url::parse(said) else { return };
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        let says = format!("oidc.url {said} has a path or a query, but the console is served at `/`");
        return found.warning(CHECK, says, format!("remove the path and the query; {PAGE}"));
    }
    let is_near = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    if is_near && !config.listen.ip().to_canonical().is_loopback() {
        let says = format!(
            "oidc.url {said} is a loopback address, so browsers on other machines cannot return to the server"
        );
        return found.warning(
            CHECK,
            says,
            format!("name the address at which browsers reach the server; {PAGE}"),
        );
    }
    found.ok(CHECK, format!("browsers return to {}/login/callback", said.trim_end_matches('/')));
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
    fn an_address_that_browsers_cannot_return_to_is_a_warning() {
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
    fn a_device_client_needs_a_provider_with_the_device_flow() {
        let of = |client: &str, has: bool| {
            let oidc = Oidc { device_client_id: client.into(), ..Oidc::default() };
            state(|found| devices(&oidc, has, found))
        };
        assert_eq!((of("cli", true), of("", false)), (State::Ok, State::Ok));
        assert_eq!(of("cli", false), State::Failed);
    }
}
