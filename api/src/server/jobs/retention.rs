//! Forgets finished executions once they are kept no longer; what is kept of them is told in `docs/audit.md`.

use crate::{
    config::Retention,
    state::{App, Shared},
};
use engine::{Error, Expiring, Keep, Workflow as _};
use std::time::Duration;
use store::ExecutionId;
use tokio::sync::watch;
use workflows::{
    audit,
    offboarding::{Offboarding, node_sanitisation::NodeSanitisation},
};

/// How often it is looked whether something is due.
const EVERY: Duration = Duration::from_secs(3_600);
/// Executions looked at in one batch.
const BATCH: usize = 100;
/// Workflows that destroy: their executions are kept for ever unless the configuration names them.
const KEPT: [&str; 2] = [Offboarding::NAME, NodeSanitisation::NAME];

impl Retention {
    /// What is kept how long.
    pub(crate) fn keep(&self) -> Keep {
        let mut keep = Keep { all: self.after.0, ..Keep::default() };
        keep.of.extend(KEPT.map(|name| (name.to_owned(), None)));
        keep.of.extend(self.workflows.iter().map(|(name, kept)| (name.clone(), kept.0)));
        keep
    }

    /// Whether every workflow that is named is one of `known`.
    ///
    /// # Errors
    /// The key at fault, and which names there are.
    pub(crate) fn check(&self, known: &[String]) -> Result<(), String> {
        match self.workflows.keys().find(|name| !known.contains(name)) {
            None => Ok(()),
            Some(name) => Err(format!(
                "retention.workflows.{name}: there is no such workflow; there are: {}",
                known.join(", ")
            )),
        }
    }
}

/// Works until `stop` says so.
pub(crate) async fn run(app: Shared, mut stop: watch::Receiver<bool>) {
    let clock = app.engine.clock().clone();
    loop {
        if !app.free(&mut stop).await {
            return;
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            ended = sweep(&app) => match ended {
                Ok(0) => {}
                Ok(went) => tracing::info!(went, "finished executions were forgotten"),
                Err(error) => {
                    tracing::warn!(%error, "what is kept no longer could not be forgotten; the next hour will");
                }
            },
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = clock.sleep_until(clock.now().after(EVERY)) => {}
        }
    }
}

/// Forgets all that is due, batch by batch, and says how many went.
async fn sweep(app: &App) -> Result<usize, Error> {
    let (mut went, mut after) = (0_usize, None);
    loop {
        let (found, next) = batch(app, after, true).await?;
        went = went.saturating_add(found.iter().filter(|one| one.stays.is_none()).count());
        after = next;
        if after.is_none() {
            return Ok(went);
        }
    }
}

/// Those of the next executions that are old enough, forgotten if `erase`, and where to go on.
pub(crate) async fn batch(
    app: &App,
    after: Option<ExecutionId>,
    erase: bool,
) -> Result<(Vec<Expiring>, Option<ExecutionId>), Error> {
    let keep = app.config.retention.keep();
    let cursor = audit::cursor(&**app.engine.store()).await?;
    let sealed = |first, last| cursor.covers(first, last);
    let found = app.engine.expire(&keep, sealed, after, BATCH, erase).await?;
    Ok((found.looked_at, found.next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Kept;

    #[test]
    fn what_destroys_is_kept_for_ever_unless_it_is_named() {
        let year = Kept(Some(Duration::from_secs(365 * 86_400)));
        let keep = Retention { after: year, ..Retention::default() }.keep();
        assert_eq!(keep.of, KEPT.map(|name| (name.to_owned(), None)).into());
        let named = Retention { after: year, workflows: [("offboarding".to_owned(), year)].into() }.keep();
        assert_eq!(named.of.get("offboarding"), Some(&year.0));
    }

    #[test]
    fn a_workflow_that_there_is_not_is_refused_by_name() {
        let settings =
            Retention { workflows: [("reclam".to_owned(), Kept(None))].into(), ..Retention::default() };
        let why = settings.check(&["reclaim".to_owned()]).unwrap_err();
        assert_eq!(why, "retention.workflows.reclam: there is no such workflow; there are: reclaim");
    }
}
