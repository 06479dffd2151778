//! `tenure login` and `tenure logout`.

use crate::{
    client::{
        Body, Client,
        contexts::{self, Contexts},
    },
    common::{Common, Format},
    output,
    secret::{SecretPlace, SecretTo},
};
use api::{
    config::Oidc,
    oidc::{DeviceAuthorization, Provider, SignInError},
};
use engine::{Clock as _, SystemClock};
use program::{
    exit::{Exit, Failure},
    files,
};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Login {
    /// Sign in with the ID token in this file; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    id_token_file: Option<PathBuf>,
    /// Claim your token with the code of `tenure user enrol`; `-` reads standard input. Revokes your earlier tokens.
    #[arg(long, value_name = "CODE", conflicts_with = "id_token_file")]
    enrol: Option<String>,
    /// Save the token in the context and do not print it; `tenure logout` removes it.
    #[arg(long, conflicts_with = "token_file")]
    save: bool,
    #[command(flatten)]
    to: SecretTo,
}

pub(crate) async fn login(common: &Common, own: Login) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    // Checked before the user signs in.
    let saved_to = if own.save { Some(context(common)?) } else { None };
    let saved_to = (saved_to, own.to.prepare()?);
    if let Some(code) = own.enrol {
        return enrol(common, &client, &code, saved_to).await;
    }
    let offered = client.get("/v1/login").await?.value()?;
    let Some(settings) = settings(&offered) else {
        let why = "the server has no identity provider: use a token from `tenure user add` with --token or TENURE_TOKEN";
        return Err(Failure::new(Exit::Usage, why));
    };
    let id_token = match own.id_token_file {
        Some(file) => files::read(&file)?,
        None => by_device(common, &settings).await?,
    };
    let body = Body::json(&json!({ "id_token": id_token.trim() }));
    let session = client.post("/v1/sessions", body).await?.value()?;
    let text = |name: &str| session.get(name).and_then(Value::as_str).unwrap_or_default();
    let said = format!("signed in as {} until {}", text("user"), text("ends_at"));
    hand_over(common, &session, &said, saved_to)
}

/// Claims a token with an enrolment code.
async fn enrol(
    common: &Common,
    client: &Client,
    code: &str,
    saved_to: (Option<String>, SecretPlace),
) -> Result<Exit, Failure> {
    let read = if code == "-" { files::read(std::path::Path::new("-"))? } else { code.to_owned() };
    let body = Body::json(&json!({ "code": read.trim() }));
    let claimed = client.post("/v1/enrolments:claim", body).await?.value()?;
    let user = claimed.get("user").and_then(Value::as_str).unwrap_or_default();
    let said = format!("enrolled as {user}; earlier tokens are revoked");
    hand_over(common, &claimed, &said, saved_to)
}

/// Saves the token in the context, or writes it to its destination.
fn hand_over(
    common: &Common,
    shown: &Value,
    said: &str,
    (context, place): (Option<String>, SecretPlace),
) -> Result<Exit, Failure> {
    if let Some(name) = context {
        let token = shown.get("token").and_then(Value::as_str).unwrap_or_default();
        keep(&name, Some(token.to_owned()))?;
        output::note(&format!("{said}; the token is saved in context {name}"));
        return Ok(Exit::Done);
    }
    if matches!(common.output, Format::Table) {
        output::note(said);
    }
    place.hand_over(common, "the token", shown, "token")?;
    Ok(Exit::Done)
}

pub(crate) async fn logout(common: &Common) -> Result<Exit, Failure> {
    Client::of(common)?.delete("/v1/sessions/mine").await?;
    let target = contexts::target(common)?;
    // The token of the context just ended, so it is removed from the file.
    let of_context = target.context.filter(|context| {
        target.token.as_ref().is_some_and(|token| token.by == format!("context {}", context.value))
    });
    if let Some(name) = of_context {
        keep(&name.value, None)?;
    }
    output::note("signed out");
    Ok(Exit::Done)
}

/// Returns the context in use, if the command calls its server.
fn context(common: &Common) -> Result<String, Failure> {
    let name = contexts::target(common)?.context.map(|found| found.value);
    name.ok_or_else(|| {
        let why = "--save: no context of this server is in use: create one with `tenure context set NAME --server URL`, and select it with --context NAME";
        Failure::new(Exit::Usage, why)
    })
}

/// Saves a token in a context, or removes it.
fn keep(name: &str, token: Option<String>) -> Result<(), Failure> {
    let file = contexts::file()
        .ok_or_else(|| Failure::other("the folder of the contexts file is unknown: set HOME"))?;
    let mut all = Contexts::read(&file)?;
    let missing = all.missing(name);
    let context = all.contexts.get_mut(name).ok_or(missing)?;
    if token.is_some() {
        context.token_file = None;
    }
    context.token = token;
    all.write(&file)
}

/// Reads the settings of the identity provider from the server's answer.
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
    let refused = |unopened: SignInError| Failure::other(unopened.to_string());
    let now = SystemClock.now();
    let consent = provider.ask_consent(now).await.map_err(refused)?;
    tell(common, &consent);
    provider.await_consent(&consent, now).await.map_err(refused)
}

fn tell(common: &Common, consent: &DeviceAuthorization) {
    let at = consent.verification_uri_complete.as_ref().unwrap_or(&consent.verification_uri);
    if let Format::Json | Format::Yaml = common.output {
        output::note(&json!({ "open": at, "code": consent.user_code }).to_string());
        return;
    }
    output::note(&format!("open {at} in a browser and compare the code: {}", consent.user_code));
    output::note(&format!("waiting up to {} min ...", consent.expires_in / 60));
}
