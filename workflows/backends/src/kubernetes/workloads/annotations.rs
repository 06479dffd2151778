//! Notices to the owner of a workload and the owner's answers: annotations on the workload and its pods.
//!
//! An answer repeats the value of the request, so that an answer to an earlier request does not count.

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
    /// Announces the time of the eviction, in milliseconds since 1970.
    pub(super) async fn warned(
        &self,
        of: &WorkloadRef,
        ends: u64,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        let Some(known) = self.known(of, until).await? else { return Ok(()) };
        let moment = i64::try_from(ends).ok().and_then(DateTime::from_timestamp_millis).ok_or_else(|| {
            ActionError::permanent(codes::REFUSED, format!("{ends} ms since 1970 is not a valid timestamp"))
        })?;
        let ends = moment.to_rfc3339_opts(SecondsFormat::Millis, true);
        self.all_told(&known, &[(self.marks.reclaim_at(), Some(ends))], stamp, until).await
    }

    /// Withdraws all notices and requests, which also voids answers.
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

    /// Returns the annotations without any notice.
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

    /// Requests a checkpoint once. Returns true if the owner has confirmed it. A workload that does not run has nothing
    /// to save.
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
            // Skips objects that already have the request and objects that are being deleted.
            if annotation(live, &key).is_none() && !terminating(live) {
                let annotations = vec![(key.clone(), Some(question.clone()))];
                let change = |_: &Value| Ok(Some(Change { annotations: annotations.clone(), spec: None }));
                self.write(&seen, stamp, until, change).await?;
            }
        }
        Ok(false)
    }

    /// Returns true if the workload, or each of its pods, confirms the current request.
    pub(super) fn has_saved(&self, known: &ObservedWorkload) -> bool {
        let answers = |object: &Value| {
            annotation(object, &self.marks.checkpoint())
                .is_some_and(|asked| annotation(object, &self.marks.checkpointed()) == Some(asked))
        };
        known.queued.as_ref().is_some_and(|queued| answers(&queued.live))
            || (!known.pods.is_empty() && known.pods.iter().all(answers))
    }

    /// Withdraws the notices. An inactive `Workload` stays inactive: only a start activates it, after admission.
    pub(super) async fn requeued(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        self.reassured(of, stamp, until).await
    }

    /// Allows the workload to run: a `Workload` is set active, and Kueue admits and places it. Other pods run when a
    /// scheduler has placed them.
    pub(super) async fn activated(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        let known = self.known(of, until).await?;
        let Some(known) = known else {
            let why = format!(
                "the cluster has no Workload {}, and no pod with the label {}={}: submit it, then retry",
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
