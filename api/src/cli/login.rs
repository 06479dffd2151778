//! `tenure login` and `tenure logout`.

use super::{
    args::{Common, Format},
    client::{Body, Client},
    output,
};
use crate::{
    config::Oidc,
    exit::{Exit, Failure},
    oidc::{Consent, Provider, Unopened},
};
use engine::{Clock as _, SystemClock};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Login {
    /// Sign in with the ID token in this file, as machines do that are given one; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    id_token_file: Option<PathBuf>,
}

pub(super) async fn login(common: &Common, own: Login) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let offered = client.get("/v1/login").await?.value()?;
    let Some(settings) = settings(&offered) else {
        let why = "the server names no identity provider: use a token of `tenure user add`, with --token or TENURE_TOKEN";
        return Err(Failure::new(Exit::Usage, why));
    };
    let id_token = match own.id_token_file {
        Some(file) => super::files::read(&file)?,
        None => by_device(common, &settings).await?,
    };
    let body = Body::json(&json!({ "id_token": id_token.trim() }));
    let session = client.post("/v1/sessions", body).await?.value()?;
    let text = |name: &str| session.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, &session)?,
        // The token alone on standard output, so that it can be taken into a variable.
        Format::Table => {
            output::note(&format!("signed in as {} until {}; the token:", text("user"), text("ends_at")));
            output::say(&format!("{}\n", text("token")))?;
        }
    }
    Ok(Exit::Done)
}

pub(super) async fn logout(common: &Common) -> Result<Exit, Failure> {
    Client::of(common)?.delete("/v1/sessions/mine").await?;
    output::note("signed out");
    Ok(Exit::Done)
}

/// What the server says of its provider, as settings.
fn settings(offered: &Value) -> Option<Oidc> {
    let oidc = offered.get("oidc")?;
    let text = |name: &str| oidc.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    Some(Oidc {
        issuer: text("issuer")?,
        client_id: text("client_id")?,
        device_client_id: text("device_client_id")?,
        scopes: text("scopes")?,
        ..Oidc::default()
    })
}

async fn by_device(common: &Common, settings: &Oidc) -> Result<String, Failure> {
    let none = || Failure::other("the server names no issuer");
    let provider = Provider::of(settings).map_err(Failure::other)?.ok_or_else(none)?;
    let refused = |unopened: Unopened| Failure::other(unopened.to_string());
    let now = SystemClock.now();
    let consent = provider.ask_consent(now).await.map_err(refused)?;
    tell(common, &consent);
    provider.await_consent(&consent, now).await.map_err(refused)
}

fn tell(common: &Common, consent: &Consent) {
    let at = consent.verification_uri_complete.as_ref().unwrap_or(&consent.verification_uri);
    if let Format::Json | Format::Yaml = common.output {
        output::note(&json!({ "open": at, "code": consent.user_code }).to_string());
        return;
    }
    output::note(&format!("open {at} in any browser, and compare the code: {}", consent.user_code));
    output::note(&format!("waiting, for {} min at most ...", consent.expires_in / 60));
}
