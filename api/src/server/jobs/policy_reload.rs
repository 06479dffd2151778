//! Reloads the operator's access policies when their file changes, and stores every text that was in force.

use crate::{
    auth::policy::AccessPolicies,
    state::{ServerState, SharedState},
};
use engine::{AuditContext, with_actor};
use std::time::Duration;
use tokio::sync::watch;

/// The interval of checks.
const EVERY: Duration = Duration::from_secs(2);

/// Checks the file every few seconds until `stop`, and stores new policies.
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
        // Reading may be slow, for example on a network file system.
        let replaced = tokio::task::spawn_blocking(move || looking.access.look()).await;
        is_kept &= !replaced.unwrap_or(false);
    }
}

/// Stores the policies in force, with an audit entry like every change. Returns true once they are stored.
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
            tracing::info!(version, "access policies are in force");
            true
        }
        Err(error) => {
            tracing::warn!(%error, "cannot store the access policies; trying again");
            false
        }
    }
}
