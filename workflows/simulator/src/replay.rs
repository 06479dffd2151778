//! The replay: virtual time jumps to the next event, which is a demand, an end, a sweep, or a task of the engine.
//!
//! Invariant: this module makes no decisions. Demands go to [`workflows::scheduling::admission`] and reclaims to the
//! reclaim workflow; the ledger is only read, to observe their decisions.

mod approver;
mod baseline;
mod consistency;
mod demand;
mod environment;
mod event_log;
mod invariants;
mod ledger_changes;
pub(crate) mod measures;
mod metrics;
mod outcome;
mod parallel;
mod reclaimer;
mod submission;

use crate::{
    replay::{
        demand::DemandState,
        environment::{Environment, usual_policy, without_fill_back},
        event_log::EventLog,
        invariants::InvariantChecks,
        metrics::Metrics,
    },
    scenario::Scenario,
};
use engine::{Stopwatch, Workflow as _};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap},
    sync::Arc,
};
use store::{ExecutionId, Filter, Sequence, Timestamp};
use workflows::{
    reclaim::ledger::start_reclaims,
    scheduling::admission::{self, AdmissionEffects, Observation, ObservedKind},
    tenancy::{Cohort, GpuKind, NodeId, WorkspaceName},
    workload_start::WorkloadStart,
};

pub use baseline::Baseline;
pub use measures::{Measures, Sample, Waits, WorkspaceMeasures};
pub use outcome::{Outcome, ReplayError, Settings, Violation};
pub use parallel::replay_all;

/// An event of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReplayEvent {
    /// The work of a demand's run is done.
    Done { demand: usize, run: u32 },
    /// Approvers decide on open requests.
    Decide,
    /// The sweeps run.
    Sweep,
    /// A demand arrives.
    Ask { demand: usize },
}

/// The number of sweeps between two checks of all queued demands. A missed promise stays visible until its demand is
/// served.
const PROMISES_EVERY: u64 = 5;

pub(super) struct Replay<'a> {
    pub(super) scene: &'a Scenario,
    pub(super) baseline: Baseline,
    pub(super) stage: Environment,
    agenda: BinaryHeap<Reverse<(Timestamp, ReplayEvent)>>,
    pub(super) lives: Vec<DemandState>,
    pub(super) names: HashMap<&'a str, usize>,
    pub(super) cohort: Arc<Cohort>,
    pub(super) version: Option<Sequence>,
    pub(super) seen: u64,
    pub(super) called: BTreeSet<usize>,
    pub(super) open: BTreeMap<ExecutionId, reclaimer::OpenReclaim>,
    pub(super) polled: BTreeSet<String>,
    pub(super) platform: BTreeMap<NodeId, BTreeMap<GpuKind, ObservedKind>>,
    pub(super) gauge: Metrics,
    pub(super) checks: InvariantChecks,
    pub(super) story: EventLog,
    pub(super) loans_ended: BTreeMap<u64, Timestamp>,
    pub(super) late: BTreeSet<usize>,
    /// GPUs for which demands inside their workspace's reservation wait before their first run.
    promised: HashMap<(WorkspaceName, GpuKind), u64>,
    pub(super) idle: bool,
    pub(super) single: bool,
    steps: u64,
    sweeps: u64,
    ends: Timestamp,
}

