//! Retention of finished executions: which ones are due, and their removal. `docs/audit.md` lists the data that is kept.

use crate::{config::Retention, state::ServerState};
use engine::{Error, ExpiredExecution, RetentionPolicy, Workflow as _};
use store::ExecutionId;
use workflows::{
    audit,
    offboarding::{Offboarding, node_sanitisation::NodeSanitisation},
    sweeps,
};

/// The number of executions per batch.
const BATCH: usize = 100;
/// Workflows of data destruction: their executions are kept without limit unless the configuration names them.
const KEPT: [&str; 2] = [Offboarding::NAME, NodeSanitisation::NAME];

impl Retention {
    /// Returns the retention periods.
    pub(crate) fn keep(&self) -> RetentionPolicy {
        let mut keep = RetentionPolicy { default: self.after.0, ..RetentionPolicy::default() };
        keep.by_workflow.extend(KEPT.map(|name| (name.to_owned(), None)));
        keep.by_workflow.extend(self.workflows.iter().map(|(name, kept)| (name.clone(), kept.0)));
        keep
    }

    /// Checks that every configured workflow is one of `known`.
    ///
    /// # Errors
    /// The invalid key, and the known names.
    pub fn check(&self, known: &[String]) -> Result<(), String> {
        match self.workflows.keys().find(|name| !known.contains(name)) {
            None => Ok(()),
            Some(name) => Err(format!(
                "retention.workflows.{name}: there is no such workflow; use one of: {}",
                known.join(", ")
            )),
        }
    }
}

/// Returns the due ones of the next executions, removed if `erase`, and the next position.
pub(crate) async fn batch(
    app: &ServerState,
    after: Option<ExecutionId>,
    erase: bool,
) -> Result<(Vec<ExpiredExecution>, Option<ExecutionId>), Error> {
    let held = sweeps::tenants_on_hold(&app.engine).await?;
    let keep = RetentionPolicy { held, ..app.config.retention.keep() };
    let cursor = audit::cursor(&**app.engine.store()).await?;
    let sealed = |first, last| cursor.covers(first, last);
    let found = app.engine.expire(&keep, sealed, after, BATCH, erase).await?;
    Ok((found.examined, found.next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RetentionPeriod;
    use std::time::Duration;

    #[test]
    fn executions_of_data_destruction_are_kept_unless_their_workflow_is_configured() {
        let year = RetentionPeriod(Some(Duration::from_secs(365 * 86_400)));
        let keep = Retention { after: year, ..Retention::default() }.keep();
        assert_eq!(keep.by_workflow, KEPT.map(|name| (name.to_owned(), None)).into());
        let named = Retention { after: year, workflows: [("offboarding".to_owned(), year)].into() }.keep();
        assert_eq!(named.by_workflow.get("offboarding"), Some(&year.0));
    }

    #[test]
    fn an_unknown_workflow_is_refused_by_name() {
        let settings = Retention {
            workflows: [("reclam".to_owned(), RetentionPeriod(None))].into(),
            ..Retention::default()
        };
        let why = settings.check(&["reclaim".to_owned()]).unwrap_err();
        assert_eq!(why, "retention.workflows.reclam: there is no such workflow; use one of: reclaim");
    }
}
