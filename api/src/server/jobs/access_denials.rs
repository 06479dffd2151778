//! Records refused requests for the audit.

use crate::state::SharedState;
use std::time::Duration;
use tokio::sync::oneshot;

/// The interval of writes.
const EVERY: Duration = Duration::from_secs(1);
/// How long a stopping server tries to write the rest.
const LAST: Duration = Duration::from_secs(5);

/// Runs until `over` reports that no more requests are answered, then writes the rest.
pub(crate) async fn run(app: SharedState, mut over: oneshot::Receiver<()>) {
    let mut told = None;
    loop {
        let last = tokio::select! {
            _ = &mut over => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        let problem = if last {
            let written = tokio::time::timeout(LAST, app.denials.write(&app.engine, true)).await;
            written.map_or_else(|_| Some("no answer from the store".to_owned()), |ended| said(ended.err()))
        } else {
            said(app.denials.write(&app.engine, false).await.err())
        };
        if problem != told {
            match &problem {
                Some(why) => {
                    tracing::error!(why, "cannot record refused requests; they are kept in memory")
                }
                None => tracing::info!("refused requests are recorded again"),
            }
            told = problem;
        }
        if last {
            let left = app.denials.left();
            if left > 0 {
                tracing::error!(left, "some refused requests are not recorded: the server stops");
            }
            return;
        }
    }
}

fn said(error: Option<store::Error>) -> Option<String> {
    error.map(|error| error.to_string())
}
