//! Keeping a schedule: load, [`decide`](super::decide), commit, again until nothing changes.
//!
//! A start and the row that tells of it are one commit, conditional on where the schedule stood: of several engines that keep
//! the same schedule one starts an occurrence, and a crash leaves both or neither.

use super::{
    decide::{Ask, Decision, Facts, Tried, decide, wanted},
    definition::{Schedule, Target, Version},
    occurrence::{Fate, Occurrence, Origin, Standing},
};
use crate::{
    ActionError, BoxFuture, Engine, Entity as _, Error, Notification, Order, Request, Started, Undecided,
    View,
    model::{
        action::SECOND,
        message::Message,
        view::{Decided, decide_knowing},
    },
};
use std::collections::BTreeMap;
use store::{Commit, ExecutionId, Key, Put, Read, Timestamp};

/// Decisions that one call commits, at most; what is left is for the next.
const MOST_ROUNDS: usize = 500;
/// How soon a schedule is looked at again whose runs may end at any time.
const POLL: std::time::Duration = std::time::Duration::from_secs(5);

/// Starts what schedules are for. [`Engine`] itself takes the data as that of the workflow.
pub trait Starter: Send + Sync {
    /// Starts an execution of `workflow` from `data` with `request`, which must reach [`Engine::start`] as it is: its commit
    /// says that the occurrence was started. `by` is who set the schedule.
    fn start<'a>(
        &'a self,
        workflow: &'a str,
        data: &'a serde_json::Value,
        by: &'a str,
        request: Request,
    ) -> BoxFuture<'a, Result<Started, Unstarted>>;
}

/// Why an occurrence was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unstarted {
    /// Another execution stands in the way, in words: the overlap policy says what follows.
    Busy(String),
    /// Something that was read has changed: it is decided again.
    Changed,
    /// It cannot be started as it is, in words: a failure.
    Refused(String),
    /// It cannot be started now, in words: it is tried again at the next look.
    Later(String),
}

impl From<Error> for Unstarted {
    fn from(error: Error) -> Self {
        match &error {
            Error::Store(store::Error::Busy { .. }) => Self::Busy(error.to_string()),
            Error::Store(store::Error::Conflict { .. }) | Error::Contended(_) => Self::Changed,
            Error::Store(store::Error::TooLarge { .. } | store::Error::Invalid { .. }) => {
                Self::Refused(error.to_string())
            }
            Error::NoWorker { .. } | Error::Store(_) | Error::NotFound(_) => Self::Later(error.to_string()),
            Error::Undecided(_)
            | Error::Refused(_)
            | Error::Unreadable { .. }
            | Error::Destroyed { .. }
            | Error::KeyReused { .. }
            | Error::NeedsSecond { .. }
            | Error::NoProposal { .. }
            | Error::NeedsParent { .. } => Self::Refused(error.to_string()),
        }
    }
}

/// What came of starting an occurrence.
enum Began {
    Now,
    Changed,
    Not(Tried),
}

/// What came of keeping a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// What was started, in order.
    pub fired: Vec<Occurrence>,
    /// When to look again; `None` when nothing is to come.
    pub next: Option<Timestamp>,
}

/// The schedule that is kept: of the store, or of the program.
#[derive(Clone, Copy)]
pub(super) enum Which<'a> {
    Stored(&'a str),
    Given(&'a Schedule),
}

impl<'a> Which<'a> {
    pub(super) fn name(self) -> &'a str {
        match self {
            Self::Stored(name) => name,
            Self::Given(schedule) => &schedule.name,
        }
    }

    /// The definition in force, if there is one.
    pub(super) fn definition(self, view: &mut View) -> Result<Option<Schedule>, Undecided> {
        match self {
            Self::Stored(name) => view.get(name),
            Self::Given(schedule) => Ok(Some(schedule.clone())),
        }
    }

    /// Where it stands. One that was never looked at begins now: nothing was due before.
    pub(super) fn standing(self, view: &mut View) -> Result<Standing, Undecided> {
        let now = view.now();
        let found = view.get::<Standing>(self.name())?;
        let standing = found.unwrap_or_else(|| Standing { done: now, ..Standing::default() });
        Ok(Standing { name: self.name().to_owned(), ..standing })
    }
}

/// What one decision is told beside what is stored.
pub(super) struct Told<'a> {
    pub(super) fresh: ExecutionId,
    pub(super) ended: &'a BTreeMap<ExecutionId, Option<String>>,
    pub(super) tried: &'a BTreeMap<Timestamp, Tried>,
    pub(super) starting: bool,
}

