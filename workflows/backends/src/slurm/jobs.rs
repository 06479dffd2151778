//! Slurm jobs as workloads: notices in comments, checkpoint requests by signal, eviction by requeue and hold, start by
//! release.
//!
//! A workload consists of all unfinished jobs with its name in the account of its workspace. Slurm keeps a job's place
//! in the queue by its priority. An evicted job stays held until a start releases it. A requeued job waits two minutes;
//! a release skips that wait.

use crate::slurm::{
    BACKEND, ChangeReport, SlurmCluster,
    account_tree::account_of,
    change_report,
    owner_label::{escaped, word_of},
    responses::Job,
    tools::ToolResult,
    unsupported, within,
};
use async_trait::async_trait;
use engine::ActionError;
use std::collections::BTreeSet;
use workflows::platform::{
    CallMetadata, GpuSet, ObservedGpus, RunningWorkload, ScrubLevel, Scrubbed, WorkloadNotice, WorkloadRef,
    Workloads, codes, tenant_name,
};

/// The text that a job writes into its own comment after it has saved a checkpoint.
const SAVED: &str = "checkpointed";

#[async_trait]
impl Workloads for SlurmCluster {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    async fn observe(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
    ) -> Result<Option<RunningWorkload>, ActionError> {
        let jobs = within(stamp, false, self.jobs_of(of)).await?;
        Ok((!jobs.is_empty()).then(|| seen(&jobs)))
    }

    async fn start(
        &self,
        of: &WorkloadRef,
        gpus: &GpuSet,
        service: bool,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        if service {
            return Err(unsupported("slurm sends no requests to a service: let it run elsewhere"));
        }
        within(stamp, true, self.kept(|| self.started(of, gpus, stamp))).await
    }

    async fn set_notice(
        &self,
        of: &WorkloadRef,
        telling: &WorkloadNotice,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        within(stamp, true, self.told(of, telling, stamp)).await
    }

