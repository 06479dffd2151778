//! The engine's Prometheus metrics. Labels are bounded: workflows, actions, clusters and codes, never tenants or ids.

mod labels;

use crate::{
    Outcome, Reason, Ruling,
    runtime::metrics::labels::{
        ByAction, ByCluster, ByFate, ByKind, ByOutcome, ByPromise, ByReason, ByResult, ByRuling, ByWorkflow,
        OfTrace,
    },
};
use prometheus_client::{
    metrics::{
        counter::Counter,
        exemplar::HistogramWithExemplars,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use std::time::Duration;
use store::ExecutionId;
use strum::VariantArray as _;

/// The kinds of keys that every attempt may pass; workflows may name further ones.
const KINDS: [&str; 3] = ["action", "cluster", "tenant"];
/// The names of [`OccurrenceFate`](crate::OccurrenceFate), which is defined in a higher layer.
const OCCURRENCE_FATES: [&str; 9] =
    ["pending", "buffered", "fired", "missed", "skipped", "merged", "excluded", "paused", "failed"];
/// The names of [`BatchResult`](crate::BatchResult), which is defined in a higher layer.
const BATCH_RESULTS: [&str; 3] = ["done", "refused", "skipped"];

/// Seconds, with an exemplar for each bucket.
type Seconds = HistogramWithExemplars<OfTrace>;

/// The engine's counters; cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    started: Family<ByWorkflow, Counter>,
    ended: Family<ByOutcome, Counter>,
    parked: Family<ByReason, Counter>,
    break_glass_used: Family<ByWorkflow, Counter>,
    erased: Family<ByWorkflow, Counter>,
    promises: Family<ByPromise, Counter>,
    rulings: Family<ByRuling, Counter>,
    batched: Family<ByResult, Counter>,
    attempts: Family<ByAction, Counter>,
    seconds: Family<ByAction, Seconds, fn() -> Seconds>,
    at_clusters: Family<ByCluster, Seconds, fn() -> Seconds>,
    commits: Histogram,
    conflicts: Counter,
    fenced: Counter,
    redelivered: Counter,
    left_alone: Counter,
    unreadable: Counter,
    in_flight: Gauge,
    occurrences: Family<ByFate, Counter>,
    lateness: Histogram,
    put_off: Family<ByKind, Counter>,
    tripped: Family<ByKind, Counter>,
    waiting: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            started: Family::default(),
            ended: Family::default(),
            parked: Family::default(),
            break_glass_used: Family::default(),
            erased: Family::default(),
            promises: Family::default(),
            rulings: Family::default(),
            batched: Family::default(),
            attempts: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            at_clusters: Family::new_with_constructor(coarse),
            // 0.1 ms to about 6.5 s.
            commits: Histogram::new(exponential_buckets(0.000_1, 2.0, 17)),
            conflicts: Counter::default(),
            fenced: Counter::default(),
            redelivered: Counter::default(),
            left_alone: Counter::default(),
            unreadable: Counter::default(),
            in_flight: Gauge::default(),
            occurrences: Family::default(),
            // 0.125 s to about 18 h.
            lateness: Histogram::new(exponential_buckets(0.125, 2.0, 20)),
            put_off: Family::default(),
            tripped: Family::default(),
            waiting: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Registers the metrics in `registry`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let me = Self::default();
        registry.register("executions_started", "Executions started", me.started.clone());
        registry.register("executions_finished", "Executions finished", me.ended.clone());
        registry.register("executions_erased", "Executions erased after their retention", me.erased.clone());
        registry.register("executions_parked", "Times an execution was parked", me.parked.clone());
        registry.register(
            "approvals_glass_broken",
            "Approvals decided by break-glass",
            me.break_glass_used.clone(),
        );
        registry.register(
            "promises_ended",
            "Executions with a promised end that finished, kept or broken",
            me.promises.clone(),
        );
        registry.register("approvals_ruled", "Approvals that ended, by ruling", me.rulings.clone());
        registry.register("batch_items", "Processed executions of batches", me.batched.clone());
        registry.register("attempts", "Attempts of actions and undos", me.attempts.clone());
        registry.register("attempt_seconds", "How long attempts took", me.seconds.clone());
        registry.register(
            "cluster_attempt_seconds",
            "How long attempts took, by cluster; empty for attempts without one",
            me.at_clusters.clone(),
        );
        registry.register(
            "commit_seconds",
            "How long the store took for commits of executions and decisions",
            me.commits.clone(),
        );
        registry.register("commit_conflicts", "Commits repeated after a conflict", me.conflicts.clone());
        registry.register("fenced_writes", "Results of fenced workers that were refused", me.fenced.clone());
        registry.register(
            "redeliveries",
            "Tasks delivered again after a crash or an expired lease",
            me.redelivered.clone(),
        );
        registry.register(
            "left_alone",
            "Tasks skipped because only another version of the program can run them",
            me.left_alone.clone(),
        );
        registry.register("unreadable", "Times an execution could not be decoded", me.unreadable.clone());
        registry.register("tasks_in_flight", "Running tasks", me.in_flight.clone());
        me.register_waits(registry);
        me
    }

    /// Registers the metrics of schedules and limits.
    fn register_waits(&self, registry: &mut Registry) {
        registry.register(
            "schedule_occurrences",
            "Occurrences of schedules, by fate",
            self.occurrences.clone(),
        );
        registry.register(
            "schedule_lateness_seconds",
            "Delay between an occurrence, with its jitter, and its start",
            self.lateness.clone(),
        );
        registry.register(
            "limit_put_offs",
            "Attempts deferred because a limit key was full, paced, closed or paused by its breaker, by the key's kind",
            self.put_off.clone(),
        );
        registry.register("limit_trips", "Times a breaker tripped, by the key's kind", self.tripped.clone());
        registry.register("limit_waiting", "Attempts that wait for a limit", self.waiting.clone());
    }

    /// Initialises all known series with zero, so that the first increment is visible.
    pub(crate) fn expect<'a>(&self, workflows: impl IntoIterator<Item = &'a str>) {
        for workflow in workflows {
            let by = ByWorkflow { workflow: workflow.into() };
            for family in [&self.started, &self.break_glass_used, &self.erased] {
                drop(family.get_or_create(&by));
            }
            for result in ["kept", "broken"] {
                drop(self.promises.get_or_create(&ByPromise { workflow: workflow.into(), result }));
            }
            for ruling in [Ruling::Granted, Ruling::Refused, Ruling::Expired].map(named) {
                drop(self.rulings.get_or_create(&ByRuling { workflow: workflow.into(), ruling }));
            }
            for outcome in Outcome::VARIANTS {
                let outcome: &str = outcome.into();
                let by = ByOutcome { workflow: workflow.into(), outcome: outcome.into() };
                drop(self.ended.get_or_create(&by));
            }
        }
        for reason in Reason::VARIANTS {
            let reason: &str = reason.into();
            drop(self.parked.get_or_create(&ByReason { reason: reason.into() }));
        }
        for fate in OCCURRENCE_FATES {
            drop(self.occurrences.get_or_create(&ByFate { fate: fate.into() }));
        }
        for result in BATCH_RESULTS {
            drop(self.batched.get_or_create(&ByResult { result: result.into() }));
        }
        for kind in KINDS {
            for family in [&self.put_off, &self.tripped] {
                drop(family.get_or_create(&ByKind { kind: kind.into() }));
            }
        }
    }

    pub(crate) fn started(&self, workflow: &str) {
        self.started.get_or_create(&ByWorkflow { workflow: workflow.into() }).inc();
    }

    pub(crate) fn count_ended(&self, workflow: &str, outcome: &str) {
        self.ended.get_or_create(&ByOutcome { workflow: workflow.into(), outcome: outcome.into() }).inc();
    }

    pub(crate) fn erased(&self, workflow: &str) {
        self.erased.get_or_create(&ByWorkflow { workflow: workflow.into() }).inc();
    }

    /// Counts the end of an execution with a promised end, as kept or broken.
    pub(crate) fn promised(&self, workflow: &str, kept: Option<bool>) {
        if let Some(kept) = kept {
            let result = if kept { "kept" } else { "broken" };
            self.promises.get_or_create(&ByPromise { workflow: workflow.into(), result }).inc();
        }
    }

    pub(crate) fn ruled(&self, workflow: &str, ruling: Ruling) {
        let by = ByRuling { workflow: workflow.into(), ruling: named(ruling) };
        self.rulings.get_or_create(&by).inc();
    }

    pub(crate) fn parked(&self, reason: &str) {
        self.parked.get_or_create(&ByReason { reason: reason.into() }).inc();
    }

    pub(crate) fn break_glass_used(&self, workflow: &str) {
        self.break_glass_used.get_or_create(&ByWorkflow { workflow: workflow.into() }).inc();
    }

    pub(crate) fn batched(&self, result: &str) {
        self.batched.get_or_create(&ByResult { result: result.into() }).inc();
    }

    pub(crate) fn attempted(
        &self,
        id: ExecutionId,
        (action, cluster): (&str, &str),
        result: &str,
        took: Duration,
    ) {
        let by = ByAction { action: action.into(), result: result.into() };
        self.attempts.get_or_create(&by).inc();
        let example = OfTrace { trace_id: id.trace_id().to_string() };
        self.seconds.get_or_create(&by).observe(took.as_secs_f64(), Some(example.clone()), None);
        let by = ByCluster { cluster: cluster.into(), result: result.into() };
        self.at_clusters.get_or_create(&by).observe(took.as_secs_f64(), Some(example), None);
    }

    pub(crate) fn committed(&self, took: Duration) {
        self.commits.observe(took.as_secs_f64());
    }

    pub(crate) fn conflict(&self) {
        self.conflicts.inc();
    }

    pub(crate) fn fenced(&self) {
        self.fenced.inc();
    }

    pub(crate) fn redelivered(&self) {
        self.redelivered.inc();
    }

    pub(crate) fn left_alone(&self) {
        self.left_alone.inc();
    }

    pub(crate) fn unreadable(&self) {
        self.unreadable.inc();
    }

    pub(crate) fn occurrence(&self, fate: &str) {
        self.occurrences.get_or_create(&ByFate { fate: fate.into() }).inc();
    }

    pub(crate) fn late(&self, by: Duration) {
        self.lateness.observe(by.as_secs_f64());
    }

    pub(crate) fn put_off(&self, kind: &str) {
        self.put_off.get_or_create(&ByKind { kind: kind.into() }).inc();
    }

    pub(crate) fn tripped(&self, kind: &str) {
        self.tripped.get_or_create(&ByKind { kind: kind.into() }).inc();
    }

    pub(crate) fn waiting(&self, tasks: usize) {
        self.waiting.set(i64::try_from(tasks).unwrap_or(i64::MAX));
    }

    pub(crate) fn in_flight(&self, change: i64) {
        self.in_flight.inc_by(change);
    }
}

fn named(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Granted => "granted",
        Ruling::Refused => "refused",
        Ruling::Expired => "expired",
    }
}

fn histogram() -> Seconds {
    // 1 ms to about 65 s.
    HistogramWithExemplars::new(exponential_buckets(0.001, 2.0, 17))
}

/// Few buckets for many series: one for each cluster and result.
fn coarse() -> Seconds {
    HistogramWithExemplars::new([0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0].into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchResult, OccurrenceFate};

    #[test]
    fn every_fate_and_every_result_has_a_row_from_the_start() {
        let fates: Vec<&str> = OccurrenceFate::VARIANTS.iter().map(Into::into).collect();
        let results: Vec<&str> = BatchResult::VARIANTS.iter().map(Into::into).collect();

        assert_eq!((fates, results), (OCCURRENCE_FATES.to_vec(), BATCH_RESULTS.to_vec()));
    }
}
