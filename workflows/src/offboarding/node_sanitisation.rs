//! Cleans one node of a leaving tenant for its next owner: drain, scrub, erase, verify, reinstall.
//!
//! A child of the offboarding, with its authority. The node belongs to the tenant throughout. A node that is not clean is quarantined, with a record
//! of the missing conditions; a missing record never counts as clean. The page with the diagram is `docs/workflows/node_sanitisation.md`.

mod examples;
mod ledger;
mod record;
mod records;
mod results;

pub use ledger::{BeginCleaning, BeginDraining, FileNode};
pub use record::{DriveProgress, NodeSanitisation, NodeVerdict, SanitisationDemands};

use crate::{
    offboarding::LeavingTenant,
    platform::{
        AwaitDrained, CordonNode, DiagnosisLevel, DriveTechnique, EnterScrub, FilledGpu, NodeDevices,
        Platform, QualifyFinding, QualifyNode, ReadDevices, ReimageNode, Reset, ResetMachine, Samples,
    },
    policy::Method,
    signing::Moment,
    tenancy::{NodeId, OwnerEpoch},
};
use engine::{
    DAY, HOUR, MINUTE, MadeRepair, Outcome, Plan, RetryPolicy, Step, Subject, Workflow, act, act_each, end,
    wait, when,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use store::ExecutionId;

/// The state of a sanitisation. Persisted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[allow(
    missing_docs,
    reason = "what each state does is said in `step`, and for people in docs/workflows/node_sanitisation.md"
)]
pub enum State {
    Cordoning,
    MarkingDraining,
    Draining,
    BeginningCleaning,
    EnteringScrub,
    ReadingDevices,
    ScrubbingGpus,
    ErasingDrives,
    ReadingProgress,
    JudgingDrives,
    WaitingForDrives,
    SamplingDrives,
    Resetting,
    Reimaging,
    Qualifying,
    Filing,
    Judging,
    Clean,
    Quarantined,
}

impl Workflow for NodeSanitisation {
    const NAME: &'static str = "node_sanitisation";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Cordoning;
    const AUTHORISED_BY_PARENT: bool = true;
    const EDITABLE: Option<&'static [&'static str]> = Some(&["demands"]);
    type State = State;
    type Platform = Platform;

    #[allow(clippy::too_many_lines, reason = "the machine is read top to bottom in one place")]
    fn step(&self, state: State) -> Step<Self> {
        use State::*;
        let (cluster, node) = (self.cluster.to_string(), self.node.to_string());
        let (tenant, owner_epoch) = (self.tenant.to_string(), self.owner_epoch.0);
        match state {
            // First prevent new work, then wait until no work runs. A node with running work is never wiped.
            Cordoning => act(CordonNode { cluster, node, tenant, owner_epoch })
                .nothing_to_undo()
                .or_else(Filing)
                .then(MarkingDraining),
            MarkingDraining => act(BeginDraining { node: self.node.clone(), epoch: self.owner_epoch })
                .nothing_to_undo()
                .then(Draining),
            Draining => act(AwaitDrained { cluster, node })
                .nothing_to_undo()
                .within(self.demands.drain)
                .or_else(Filing)
                .then(BeginningCleaning),
            BeginningCleaning => act(BeginCleaning { node: self.node.clone(), epoch: self.owner_epoch })
                .forward_only()
                .record(|me: &mut Self, at: Moment| me.begun_at = Some(at))
                .then(EnteringScrub),

            // The scrub runs in a trusted environment, on an isolated network.
            EnteringScrub => act(EnterScrub { cluster, node })
                .forward_only()
                .attempt_within(10 * MINUTE)
                .or_else(Filing)
                .then(ReadingDevices),
            ReadingDevices => act(ReadDevices { cluster, node, gpus: self.gpus })
                .forward_only()
                .record(Self::read)
                .or_else(Filing)
                .then(ScrubbingGpus),
            ScrubbingGpus => act_each(self.gpu_scrubs())
                .nothing_to_undo()
                .destroys()
                .record(|me: &mut Self, scrubbed: FilledGpu| me.scrubs.push(scrubbed))
                .attempt_within(20 * MINUTE)
                .retry(self.hardware_retry())
                .or_else(Filing)
                .then(ErasingDrives),

            // A drive erases itself. Its progress is polled, and no second command is sent while it works.
            ErasingDrives => act_each(self.erasures())
                .nothing_to_undo()
                .destroys()
                .retry(self.hardware_retry())
                .or_else(Filing)
                .then(ReadingProgress),
            ReadingProgress => act_each(self.readings())
                .forward_only()
                .record(Self::progressed)
                .or_else(Filing)
                .then(JudgingDrives),
            JudgingDrives => when(self.erased(), "all drives are erased", SamplingDrives)
                .or_when(self.stalled(), "a drive makes no progress", Filing)
                .or_when(self.failed() && self.may_retry(), "a drive has failed, try again", ErasingDrives)
                .or_when(self.failed(), "a drive has failed too often", Filing)
                .otherwise("at work", WaitingForDrives),
            WaitingForDrives => wait(self.check_interval()).then(ReadingProgress),
            SamplingDrives => act_each(self.samplings())
                .forward_only()
                .record(|me: &mut Self, samples: Samples| me.samples.push(samples))
                .attempt_within(HOUR)
                .or_else(Filing)
                .then(Resetting),

            // Resets memory, firmware and controllers. The reinstallation follows.
            Resetting => act(ResetMachine { cluster, node })
                .nothing_to_undo()
                .destroys()
                .record(|me: &mut Self, reset: Reset| me.reset = Some(reset))
                .attempt_within(20 * MINUTE)
                .retry(self.hardware_retry())
                .or_else(Filing)
                .then(Reimaging),
            Reimaging => act(ReimageNode { cluster, node })
                .forward_only()
                .record(|me: &mut Self, (): ()| me.installed = true)
                .attempt_within(20 * MINUTE)
                .or_else(Filing)
                .then(Qualifying),
            Qualifying => act(QualifyNode { cluster, node, level: DiagnosisLevel::Medium })
                .forward_only()
                .record(|me: &mut Self, found: QualifyFinding| me.qualified = Some(found))
                .attempt_within(20 * MINUTE)
                .or_else(Filing)
                .then(Filing),

            // Every observation is recorded. Only the records decide if the node is clean.
            Filing => act(FileNode { of: Box::new(self.clone()) })
                .nothing_to_undo()
                .record(|me: &mut Self, verdict: NodeVerdict| me.verdict = Some(verdict))
                .within(DAY)
                .then(Judging),
            Judging => when(self.is_clean(), "every record is valid", Clean)
                .otherwise("a record is missing or invalid", Quarantined),

            Clean => end(Outcome::Completed),
            Quarantined => end(Outcome::Rejected),
        }
    }

    fn subject(&self) -> Subject {
        let name = format!("node/{}", self.node);
        Subject { tenant: self.tenant.to_string(), guard: Some(name.clone()), name }
    }

    fn plan(&self) -> Plan {
        Plan {
            title: format!("sanitise node {}", self.node),
            decides: self.decides(),
            placement: Value::Null,
        }
    }

    fn note_repair(&mut self, repair: MadeRepair) {
        self.repairs.push(repair);
    }

    fn examples() -> Vec<Self> {
        examples::all()
    }
}