    async fn checkpoint(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<bool, ActionError> {
        within(stamp, true, self.saved(of, stamp)).await
    }

    async fn evict(&self, of: &WorkloadRef, uid: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        within(stamp, true, self.kept(|| self.evicted(of, uid, stamp))).await
    }

    async fn force_remove(
        &self,
        of: &WorkloadRef,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        within(stamp, true, self.forced(of, uid, stamp)).await
    }

    async fn requeue(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<(), ActionError> {
        // Held jobs stay held; only a start releases them.
        within(stamp, true, self.told(of, &WorkloadNotice::GoesOn, stamp)).await
    }

    async fn clients(
        &self,
        _cluster: &str,
        node: &str,
        gpus: &BTreeSet<u16>,
        stamp: &CallMetadata,
    ) -> Result<Vec<String>, ActionError> {
        let jobs = within(stamp, false, self.live_jobs(|_| true)).await?;
        let on_them =
            |job: &&Job| job.is_on_nodes() && job.gpus.get(node).is_some_and(|held| !held.is_disjoint(gpus));
        Ok(jobs
            .iter()
            .filter(on_them)
            .map(|job| format!("{}/{} (job {})", job.account, job.name, job.id))
            .collect())
    }

    async fn scrub(
        &self,
        _cluster: &str,
        _node: &str,
        _gpus: &BTreeSet<u16>,
        _level: ScrubLevel,
        _stamp: &CallMetadata,
    ) -> Result<Scrubbed, ActionError> {
        Err(unsupported("slurm clears no memory of GPUs: that is for an agent on the node"))
    }
}

impl SlurmCluster {
    /// Returns the unfinished jobs of a workload, oldest first.
    async fn jobs_of(&self, of: &WorkloadRef) -> Result<Vec<Job>, ActionError> {
        let account = account_of(&tenant_name(&of.tenant)?, &of.workspace);
        let mut jobs = self.live_jobs(|one| one == account).await?;
        jobs.retain(|job| job.name == of.name);
        jobs.sort_by_key(|job| job.id);
        Ok(jobs)
    }

    /// Returns the jobs of a workload. Fails if they are not the jobs of this uid.
    async fn jobs_if(&self, of: &WorkloadRef, uid: &str) -> Result<Vec<Job>, ActionError> {
        let jobs = self.jobs_of(of).await?;
        let seen: BTreeSet<&str> = uid.split(',').collect();
        if jobs.iter().all(|job| seen.contains(job.id.to_string().as_str())) {
            return Ok(jobs);
        }
        let why = format!("{} was submitted anew meanwhile: its jobs are {}", of.full_name(), ids(&jobs));
        Err(ActionError::transient(codes::OBJECT_CHANGED, why))
    }

    async fn started(
        &self,
        of: &WorkloadRef,
        gpus: &GpuSet,
        stamp: &CallMetadata,
    ) -> Result<ChangeReport<()>, ActionError> {
        if self.jobs_of(of).await?.is_empty() {
            let why = format!("there is no job {} in the account of its workspace", of.full_name());
            return Err(ActionError::permanent(codes::OBJECT_MISSING, why));
        }
        let nodes: Vec<&str> = gpus.keys().map(String::as_str).collect();
        self.released(of, (!nodes.is_empty()).then(|| nodes.join(",")), stamp).await
    }

    /// Releases the jobs to run as soon as possible, on the given nodes if any.
    async fn released(
        &self,
        of: &WorkloadRef,
        nodes: Option<String>,
        stamp: &CallMetadata,
    ) -> Result<ChangeReport<()>, ActionError> {
        let jobs = self.jobs_of(of).await?;
        let were_held = jobs.iter().any(Job::is_held) && !stamp.dry_run;
        for job in jobs.iter().filter(|job| job.is_pending() && !stamp.dry_run) {
            let id = format!("JobId={}", job.id);
            let mut all = vec!["update", id.as_str(), "StartTime=now"];
            let note = note_of(job, "");
            all.push(&note);
            let nodes = nodes.as_ref().map(|nodes| format!("ReqNodeList={nodes}"));
            all.extend(nodes.as_deref());
            absent_is_fine(self.tools.scontrol(&all).await)?;
            if job.is_held() {
                absent_is_fine(self.tools.scontrol(&["release", &job.id.to_string()]).await)?;
            }
        }
        match self.jobs_of(of).await?.iter().find(|job| job.is_held() && !stamp.dry_run) {
            Some(held) => Err(super::not_kept(&format!("the release of job {}", held.id))),
            None => Ok(change_report(were_held, ())),
        }
    }

    async fn told(
        &self,
        of: &WorkloadRef,
        telling: &WorkloadNotice,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let words = match telling {
            WorkloadNotice::EndsAt(at) => format!("ends_at={at} step={}", escaped(&stamp.step)),
            WorkloadNotice::GoesOn => String::new(),
            WorkloadNotice::Weight(_) => {
                return Err(unsupported("slurm sends no requests to a service, in any share"));
            }
        };
        for job in self.jobs_of(of).await?.iter().filter(|_| !stamp.dry_run) {
            let same =
                word_of(&job.admin_comment, "ends_at") == word_of(&format!("tenure {words}"), "ends_at");
            if same && !words.is_empty() {
                continue;
            }
            self.note(job, &words).await?;
            if *telling == WorkloadNotice::GoesOn && job.comment.contains(SAVED) {
                let comment = format!("Comment={}", job.comment.replace(SAVED, "").trim());
                absent_is_fine(
                    self.tools.scontrol(&["update", &format!("JobId={}", job.id), &comment]).await,
                )?;
            }
        }
        Ok(())
    }

    /// Writes our line to a job's administrative comment. A job that has ended is skipped.
    async fn note(&self, job: &Job, words: &str) -> Result<(), ActionError> {
        let id = format!("JobId={}", job.id);
        absent_is_fine(self.tools.scontrol(&["update", &id, &note_of(job, words)]).await).map(drop)
    }

    async fn saved(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<bool, ActionError> {
        let jobs = self.jobs_of(of).await?;
        let mut all_saved = true;
        for job in jobs.iter().filter(|job| job.is_on_nodes() && !job.comment.contains(SAVED)) {
            all_saved = false;
            if stamp.dry_run || word_of(&job.admin_comment, "asked").is_some() {
                continue;
            }
            // The signal is sent before it is recorded: a repeated signal is harmless, a missing one is not.
            absent_is_fine(self.tools.signal(job.id, &self.checkpoint_signal).await)?;
            let ends = word_of(&job.admin_comment, "ends_at").map(|at| format!("ends_at={at} "));
            self.note(job, &format!("{}asked=1 step={}", ends.unwrap_or_default(), escaped(&stamp.step)))
                .await?;
        }
        Ok(all_saved)
    }

    async fn evicted(
        &self,
        of: &WorkloadRef,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<ChangeReport<()>, ActionError> {
        let jobs = self.jobs_if(of, uid).await?;
        let mut wrote = false;
        for job in jobs.iter().filter(|job| !job.is_held() && !stamp.dry_run) {
            let id = job.id.to_string();
            // A job that is completing was evicted before or ends by itself.
            wrote |= job.states.iter().all(|state| state != "COMPLETING");
            if job.is_pending() {
                absent_is_fine(self.tools.scontrol(&["hold", &id]).await)?;
                continue;
            }
            match absent_is_fine(self.tools.scontrol(&["requeuehold", &id]).await) {
                // The job was already ending, or must not be requeued, so it is cancelled.
                Err(error) if error.code == codes::UNSUPPORTED && !job.requeues => {
                    self.rest.cancel(job.id).await?
                }
                Ok(ToolResult::Nothing) if job.states.iter().all(|state| state != "COMPLETING") => {
                    absent_is_fine(self.tools.scontrol(&["hold", &id]).await)?;
                }
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(change_report(wrote, ()))
    }

    /// Marks the nodes of a stuck job as down, which removes the job from them. Only nodes that the controller has
    /// lost.
    async fn forced(&self, of: &WorkloadRef, uid: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        let jobs = self.jobs_if(of, uid).await?;
        let nodes: BTreeSet<&String> =
            jobs.iter().filter(|job| job.is_on_nodes()).flat_map(|job| &job.nodes).collect();
        for name in &nodes {
            let node = self.rest.node(name).await?;
            if node.is_some_and(|node| !node.is_away()) {
                let why = format!("node {name} under {} still answers: fence it off first", of.full_name());
                return Err(ActionError::permanent(codes::NODE_ALIVE, why));
            }
        }
        for name in nodes.into_iter().filter(|_| !stamp.dry_run) {
            let (node, reason) =
                (format!("NodeName={name}"), format!("Reason=tenure {}", escaped(&stamp.step)));
            absent_is_fine(self.tools.scontrol(&["update", &node, "State=DOWN", &reason]).await)?;
        }
        Ok(())
    }
}

/// Returns the workload that its jobs form.
fn seen(jobs: &[Job]) -> RunningWorkload {
    let mut gpus = GpuSet::new();
    for job in jobs.iter().filter(|job| job.is_on_nodes()) {
        for (node, held) in &job.gpus {
            gpus.entry(node.clone()).or_default().extend(held);
        }
    }
    let on_nodes = || jobs.iter().filter(|job| job.is_on_nodes());
    RunningWorkload {
        uid: ids(jobs),
        active: jobs.iter().any(|job| !job.is_held()),
        pods: on_nodes().next().is_some(),
        gpus: ObservedGpus::reported(gpus),
        weight: None,
        reclaim_at: jobs.iter().find_map(|job| word_of(&job.admin_comment, "ends_at")?.parse().ok()),
        checkpointed: on_nodes().next().is_some() && on_nodes().all(|job| job.comment.contains(SAVED)),
    }
}

fn ids(jobs: &[Job]) -> String {
    let ids: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
    ids.join(",")
}

/// Returns the argument that sets our line in a job's administrative comment. Text of others stays after a bar.
fn note_of(job: &Job, words: &str) -> String {
    let others = match job.admin_comment.split_once(" | ") {
        Some((_, others)) => others,
        None if job.admin_comment.starts_with("tenure ") => "",
        None => &job.admin_comment,
    };
    let ours = if words.is_empty() { String::new() } else { format!("tenure {words}") };
    match (ours.is_empty(), others.is_empty()) {
        (true, _) => format!("AdminComment={others}"),
        (false, true) => format!("AdminComment={ours}"),
        (false, false) => format!("AdminComment={ours} | {others}"),
    }
}

/// Treats an absent job as success.
fn absent_is_fine(ran: Result<ToolResult, ActionError>) -> Result<ToolResult, ActionError> {
    match ran {
        Err(error) if error.code == codes::OBJECT_MISSING => Ok(ToolResult::Nothing),
        ran => ran,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_text_of_others_stays() {
        let job = |text: &str| Job { admin_comment: text.into(), ..Job::default() };
        assert_eq!(note_of(&job(""), "ends_at=5"), "AdminComment=tenure ends_at=5");
        let both = "tenure ends_at=5 | ticket 12";
        assert_eq!(note_of(&job("ticket 12"), "ends_at=5"), format!("AdminComment={both}"));
        assert_eq!(note_of(&job(both), ""), "AdminComment=ticket 12");
        assert_eq!(note_of(&job("tenure asked=1"), ""), "AdminComment=");
    }

    #[test]
    fn a_workload_consists_of_all_its_jobs() {
        let job = |id, state: &str, priority| Job {
            id,
            states: vec![state.into()],
            priority,
            gpus: GpuSet::from([("gpu0".into(), [u16::try_from(id).unwrap()].into())]),
            ..Job::default()
        };
        let both = seen(&[job(1, "RUNNING", 5), job(2, "PENDING", 0)]);
        assert_eq!((both.uid.as_str(), both.active, both.pods), ("1,2", true, true));
        assert_eq!(both.gpus, GpuSet::from([("gpu0".into(), [1].into())]));
        let held = seen(&[job(2, "PENDING", 0)]);
        assert!(!held.active && !held.pods && held.gpus.is_empty());
    }
}
