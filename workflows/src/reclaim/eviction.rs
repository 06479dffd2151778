//! Eviction of one workload, so that its GPUs go to another: observed, told, saved, evicted, seen gone, seen free, cleaned.
//!
//! Where the books planned the workload says nothing about where it runs. Its cluster is asked, and only GPUs that were observed are
//! looked at and cleaned; a workload whose GPUs are unknown is not evicted.
//!
//! Only a [`reclaim`](crate::reclaim) starts it, and answers for it: what the borrower did since it last saved is lost.
//! Its GPUs are another's only after they were observed free, several times in a row; a workload that does not end, or a
//! memory that was not cleaned, leaves them with the ledger as they are and says so. The page is `docs/workflows/eviction.md`.

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

/// The signal by which a scheduler says that the workload has ended by itself.
pub const EXITED: &str = "workload.exited";

/// Where an eviction stands. Persisted by name.
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
            // A first look, while it runs: one that leaves by itself is looked for where it was.
            Observing => act(self.observe())
                .nothing_to_undo()
                .record(|me: &mut Self, seen| me.observed = Some(seen))
                .within(care.notify)
                .or_else(Notifying)
                .then(Notifying),
            // The borrower is told, and may save its work or end by itself. All of this can be taken back.
            Notifying => act(NotifyBorrower { workload: workload(), at: self.at })
                .undo(WithdrawNotice { workload: workload() })
                .within(care.notify)
                .or_else(ChoosingDrain)
                .then(ChoosingDrain),
            ChoosingDrain => when(self.class == WorkloadClass::Service, "a service", DrainingService)
                .or_when(self.checkpoint == Checkpoint::Api, "saves its work when asked", SavingWork)
                .otherwise("ends by itself, or not", AwaitingExit),
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
            // That it has ended is somebody's word: it is asked to end all the same, which one that has ended does not feel.
            AwaitingExit => await_signal(EXITED).within(care.grace).then(Leaving).expired(Draining),
            Leaving => act(self.begins(true)).nothing_to_undo().or_else(Locating).then(Locating),
            Draining => act(self.begins(false))
                .nothing_to_undo()
                .record(|me: &mut Self, spared| me.spared = spared)
                .or_else(Locating)
                .then(Weighing),
            // Whoever it was called back for may be gone, or have been given others by now.
            Weighing => when(self.spared.is_some(), "nobody needs it any more", Spared)
                .otherwise("it has to go", Locating),
            // It may have moved since. If nobody can say where it runs, it is not evicted: its GPUs could not be cleaned.
            Locating => act(self.observe())
                .nothing_to_undo()
                .record(|me: &mut Self, seen| me.observed = Some(seen))
                .within(care.evict)
                .or_else(Unobserved)
                .then(Evicting),

            // The point of no return. What is asked is not what has happened: it is looked at until nothing is left.
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

            // Free is what was seen free, several times in a row, of the GPUs on which it was observed.
            Looking => act(ListGpuClients {
                cluster: self.workload.cluster.clone(),
                gpus: self.observed.clone(),
                earlier: self.named_earlier(),
            })
            .nothing_to_undo()
            .record(Self::record_check)
            .or_else(Stuck)
            .then(Judging),
            Judging => when(self.clean >= care.reads, "seen free often enough", Scrubbing)
                .or_when(self.looks >= self.most_looks(), "still open after many looks", Stuck)
                .otherwise("look again", Pausing),
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
    /// What people, or the policy that stands for them, agree to: the plan of a reclaim holds these very words.
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

    /// As many looks as fit in their time, and never fewer than it takes to be sure.
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

    /// The GPUs that the plan names, for an eviction that an earlier version took past its point of no return without observing: it
    /// ends as it was agreed to. Empty for every other.
    fn named_earlier(&self) -> GpuSet {
        if self.observed.is_none() { self.gpus.as_set().clone() } else { GpuSet::new() }
    }
}
