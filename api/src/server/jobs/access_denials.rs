//! Puts requests that were refused on record for the audit.

use crate::state::SharedState;
use std::time::Duration;
use tokio::sync::oneshot;

/// How often what was noted is written.
const EVERY: Duration = Duration::from_secs(1);
/// How long a server that stops tries to write what is left.
const LAST: Duration = Duration::from_secs(5);

/// Writes until `over` says that nothing is answered any more, and then what is left.
pub(crate) async fn run(app: SharedState, mut over: oneshot::Receiver<()>) {
    let mut told = None;
    loop {
        let last = tokio::select! {
            _ = &mut over => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        let problem = if last {
            let written = tokio::time::timeout(LAST, app.denials.write(&app.engine, true)).await;
            written.map_or_else(|_| Some("the store does not answer".to_owned()), |ended| said(ended.err()))
        } else {
            said(app.denials.write(&app.engine, false).await.err())
        };
        if problem != told {
            match &problem {
                Some(why) => {
                    tracing::error!(why, "what was denied cannot be put on record; it is kept in memory")
                }
                None => tracing::info!("what was denied is put on record again"),
            }
            told = problem;
        }
        if last {
            let left = app.denials.left();
            if left > 0 {
                tracing::error!(left, "requests that were denied are not on record: the server stops");
            }
            return;
        }
    }
}

fn said(error: Option<store::Error>) -> Option<String> {
    error.map(|error| error.to_string())
}