/// One decision on what is stored, with its writes; `None` when there is no such schedule.
pub(super) fn look(
    view: &mut View,
    which: Which<'_>,
    told: &Told<'_>,
) -> Result<Option<(Schedule, Decision)>, Undecided> {
    let Some(schedule) = which.definition(view)? else { return Ok(None) };
    let unknown = view.get::<Standing>(which.name())?.is_none();
    let standing = which.standing(view)?;
    let invalid = |e: super::ScheduleError| ActionError::permanent("schedule.invalid", e);
    let times = schedule.times().map_err(invalid)?;
    let wanted = wanted(&standing, &times);
    let key = |at: &Timestamp| Occurrence::key(&schedule.name, *at);
    view.want::<Occurrence>(wanted.iter().map(key))?;
    let mut on_record = BTreeMap::new();
    for at in &wanted {
        on_record.insert(*at, view.get::<Occurrence>(&key(at))?.map(|row| row.fate));
    }
    let facts = Facts {
        schedule: &schedule,
        times: &times,
        now: view.now(),
        fresh: told.fresh,
        ended: told.ended,
        on_record: &on_record,
        tried: told.tried,
        starting: told.starting,
    };
    let decision = decide(&facts, standing);
    view.want::<Occurrence>(decision.rows.keys().map(key))?;
    for row in decision.rows.values() {
        view.put(row)?;
    }
    if decision.changed || unknown {
        view.put(&decision.standing)?;
    }
    for (id, ask) in &decision.orders {
        let order = Order {
            by: format!("schedule {}", schedule.name),
            reason: "its next occurrence is due, and starts when this has ended".into(),
        };
        view.ask(
            *id,
            match ask {
                Ask::Cancel => Message::Cancel(order),
                Ask::Terminate => Message::Terminate(order),
            },
        );
    }
    Ok(Some((schedule, decision)))
}

