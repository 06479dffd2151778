//! `tenure notify sink`: receives webhooks and prints one line each, to test a channel without a service.

use crate::{
    common::{Common, Format},
    output,
};
use api::notify::SigningKeys;
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use clap::Args;
use engine::{Clock as _, SystemClock};
use program::exit::{Exit, Failure};
use serde_json::{Value, json};
use std::{net::SocketAddr, path::PathBuf, sync::Arc};
use tokio::net::TcpListener;

/// Options of the receiver.
#[derive(Debug, Args)]
pub(crate) struct Receiver {
    /// Address to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9999")]
    listen: SocketAddr,
    /// File with the signing secret, the same as `secret_file` of the channel; unsigned requests are rejected [default: accept all].
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

/// The state of the receiver.
#[derive(Clone)]
struct Taking {
    keys: Option<Arc<SigningKeys>>,
    format: Format,
}

impl Receiver {
    /// Receives webhooks until interrupted.
    pub(crate) async fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let usage = |why: String| Failure::new(Exit::Usage, why);
        let file = self.secret_file.as_ref().map(|file| file.display().to_string());
        let keys = file.as_deref().map(|file| SigningKeys::of([("--secret-file", file)].into_iter()));
        let keys = keys.transpose().map_err(usage)?.map(Arc::new);
        let unbound = |error| Failure::other(format!("cannot listen on {}: {error}", self.listen));
        let listener = TcpListener::bind(self.listen).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        let checks = if keys.is_some() { "signatures are checked" } else { "signatures are not checked" };
        output::note(&format!("listening for webhooks at http://{address}/; {checks}; ctrl-c to stop"));
        let router = Router::new().fallback(take).with_state(Taking { keys, format: common.output });
        let ended = async { _ = tokio::signal::ctrl_c().await };
        axum::serve(listener, router).with_graceful_shutdown(ended).await.map_err(Failure::other)?;
        Ok(Exit::Interrupted)
    }
}

async fn take(State(taking): State<Taking>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (id, now) = (header("webhook-id"), SystemClock.now().0 / 1_000);
    let signed = (id, header("webhook-timestamp"), header("webhook-signature"));
    let checked = taking.keys.as_ref().map(|keys| keys.verify(signed, &body, now));
    let signature: &str = match checked {
        None => "not checked",
        Some(Ok(())) => "valid",
        Some(Err(why)) => why.into(),
    };
    let event: Value = serde_json::from_slice(&body).unwrap_or_default();
    let line = match taking.format {
        Format::Json => json!({ "id": id, "signature": signature, "event": event }).to_string(),
        Format::Table | Format::Yaml => {
            let said = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or("-");
            let words = [said("/time"), said("/type"), said("/subject"), signature, said("/data/text")];
            words.map(output::sanitize).join("  ")
        }
    };
    // The reader of standard output may have gone; the sender still gets an answer.
    _ = output::say(&format!("{line}\n"));
    match checked {
        None | Some(Ok(())) => StatusCode::NO_CONTENT,
        Some(Err(_)) => StatusCode::UNAUTHORIZED,
    }
}