impl NodeSanitisation {
    /// Returns a new sanitisation of one node.
    #[must_use]
    pub fn new(
        leaver: &LeavingTenant,
        demands: &SanitisationDemands,
        run: ExecutionId,
        node: &NodeId,
        owner_epoch: OwnerEpoch,
        gpus: u64,
    ) -> Self {
        Self {
            tenant: leaver.tenant.clone(),
            cluster: leaver.cluster.clone(),
            node: node.clone(),
            owner_epoch,
            run,
            gpus,
            demands: demands.clone(),
            begun_at: None,
            devices: None,
            scrubs: Vec::new(),
            drives: BTreeMap::new(),
            samples: Vec::new(),
            reset: None,
            installed: false,
            qualified: None,
            verdict: None,
            repairs: Vec::new(),
        }
    }

    /// Returns the approved content for this node, which is also a part of the plan of its offboarding.
    #[must_use]
    pub fn decides(&self) -> Value {
        json!({ "sanitise": {
            "cluster": self.cluster, "node": self.node, "owner_epoch": self.owner_epoch,
            "drives": self.demands.drives, "gpu_memory": self.demands.gpu_memory,
        } })
    }

    /// Returns true if every asset of the node has a passing record.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.verdict.as_ref().is_some_and(|verdict| verdict.dirty.is_empty())
    }

    /// Hardware operations have a limited number of attempts.
    fn hardware_retry(&self) -> RetryPolicy {
        RetryPolicy { attempts: self.demands.attempts, ..RetryPolicy::default() }
    }

    fn read(&mut self, read: NodeDevices) {
        self.devices = Some(read.devices);
    }
}

/// The techniques for a drive; the first one that the controller supports is used. A crypto erase counts only with a block erase, or if all data were
/// encrypted before storage. Tenure cannot know the latter, so this technique is not listed.
const TECHNIQUES: [(DriveTechnique, Method); 3] = [
    (DriveTechnique::BlockErase, Method::Purge),
    (DriveTechnique::Overwrite, Method::Purge),
    (DriveTechnique::Format, Method::Clear),
];