impl<P: Send + Sync + 'static> Starter for Engine<P> {
    fn start<'a>(
        &'a self,
        workflow: &'a str,
        data: &'a serde_json::Value,
        _: &'a str,
        request: Request,
    ) -> BoxFuture<'a, Result<Started, Unstarted>> {
        Box::pin(async move { Ok(self.start_named(workflow, data.clone(), request).await?) })
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Starts an execution of the workflow named, from data of its own shape.
    ///
    /// # Errors
    /// As [`Engine::start`]; [`Error::NoWorker`] when it is not registered, [`Error::Unreadable`] when the data is not its.
    pub async fn start_named(
        &self,
        workflow: &str,
        data: serde_json::Value,
        request: Request,
    ) -> Result<Started, Error> {
        let schema = self.machine(workflow, 0)?.schema();
        self.begin(workflow, schema, data, request, None, crate::runtime::engine::Also::default()).await
    }

    /// Sees to everything that is due of the schedule `name`: starts what is to be started by `starter`, and puts the rest on
    /// record. Safe to call from several engines at once. Of a schedule that there is not, nothing is due.
    ///
    /// # Errors
    /// The store's; `schedule.invalid` for a definition that this version cannot read.
    pub async fn keep_schedule(&self, name: &str, starter: &dyn Starter) -> Result<Kept, Error> {
        let which = Which::Stored(name);
        let (mut kept, mut tried) = (Kept::default(), BTreeMap::new());
        for _ in 0..MOST_ROUNDS {
            let fresh = self.fresh();
            let Some(round) = self.decided(which, fresh, &tried).await? else { continue };
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
                    kept.next = self.next_look(&schedule, &decision.standing);
                    return Ok(kept);
                }
                if self.committed(commit, &decision).await? {
                    self.inner.due.ring();
                }
                continue;
            };
            let began = self.begin_occurrence(&schedule, started, (round.reads, round.puts), starter).await?;
            match began {
                Began::Now => {
                    self.counted(&decision);
                    kept.fired.push(started.clone());
                }
                Began::Changed => self.inner.metrics.conflict(),
                Began::Not(why) => drop(tried.insert(started.nominal, why)),
            }
        }
        kept.next = Some(self.inner.clock.now());
        Ok(kept)
    }

    /// Starts an occurrence with the commit that says so, in the name and by the words of the version that it is of.
    async fn begin_occurrence(
        &self,
        schedule: &Schedule,
        occurrence: &Occurrence,
        (reads, puts): (Vec<Read>, Vec<Put>),
        starter: &dyn Starter,
    ) -> Result<Began, Error> {
        let (name, moment) = (&schedule.name, occurrence.nominal.0);
        let Some((workflow, data, by)) = self.target(schedule, occurrence.version).await? else {
            let why = format!("version {} of the schedule is not on record", occurrence.version);
            return Ok(Began::Not(Tried::Refused(why)));
        };
        let key = format!("schedule:{name}/{moment}");
        let mut request = Request::of(by.clone()).once(&key, &key).with(reads, puts).scheduled(name);
        if let Some(id) = occurrence.execution {
            request = request.named(id);
        }
        Ok(match starter.start(&workflow, &data, &by, request).await {
            Ok(begun) if occurrence.execution != Some(begun.id) => Began::Not(Tried::Known(begun.id)),
            Ok(_) => Began::Now,
            Err(Unstarted::Changed) => Began::Changed,
            Err(Unstarted::Busy(why)) => Began::Not(Tried::Busy(why)),
            Err(Unstarted::Refused(why)) => {
                tracing::warn!(schedule = name, nominal = moment, why, "an occurrence cannot be started");
                Began::Not(Tried::Refused(why))
            }
            Err(Unstarted::Later(why)) => {
                tracing::warn!(schedule = name, nominal = moment, why, "an occurrence has to wait");
                Began::Not(Tried::Later)
            }
        })
    }

    /// Claims the occurrence of a built-in schedule that is due, if one is; the caller does what it is for. Of several engines
    /// exactly one is answered `Some`. Occurrences that are not made up for are put on record.
    ///
    /// # Errors
    /// The store's; `schedule.invalid`.
    pub async fn claim_occurrence(&self, schedule: &Schedule) -> Result<Option<Occurrence>, Error> {
        for _ in 0..MOST_ROUNDS {
            let round = self.decided(Which::Given(schedule), self.fresh(), &BTreeMap::new()).await?;
            let Some(round) = round else { continue };
            let Some((_, decision)) = round.result.map_err(Error::Undecided)? else { return Ok(None) };
            if round.puts.is_empty() {
                return Ok(None);
            }
            let commit = Commit {
                reads: round.reads,
                documents: round.puts,
                schedule: round.tasks,
                ..Commit::default()
            };
            if self.committed(commit, &decision).await? && decision.start.is_some() {
                return Ok(decision.start);
            }
        }
        Ok(None)
    }

    /// Puts on record how an occurrence of a built-in schedule has ended: `completed`, or `failed` with the reason, which is
    /// told.
    ///
    /// # Errors
    /// The store's.
    pub async fn end_occurrence(&self, claimed: &Occurrence, failed: Option<&str>) -> Result<(), Error> {
        let outcome = if failed.is_some() { "failed" } else { "completed" };
        self.ledger(true, |view| {
            let Some(row) = view.get::<Occurrence>(&claimed.id())? else { return Ok(()) };
            let reason = failed.map_or_else(|| row.reason.clone(), str::to_owned);
            if let Some(why) = failed {
                view.put(&Notification::schedule_failed(&row.schedule, row.nominal, why, view.now()))?;
            }
            view.put(&Occurrence { outcome: Some(outcome.into()), reason, ..row })
        })
        .await
    }

    pub(super) fn fresh(&self) -> ExecutionId {
        ExecutionId::new(self.inner.clock.now(), self.inner.clock.entropy())
    }

    /// One decision; `None` when it has to be made again.
    async fn decided(
        &self,
        which: Which<'_>,
        fresh: ExecutionId,
        tried: &BTreeMap<Timestamp, Tried>,
    ) -> Result<Option<Decided<Option<(Schedule, Decision)>>>, Error> {
        let ended = self.ended(which.name()).await?;
        let told = Told { fresh, ended: &ended, tried, starting: true };
        let (store, now) = (&*self.inner.store, self.inner.clock.now());
        let decided = decide_knowing(&self.inner.parsed, store, now, |view| look(view, which, &told)).await?;
        if decided.puts.is_empty() && !crate::model::view::still_stand(store, &decided.reads).await? {
            return Ok(None);
        }
        Ok(Some(decided))
    }

    /// Which of a schedule's runs are over, and how each ended.
    pub(super) async fn ended(&self, name: &str) -> Result<BTreeMap<ExecutionId, Option<String>>, Error> {
        let key = Key::new(Standing::COLLECTION, name);
        let Some(found) = self.inner.store.document(&key).await? else { return Ok(BTreeMap::new()) };
        let standing: Standing = crate::operations::query::parse(&found)?;
        let mut ended = BTreeMap::new();
        for id in standing.running.iter().filter_map(|run| run.execution) {
            // One that is on record no more was over for long.
            match self.inner.store.load(id).await? {
                Some(record) if record.open => {}
                Some(record) => drop(ended.insert(id, record.reason)),
                None => drop(ended.insert(id, None)),
            }
        }
        Ok(ended)
    }

    /// What a version of a schedule starts, and in whose name.
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
        Ok(parts(&crate::operations::query::parse::<Version>(&found)?.0))
    }

    async fn committed(&self, commit: Commit, decision: &Decision) -> Result<bool, Error> {
        match self.inner.store.commit(commit).await {
            Ok(_) => {
                self.counted(decision);
                Ok(true)
            }
            Err(store::Error::Conflict { .. }) => {
                self.inner.metrics.conflict();
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Counts every occurrence that has had its last word.
    fn counted(&self, decision: &Decision) {
        for row in decision.rows.values().filter(|row| !row.fate.waits() && row.outcome.is_none()) {
            self.inner.metrics.occurrence(row.fate.name());
            if row.fate == Fate::Fired && row.origin == Origin::Clock {
                self.inner.metrics.late(row.at.since(row.due()));
            }
        }
    }

    fn next_look(&self, schedule: &Schedule, standing: &Standing) -> Option<Timestamp> {
        let now = self.inner.clock.now();
        let moment = schedule.times().ok().and_then(|times| times.next_after(standing.done));
        let due = standing.waiting.iter().map(Occurrence::due).filter(|due| *due > now).min();
        let busy =
            !standing.running.is_empty() || !standing.waiting.is_empty() || !standing.backfills.is_empty();
        let poll = busy.then(|| now.after(POLL.max(SECOND)));
        [moment, due, poll].into_iter().flatten().min()
    }
}
