//! Records the last use of tokens.

use crate::{auth::KeptToken, state::SharedState};
use engine::Error;
use std::time::Duration;
use store::Timestamp;
use tokio::sync::watch;

/// The interval of writes.
const EVERY: Duration = Duration::from_secs(2);

/// Runs until `stop`.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        // A store on hold must not change.
        if !app.free(&mut stop).await {
            return;
        }
        for (token, at) in app.uses.take(app.engine.clock().now()) {
            if let Err(error) = write(&app, &token, at).await {
                tracing::debug!(%error, "cannot record the use of a token; its next use in another hour is recorded");
            }
        }
    }
}

/// Uses of sessions are not recorded, because sessions expire.
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
