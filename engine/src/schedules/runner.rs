//! Runs a schedule: load, [`decide`](super::decide), commit, until nothing changes.
//!
//! A start and its row are one commit, conditional on the status of the schedule. So of several engines exactly one
//! starts an occurrence, and a crash leaves both or neither.

use super::{
    decide::{Decision, StartOutcome},
    decision_view::{DecisionInput, ScheduleSource, decide_on_view},
    definition::Version,
    occurrence::Fate,
    times::utc,
};
use crate::{
    Decided, Engine, Entity as _, Error, Occurrence, Origin, Request, SECOND, Schedule, ScheduleStatus,
    StartFailure, Starter, Target,
    model::documents::parse::parse,
    runtime::{decisions::reads::are_unchanged, ledger::decide_cached},
};
use std::collections::BTreeMap;
use store::{Commit, CompositeKey, ExecutionId, Key, Put, Read, Timestamp};

/// The most decisions that one call commits. The next call continues.
pub(super) const MAX_ROUNDS: usize = 500;
/// How soon a schedule with open runs is checked again.
const POLL: std::time::Duration = std::time::Duration::from_secs(5);

/// The result of the start of an occurrence.
enum StartResult {
    Now,
    Changed,
    Not(StartOutcome),
}

/// The result of running a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleRun {
    /// The started executions, in order.
    pub started: Vec<Occurrence>,
    /// When to run it again; `None` if nothing is to come.
    pub next: Option<Timestamp>,
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Processes all due occurrences of the schedule `name`: starts executions with `starter`, and records the
    /// others. Safe to call from several engines at once. An unknown schedule has no due occurrences.
    ///
    /// # Errors
    /// Returns the store's error; `schedule.invalid` for a definition that this version cannot read.
    pub async fn run_schedule(&self, name: &str, starter: &dyn Starter) -> Result<ScheduleRun, Error> {
        let which = ScheduleSource::Stored(name);
        let (mut kept, mut tried) = (ScheduleRun::default(), BTreeMap::new());
        for _ in 0..MAX_ROUNDS {
            let fresh = self.new_execution_id();
            let Some(round) = self.decide_schedule(which, fresh, &tried).await? else { continue };
            let Some((schedule, decision)) = round.result.map_err(Error::Undecided)? else {
                return Ok(kept);
            };
            let Some(started) = &decision.start else {
                let commit = Commit {
                    reads: round.reads,
                    documents: round.puts,
                    schedule: round.tasks,
                    ..Commit::default()
                };
                if commit.documents.is_empty() {
                    kept.next = self.next_look(&schedule, &decision.status);
                    return Ok(kept);
                }
                if self.committed(commit, &decision).await? {
                    self.inner.wakeup.notify();
                }
                continue;
            };
            let began = self.begin_occurrence(&schedule, started, (round.reads, round.puts), starter).await?;
            match began {
                StartResult::Now => {
                    self.count_occurrences(&decision);
                    kept.started.push(started.clone());
                }
                StartResult::Changed => self.inner.metrics.conflict(),
                StartResult::Not(why) => drop(tried.insert(started.nominal, why)),
            }
        }
        kept.next = Some(self.inner.clock.now());
        Ok(kept)
    }

    /// Starts an occurrence in one commit with its row, by its version of the definition and in the name of its
    /// author.
    async fn begin_occurrence(
        &self,
        schedule: &Schedule,
        occurrence: &Occurrence,
        (reads, puts): (Vec<Read>, Vec<Put>),
        starter: &dyn Starter,
    ) -> Result<StartResult, Error> {
        let (name, moment) = (&schedule.name, occurrence.nominal.0);
        let Some((workflow, data, by)) = self.target(schedule, occurrence.version).await? else {
            let why = format!("version {} of the schedule is not on record", occurrence.version);
            return Ok(StartResult::Not(StartOutcome::Refused(why)));
        };
        let key = CompositeKey::of(&[&format_args!("schedule:{name}"), &moment]);
        let mut request = Request::by_name(by.clone())
            .with_idempotency_key(&*key, &*key)
            .with_documents(reads, puts)
            .with_schedule(name);
        if let Some(id) = occurrence.execution {
            request = request.with_id(id);
        }
        Ok(match starter.start(&workflow, &data, &by, request).await {
            Ok(begun) if occurrence.execution != Some(begun.id) => {
                StartResult::Not(StartOutcome::Known(begun.id))
            }
            Ok(_) => StartResult::Now,
            Err(StartFailure::Changed) => StartResult::Changed,
            Err(StartFailure::Busy(why)) => StartResult::Not(StartOutcome::Busy(why)),
            Err(StartFailure::Refused(why)) => {
                tracing::warn!(schedule = name, nominal = moment, why, "an occurrence cannot be started");
                StartResult::Not(StartOutcome::Refused(why))
            }
            Err(StartFailure::Later(why)) => {
                tracing::warn!(schedule = name, nominal = moment, why, "an occurrence must wait");
                StartResult::Not(StartOutcome::Later)
            }
        })
    }

    pub(super) fn new_execution_id(&self) -> ExecutionId {
        ExecutionId::new(self.inner.clock.now(), self.inner.clock.entropy())
    }

    /// Makes one decision. Returns `None` after a conflict.
    pub(super) async fn decide_schedule(
        &self,
        which: ScheduleSource<'_>,
        fresh: ExecutionId,
        tried: &BTreeMap<Timestamp, StartOutcome>,
    ) -> Result<Option<Decided<Option<(Schedule, Decision)>>>, Error> {
        let ended = self.finished_runs(which.name()).await?;
        let input = DecisionInput { new_execution_id: fresh, ended: &ended, tried, starting: true };
        let (store, now) = (&*self.inner.store, self.inner.clock.now());
        let decided =
            decide_cached(&self.inner.document_cache, store, now, |view| decide_on_view(view, which, &input))
                .await?;
        if decided.puts.is_empty() && !are_unchanged(store, &decided.reads).await? {
            return Ok(None);
        }
        Ok(Some(decided))
    }

    /// Returns which runs of a schedule have finished, and their outcomes.
    pub(super) async fn finished_runs(
        &self,
        name: &str,
    ) -> Result<BTreeMap<ExecutionId, Option<String>>, Error> {
        let key = Key::new(ScheduleStatus::COLLECTION, name);
        let Some(found) = self.inner.store.document(&key).await? else { return Ok(BTreeMap::new()) };
        let standing: ScheduleStatus = parse(&found)?;
        let mut ended = BTreeMap::new();
        for id in standing.running.iter().filter_map(|run| run.execution) {
            // A run without a record finished long ago.
            match self.inner.store.load(id).await? {
                Some(record) if record.open => {}
                Some(record) => drop(ended.insert(id, record.reason)),
                None => drop(ended.insert(id, None)),
            }
        }
        Ok(ended)
    }

    /// Returns the target of a version of a schedule, and its author.
    async fn target(
        &self,
        schedule: &Schedule,
        version: u32,
    ) -> Result<Option<(String, serde_json::Value, String)>, Error> {
        let parts = |schedule: &Schedule| match &schedule.target {
            Target::Start { workflow, data } => {
                Some((workflow.clone(), data.clone(), schedule.set_by.clone()))
            }
            Target::BuiltIn => None,
        };
        if version == schedule.version {
            return Ok(parts(schedule));
        }
        let key = Key::new(Version::COLLECTION, Version::key(&schedule.name, version));
        let Some(found) = self.inner.store.document(&key).await? else { return Ok(None) };
        Ok(parts(&parse::<Version>(&found)?.0))
    }

    pub(super) async fn committed(&self, commit: Commit, decision: &Decision) -> Result<bool, Error> {
        match self.inner.store.commit(commit).await {
            Ok(_) => {
                self.count_occurrences(decision);
                Ok(true)
            }
            Err(store::Error::Conflict { .. }) => {
                self.inner.metrics.conflict();
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Counts the final fates of occurrences.
    fn count_occurrences(&self, decision: &Decision) {
        if decision.set_back {
            let until = decision.status.set_back.map(|back| utc(back.until));
            tracing::warn!(
                schedule = decision.status.name,
                until,
                "the clock was set back; the schedule continues from the clock"
            );
        }
        for row in decision.rows.values().filter(|row| !row.fate.is_waiting() && row.outcome.is_none()) {
            self.inner.metrics.occurrence(row.fate.name());
            if row.fate == Fate::Fired && row.origin == Origin::Clock {
                self.inner.metrics.late(row.at.since(row.due()));
            }
        }
    }

    fn next_look(&self, schedule: &Schedule, standing: &ScheduleStatus) -> Option<Timestamp> {
        let now = self.inner.clock.now();
        let moment = schedule.times().ok().and_then(|times| times.next_after(standing.done));
        let due = standing.waiting.iter().map(Occurrence::due).filter(|due| *due > now).min();
        let busy =
            !standing.running.is_empty() || !standing.waiting.is_empty() || !standing.backfills.is_empty();
        let poll = busy.then(|| now.after(POLL.max(SECOND)));
        [moment, due, poll].into_iter().flatten().min()
    }
}