/// Replays a scenario. Calls `progress` from time to time with the completed share.
///
/// # Errors
///
/// If the engine, the ledger or the simulated cluster fails.
pub async fn replay(
    scene: &Scenario,
    settings: &Settings,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<Outcome, ReplayError> {
    let mut policy = settings.policy.clone().unwrap_or_else(|| usual_policy(scene));
    if settings.baseline == Baseline::NoFillBack {
        policy = without_fill_back(&policy);
    }
    let stage = Environment::set(scene, &policy, settings.baseline).await?;
    stage.world.script(settings.faults.clone());
    let mut replay = Replay::new(scene, stage, settings).await?;
    replay.run(settings, progress).await?;
    replay.end(settings).await
}

impl<'a> Replay<'a> {
    async fn new(scene: &'a Scenario, stage: Environment, settings: &Settings) -> Result<Self, ReplayError> {
        let cohort = stage.shared::<Cohort>(scene.tenant.as_str()).await?;
        let cohort = cohort.ok_or_else(|| ReplayError::Unreadable("the account is missing".into()))?;
        let mut agenda = BinaryHeap::new();
        for (demand, asked) in scene.demands.iter().enumerate() {
            agenda.push(Reverse((scene.starts.after(asked.at), ReplayEvent::Ask { demand })));
        }
        agenda.push(Reverse((scene.starts, ReplayEvent::Sweep)));
        let lives = scene.demands.iter().map(|demand| DemandState::new(demand.lasts)).collect();
        let names = scene.demands.iter().enumerate().map(|(n, demand)| (demand.name.as_str(), n)).collect();
        Ok(Self {
            scene,
            baseline: settings.baseline,
            agenda,
            lives,
            names,
            version: None,
            seen: cohort.decisions,
            checks: InvariantChecks::new(scene, &cohort, stage.policy.lending.cool_down),
            cohort,
            called: BTreeSet::new(),
            open: BTreeMap::new(),
            polled: BTreeSet::new(),
            platform: ledger_changes::idle(scene),
            gauge: Metrics::new(scene),
            story: EventLog::new(settings.told),
            loans_ended: BTreeMap::new(),
            late: BTreeSet::new(),
            promised: HashMap::new(),
            idle: false,
            single: scene.demands.iter().all(|demand| demand.gpus == 1),
            steps: 0,
            sweeps: 0,
            ends: scene.starts.after(scene.ends),
            stage,
        })
    }

    async fn run(
        &mut self,
        settings: &Settings,
        progress: &mut (dyn FnMut(f64) + Send),
    ) -> Result<(), ReplayError> {
        let mut happened = 0_u64;
        loop {
            let due = self.stage.engine.store().next_due().await.map_err(engine::Error::from)?;
            let next = self.agenda.peek().map(|Reverse((at, _))| *at);
            let Some(moment) = [due, next].into_iter().flatten().min().filter(|at| *at <= self.ends) else {
                return Ok(());
            };
            self.stage.clock.advance_to(moment);
            if due.is_some_and(|due| due <= moment) {
                self.work().await?;
            }
            while let Some(Reverse((at, happening))) = self.agenda.peek().copied() {
                if at > self.stage.now() {
                    break;
                }
                self.agenda.pop();
                self.happen(happening).await?;
                self.work().await?;
                happened += 1;
                if happened.is_multiple_of(settings.check_every) {
                    self.check_all().await?;
                }
                if happened.is_multiple_of(256) {
                    let whole = self.scene.ends.as_secs_f64().max(1.0);
                    progress(self.stage.now().since(self.scene.starts).as_secs_f64() / whole);
                }
            }
        }
    }

    /// Runs the engine's due tasks and observes the results.
    async fn work(&mut self) -> Result<(), ReplayError> {
        let mut worked = 0;
        while self.stage.engine.work_next().await? {
            worked += 1;
        }
        self.steps += worked;
        if worked > 0 {
            self.catch_up().await?;
            self.poll().await?;
        }
        Ok(())
    }

    async fn happen(&mut self, happening: ReplayEvent) -> Result<(), ReplayError> {
        match happening {
            ReplayEvent::Ask { demand } => self.ask(demand).await,
            ReplayEvent::Done { demand, run } => self.done(demand, run).await,
            ReplayEvent::Sweep => self.sweep().await,
            ReplayEvent::Decide => self.decide().await,
        }
    }

    pub(super) fn plan(&mut self, at: Timestamp, happening: ReplayEvent) {
        self.agenda.push(Reverse((at, happening)));
    }

    /// Runs the schedules: observes the platform, and processes queued demands and overdue loans.
    async fn sweep(&mut self) -> Result<(), ReplayError> {
        let now = self.stage.now();
        let next = now.after(self.scene.terms.sweep_every);
        if next <= self.ends {
            self.plan(next, ReplayEvent::Sweep);
        }
        let seen = Observation { at: now, nodes: std::mem::take(&mut self.platform) };
        let tenant = &self.scene.tenant;
        let observed = self
            .stage
            .engine
            .transact(true, |view| {
                let observed = admission::observe(view, tenant, &seen)?;
                start_reclaims(view, &observed.news)?;
                Ok(observed)
            })
            .await;
        self.platform = seen.nodes;
        let observed = observed?;
        for drift in &observed.drift {
            self.checks.note(
                now,
                "I-24",
                format!("{} of {} on {} have no owner", drift.astray, drift.kind, drift.node),
            );
        }
        self.hear(&observed.news).await?;
        workflows::sweeps::run_due(&self.stage.engine).await?;
        self.catch_up().await?;
        self.gauge.sample(now);
        self.sweeps += 1;
        if self.sweeps.is_multiple_of(PROMISES_EVERY) { self.check_promises().await } else { Ok(()) }
    }

    /// Processes the effects of a change of the account.
    async fn hear(&mut self, news: &AdmissionEffects) -> Result<(), ReplayError> {
        self.catch_up().await?;
        let mut more = news.more;
        while more {
            let tenant = &self.scene.tenant;
            let news = self
                .stage
                .engine
                .transact(true, |view| {
                    let news = admission::admit_queued(view, tenant)?;
                    start_reclaims(view, &news)?;
                    Ok(news)
                })
                .await?;
            self.catch_up().await?;
            more = news.more;
        }
        Ok(())
    }

    async fn end(mut self, settings: &Settings) -> Result<Outcome, ReplayError> {
        let now = self.ends;
        self.stage.clock.advance_to(now);
        self.check_promises().await?;
        self.check_all().await?;
        self.gauge.executions = self.executions().await?;
        let violations = self.checks.into_violations();
        let mut outcome = self.gauge.outcome(now, settings.baseline, &self.lives, self.steps);
        outcome.measures.violations = violations.len() as u64;
        outcome.violations = violations;
        outcome.story = self.story.into_lines();
        Ok(outcome)
    }
}

impl Replay<'_> {
    /// Returns the number of started executions, without starts of workloads.
    async fn executions(&self) -> Result<u64, ReplayError> {
        let (mut count, mut after) = (0, None);
        loop {
            let page = self.stage.engine.list(&Filter::default(), after, 1_000).await?;
            // A start is part of its admission, which is counted.
            let starts = page.items.iter().filter(|record| record.workflow == WorkloadStart::NAME).count();
            count += (page.items.len() - starts) as u64;
            after = page.next;
            if after.is_none() {
                return Ok(count);
            }
        }
    }
}

/// Measures the duration of a replay. Defined here, so that only the engine uses a real clock.
pub(super) fn start_stopwatch() -> Stopwatch {
    Stopwatch::start()
}
