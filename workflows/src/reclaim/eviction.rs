//! Eviction of one workload, so that its GPUs go to another: observe, notify, wait for its checkpoint, evict, confirm that it is gone and its GPUs are free,
//! scrub.
//!
//! The planned placement of the workload does not prove where it runs. Its cluster is queried, and only observed GPUs are checked and scrubbed. A workload with
//! unknown GPUs is not evicted.
//!
//! Only a [`reclaim`](crate::reclaim) starts it. Work since the borrower's last checkpoint is lost. Its GPUs go to another workload only after several
//! consecutive observations found them free. If a workload does not end, or its memory was not scrubbed, its GPUs keep their state in the ledger, and the
//! execution reports this. The page is `docs/workflows/eviction.md`.

mod examples;
pub mod ledger;
mod record;

pub(crate) use examples::example;
pub use record::{Eviction, EvictionTerms};

use crate::{
    platform::{
        AwaitGone, DrainService, EvictWorkload, ForceWorkload, GpuSet, ListGpuClients, NotifyBorrower,
        ObserveGpus, Platform, RestoreService, SaveWork, ScrubGpus, Scrubbed, WithdrawNotice, codes,
    },
    tenancy::{Checkpoint, WorkloadClass},
};
use engine::{
    Outcome, Plan, RetryPolicy, Step, Subject, Workflow, act, act_each, await_signal, end, wait, when,
};
use ledger::{BarGpus, BeginEviction, FreeVictim};
use serde_json::{Value, json};

/// The signal of a scheduler that the workload has ended.
pub const EXITED: &str = "workload.exited";

/// The state of an eviction. Persisted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[allow(
    missing_docs,
    reason = "what each state does is said in `step`, and for people in docs/workflows/eviction.md"
)]
pub enum State {
    Observing,
    Notifying,
    ChoosingDrain,
    DrainingService,
    SavingWork,
    AwaitingExit,
    Leaving,
    Draining,
    Weighing,
    Locating,
    Evicting,
    Terminating,
    Forcing,
    Looking,
    Judging,
    Pausing,
    Scrubbing,
    Freeing,
    Barring,
    Cleared,
    Barred,
    Stuck,
    Spared,
    Unobserved,
}

impl Workflow for Eviction {
    const NAME: &'static str = "eviction";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Observing;
    const AUTHORISED_BY_PARENT: bool = true;
    type State = State;
    type Platform = Platform;

    #[allow(clippy::too_many_lines, reason = "the machine is read top to bottom in one place")]
    fn step(&self, state: State) -> Step<Self> {
        use State::*;
        let (workload, care) = (|| self.workload.clone(), &self.care);
        match state {
            // The first observation, while it runs. If the workload ends on its own, its GPUs are still known.
            Observing => act(self.observe())
                .nothing_to_undo()
                .record(|me: &mut Self, seen| me.observed = Some(seen))
                .within(care.notify)
                .or_else(Notifying)
                .then(Notifying),
            // The borrower is notified, and may save its work or end. All of this can be undone.
            Notifying => act(NotifyBorrower { workload: workload(), at: self.at })
                .undo(WithdrawNotice { workload: workload() })
                .within(care.notify)
                .or_else(ChoosingDrain)
                .then(ChoosingDrain),
            ChoosingDrain => when(self.class == WorkloadClass::Service, "a service", DrainingService)
                .or_when(self.checkpoint == Checkpoint::Api, "saves its work on request", SavingWork)
                .otherwise("ends by itself, if at all", AwaitingExit),
            DrainingService => act(DrainService { workload: workload() })
                .undo(RestoreService { workload: workload() })
                .within(care.notify)
                .or_else(AwaitingExit)
                .then(AwaitingExit),
            SavingWork => act(SaveWork { workload: workload() })
                .nothing_to_undo()
                .within(care.grace)
                .or_else(Draining)
                .then(Draining),
            // The exit is only reported, so the eviction is requested anyway. It has no effect on an ended workload.
            AwaitingExit => await_signal(EXITED).within(care.grace).then(Leaving).expired(Draining),
            Leaving => act(self.begins(true)).nothing_to_undo().or_else(Locating).then(Locating),
            Draining => act(self.begins(false))
                .nothing_to_undo()
                .record(|me: &mut Self, spared| me.spared = spared)
                .or_else(Locating)
                .then(Weighing),
            // The beneficiary may be gone, or may have other GPUs by now.
            Weighing => when(self.spared.is_some(), "its GPUs are not needed any more", Spared)
                .otherwise("its GPUs are still needed", Locating),
            // It may have moved since. If its placement is unknown, it is not evicted, because its GPUs could not be scrubbed.
            Locating => act(self.observe())
                .nothing_to_undo()
                .record(|me: &mut Self, seen| me.observed = Some(seen))
                .within(care.evict)
                .or_else(Unobserved)
                .then(Evicting),

            // The pivot. A requested eviction is not an observed one, so the workload is checked until nothing of it is left.
            Evicting => act(EvictWorkload { workload: workload() })
                .forward_only()
                .within(care.evict)
                .or_else(Terminating)
                .then(Terminating),
            Terminating => act(AwaitGone { workload: workload() })
                .nothing_to_undo()
                .retry(RetryPolicy::patient())
                .within(care.gone)
                .or_else(Forcing)
                .then(Looking),
            Forcing => act(ForceWorkload { workload: workload() })
                .forward_only()
                .within(care.evict)
                .or_else(Stuck)
                .then(Looking),

            // Free means that several consecutive observations of its GPUs found no process.
            Looking => act(ListGpuClients {
                cluster: self.workload.cluster.clone(),
                gpus: self.observed.clone(),
                earlier: self.named_earlier(),
            })
            .nothing_to_undo()
            .record(Self::record_check)
            .or_else(Stuck)
            .then(Judging),
            Judging => when(self.clean >= care.reads, "observed free often enough", Scrubbing)
                .or_when(self.looks >= self.most_looks(), "still open after many checks", Stuck)
                .otherwise("check again", Pausing),
            Pausing => wait(care.apart).then(Looking),
            Scrubbing => act_each(self.scrubs())
                .nothing_to_undo()
                .record(|me: &mut Self, done: Scrubbed| me.scrubbed.push(done))
                .attempt_within(care.scrub)
                .within(care.scrub)
                .on_failure(codes::SCRUB_FAILED, Barring)
                .or_else(Barring)
                .then(Freeing),
            Freeing => act(FreeVictim {
                tenant: self.tenant.clone(),
                workload: self.workload.name.clone(),
                observed: self.observed.clone().unwrap_or_default(),
                earlier: self.named_earlier(),
            })
            .nothing_to_undo()
            .then(Cleared),
            Barring => act(BarGpus {
                tenant: self.tenant.clone(),
                workload: self.workload.name.clone(),
                observed: self.observed.clone().unwrap_or_default(),
                earlier: self.named_earlier(),
            })
            .nothing_to_undo()
            .then(Barred),

            Cleared | Barred | Stuck => end(Outcome::Completed),
            Spared | Unobserved => end(Outcome::RolledBack),
        }
    }

