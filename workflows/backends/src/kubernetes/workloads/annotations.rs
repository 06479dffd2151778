//! What the owner of a workload is told, and answers: annotations on the workload and on its pods.
//!
//! An answer repeats the text of the question, so that one to an earlier question never passes for one to this.

use crate::kubernetes::workloads::{conditional_write::Change, observed::ObservedWorkload};
use crate::kubernetes::{
    cluster::KubernetesCluster,
    labels::{annotation, terminating},
};
use chrono::{DateTime, SecondsFormat};
use engine::ActionError;
use serde_json::{Value, json};
use tokio::time::Instant;
use workflows::platform::{CallMetadata, LOOK_AGAIN, WorkloadRef, codes};

impl KubernetesCluster {
    /// Says when it ends, in milliseconds since 1970.
    pub(super) async fn warned(
        &self,
        of: &WorkloadRef,
        ends: u64,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        let Some(known) = self.known(of, until).await? else { return Ok(()) };
        let moment = i64::try_from(ends).ok().and_then(DateTime::from_timestamp_millis).ok_or_else(|| {
            ActionError::permanent(
                codes::REFUSED,
                format!("{ends} ms since 1970 is no moment that can be written"),
            )
        })?;
        let ends = moment.to_rfc3339_opts(SecondsFormat::Millis, true);
        self.all_told(&known, &[(self.marks.reclaim_at(), Some(ends))], stamp, until).await
    }

    /// Says that it goes on: what was told and asked is taken back, and what was answered is void.
    pub(super) async fn reassured(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        match self.known(of, until).await? {
            Some(known) => self.all_told(&known, &self.nothing_told(), stamp, until).await,
            None => Ok(()),
        }
    }

    /// The annotations of a workload that nobody is told anything about.
    fn nothing_told(&self) -> [(String, Option<String>); 3] {
        [(self.marks.reclaim_at(), None), (self.marks.checkpoint(), None), (self.marks.checkpointed(), None)]
    }

    async fn all_told(
        &self,
        known: &ObservedWorkload,
        annotations: &[(String, Option<String>)],
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        for (seen, _) in known.told() {
            let change = |_: &Value| Ok(Some(Change { annotations: annotations.to_vec(), spec: None }));
            self.write(&seen, stamp, until, change).await?;
        }
        Ok(())
    }

    /// Asks it to save its work, once; whether its owner has answered that it has. What does not run has nothing to save.
    pub(super) async fn saved(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<bool, ActionError> {
        let Some(known) = self.known(of, until).await? else { return Ok(true) };
        if !known.runs() || self.has_saved(&known) {
            return Ok(true);
        }
        let key = self.marks.checkpoint();
        let question = known.says(&key).unwrap_or(&stamp.step).to_owned();
        for (seen, live) in known.told() {
            // Asked already; and what is on its way out is not asked any more.
            if annotation(live, &key).is_none() && !terminating(live) {
                let annotations = vec![(key.clone(), Some(question.clone()))];
                let change = |_: &Value| Ok(Some(Change { annotations: annotations.clone(), spec: None }));
                self.write(&seen, stamp, until, change).await?;
            }
        }
        Ok(false)
    }

    /// Whether the workload, or every pod of it, answers the question that it bears.
    pub(super) fn has_saved(&self, known: &ObservedWorkload) -> bool {
        let answers = |object: &Value| {
            annotation(object, &self.marks.checkpoint())
                .is_some_and(|asked| annotation(object, &self.marks.checkpointed()) == Some(asked))
        };
        known.queued.as_ref().is_some_and(|queued| answers(&queued.live))
            || (!known.pods.is_empty() && known.pods.iter().all(answers))
    }

    /// Takes back what was told. A `Workload` that is inactive stays so: only a start sets it active, after the books have admitted it.
    pub(super) async fn requeued(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        self.reassured(of, stamp, until).await
    }

    /// Lets it run, as far as that is for Tenure to say: a `Workload` is set active, and Kueue admits and places it. Pods of their own
    /// run when a scheduler has placed them.
    pub(super) async fn activated(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        let known = self.known(of, until).await?;
        let Some(known) = known else {
            let why = format!(
                "there is no Workload {} in the cluster, and no pod labelled {}={}: submit it, then retry",
                of.full_name(),
                self.marks.workload(),
                of.name
            );
            return Err(ActionError::permanent(codes::OBJECT_MISSING, why));
        };
        match &known.queued {
            Some(queued) => {
                let change = |_: &Value| {
                    Ok(Some(Change { spec: Some(json!({ "active": true })), ..Change::default() }))
                };
                self.write(&queued.seen(None), stamp, until, change).await.map(drop)
            }
            None if known.pods.iter().all(terminating) => {
                let message = format!("pods of an earlier {} are still ending", of.full_name());
                Err(ActionError { message, ..ActionError::pending(codes::WORKLOAD_TERMINATING, LOOK_AGAIN) })
            }
            None => Ok(()),
        }
    }
}
