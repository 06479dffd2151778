//! Writes down when each token was used last.

use crate::{auth::KeptToken, state::SharedState};
use engine::Error;
use std::time::Duration;
use store::Timestamp;
use tokio::sync::watch;

/// How often what was noted is written.
const EVERY: Duration = Duration::from_secs(2);

/// Writes until `stop` says so.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        // A held store is to stay as it is.
        if !app.free(&mut stop).await {
            return;
        }
        for (token, at) in app.uses.take(app.engine.clock().now()) {
            if let Err(error) = write(&app, &token, at).await {
                tracing::debug!(%error, "when a token was used could not be written down; its next hour will be");
            }
        }
    }
}

/// Sessions are not told of: they end by themselves.
async fn write(app: &SharedState, token: &str, at: Timestamp) -> Result<(), Error> {
    app.engine
        .transact(true, |view| match view.get::<KeptToken>(token)? {
            Some(kept) if kept.used_at.is_none_or(|before| before < at) => {
                view.put(&KeptToken { used_at: Some(at), ..kept })
            }
            Some(_) | None => Ok(()),
        })
        .await
}