    fn subject(&self) -> Subject {
        let name = format!("workload/{}/{}", self.tenant, self.workload.name);
        Subject { tenant: self.tenant.to_string(), guard: Some(name.clone()), name }
    }

    fn plan(&self) -> Plan {
        Plan {
            title: format!("evict {} of workspace {}", self.workload.name, self.workload.workspace),
            decides: self.decides(),
            placement: json!({ "gpus": self.gpus }),
        }
    }

    fn examples() -> Vec<Self> {
        examples::all()
    }
}

impl Eviction {
    /// Returns the part of the plan that is approved. The plan of a reclaim contains exactly this value.
    #[must_use]
    pub fn decides(&self) -> Value {
        json!({
            "evict": self.workload.name,
            "tenant": self.tenant,
            "workspace": self.workload.workspace,
            "class": self.class,
            "checkpoint": self.checkpoint,
            "scrub": self.care.level,
            "grace_seconds": self.care.grace.as_secs(),
        })
    }

    fn observe(&self) -> ObserveGpus {
        ObserveGpus {
            workload: self.workload.clone(),
            before: self.observed.clone().unwrap_or_default(),
            facts: self.facts.clone(),
        }
    }

    fn begins(&self, exited: bool) -> BeginEviction {
        BeginEviction { tenant: self.tenant.clone(), workload: self.workload.name.clone(), exited }
    }

    fn record_check(&mut self, open: Vec<String>) {
        self.looks += 1;
        self.clean = if open.is_empty() { self.clean + 1 } else { 0 };
        self.open = open;
    }

    /// Returns the most checks within the time limit, and at least the required number.
    fn most_looks(&self) -> u32 {
        let apart = self.care.apart.as_millis().max(1);
        let fit = u32::try_from(self.care.confirm.as_millis() / apart).unwrap_or(u32::MAX);
        fit.max(self.care.reads.saturating_mul(2))
    }

    fn scrubs(&self) -> Vec<ScrubGpus> {
        let scrub = |(node, gpus): (&String, &std::collections::BTreeSet<u16>)| ScrubGpus {
            cluster: self.workload.cluster.clone(),
            node: node.clone(),
            gpus: gpus.clone(),
            level: self.care.level,
        };
        match &self.observed {
            Some(observed) => observed.iter().map(scrub).collect(),
            None => self.named_earlier().iter().map(scrub).collect(),
        }
    }

    /// Returns the GPUs of the plan for an eviction that an earlier version took past the pivot without an observation; it ends as approved. Empty for all
    /// others.
    fn named_earlier(&self) -> GpuSet {
        if self.observed.is_none() { self.gpus.as_set().clone() } else { GpuSet::new() }
    }
}
