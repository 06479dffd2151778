//! The replay itself: virtual time jumps to what happens next, a demand, an end, a sweep, or a task of the engine's.
//!
//! Invariant: nothing is decided here. Demands go to [`workflows::scheduling::admission`], what must be called back to the reclaim
//! workflow, and the ledger is only read, to see what they did.

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

/// What happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReplayEvent {
    /// The work of a demand's run is done.
    Done { demand: usize, run: u32 },
    /// People decide on what they have been asked.
    Decide,
    /// The sweeps run.
    Sweep,
    /// A demand is made.
    Ask { demand: usize },
}

/// After so many sweeps all who wait are looked at: a promise that is broken stays so until it is served.
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
    /// What those wait for who came inside their workspace's reservation and have not run yet.
    promised: HashMap<(WorkspaceName, GpuKind), u64>,
    pub(super) idle: bool,
    pub(super) single: bool,
    steps: u64,
    sweeps: u64,
    ends: Timestamp,
}

/// Replays a scene. `progress` hears, now and then, what part of it is done and what happens.
///
/// # Errors
/// When the engine, the ledger or the simulated cluster cannot go on.
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
        let cohort = cohort.ok_or_else(|| ReplayError::Unreadable("there is no account".into()))?;
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

    /// Lets the engine do what is due, and looks at what came of it.
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

    /// What runs on a schedule: the platform is looked at, and what waits or is overdue is dealt with.
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
                format!("{} of {} on {} are astray", drift.astray, drift.kind, drift.node),
            );
        }
        self.hear(&observed.news).await?;
        workflows::sweeps::run_due(&self.stage.engine).await?;
        self.catch_up().await?;
        self.gauge.sample(now);
        self.sweeps += 1;
        if self.sweeps.is_multiple_of(PROMISES_EVERY) { self.check_promises().await } else { Ok(()) }
    }

    /// Acts on what a change of the account came to.
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
    /// How many executions of workflows were started, starts of admitted workloads left out.
    async fn executions(&self) -> Result<u64, ReplayError> {
        let (mut count, mut after) = (0, None);
        loop {
            let page = self.stage.engine.list(&Filter::default(), after, 1_000).await?;
            // A start is a part of its admission, which is counted as such.
            let starts = page.items.iter().filter(|record| record.workflow == WorkloadStart::NAME).count();
            count += (page.items.len() - starts) as u64;
            after = page.next;
            if after.is_none() {
                return Ok(count);
            }
        }
    }
}

/// Measures how long a replay takes; here, so that only the engine knows a real clock.
pub(super) fn start_stopwatch() -> Stopwatch {
    Stopwatch::start()
}
