//! Reads the access policies of the house again when their file has changed, and keeps every text that was ever in force.

use crate::{
    auth::policy::AccessPolicies,
    state::{ServerState, SharedState},
};
use engine::{AuditContext, with_actor};
use std::time::Duration;
use tokio::sync::watch;

/// How often it is looked whether the file says something else.
const EVERY: Duration = Duration::from_secs(2);

/// Looks at the file every few seconds, until `stop`, and keeps what comes into force.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    if !app.access.has_file() {
        return;
    }
    let mut is_kept = false;
    loop {
        is_kept = is_kept || record_policies(&app).await;
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let looking = app.clone();
        // The file may be where a read takes long.
        let replaced = tokio::task::spawn_blocking(move || looking.access.look()).await;
        is_kept &= !replaced.unwrap_or(false);
    }
}

/// Keeps what is in force for whoever asks later, on the record as everything that somebody changes. True once it is kept.
async fn record_policies(app: &ServerState) -> bool {
    let (law, Some((file, text))) = app.access.now() else { return true };
    let version = law.version().to_owned();
    let behalf = AuditContext {
        by: "the operating system".into(),
        operation: "access.policies".into(),
        path: file.display().to_string(),
    };
    let kept = with_actor(
        behalf,
        app.engine.transact(true, |view| {
            if view.get::<AccessPolicies>(&version)?.is_none() {
                let (version, text, file) = (version.clone(), text.clone(), file.clone());
                view.put(&AccessPolicies { version, text, file, since: view.now() })?;
            }
            Ok(())
        }),
    );
    match kept.await {
        Ok(()) => {
            tracing::info!(version, "policies of access are in force");
            true
        }
        Err(error) => {
            tracing::warn!(%error, "the policies of access were not kept; trying again");
            false
        }
    }
}
