//! The environment of one run: engine, clock, store, and the approvers.

use super::{
    crash_store::CrashStore,
    fault_injector::{ScriptedFaults, lock_unpoisoned},
    scenario::ConcurrentChange,
    script::{Answer, Interruption, RunEnd, Script},
};
use crate::{
    Attribution, Clock as _, DAY, Edge, Engine, Error, Event, Execution, MINUTE, ManualClock, Person, Phase,
    Reason, Repair, Request, SECOND, Verdict, Workflow,
    model::{definition::step::SKIPPED, erased_workflow::AwaitedInput},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
};
use store::{ExecutionId, Filter, Memory, Record, Revision, Store as _};
use strum::VariantArray as _;

/// Identifies an approval or a wait of an execution.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum OpenQuestion {
    /// An approval: the visit and the stage. A reminder does not change it.
    People(u32, usize),
    Signal(Revision),
}

/// The limit of one run: delivered events, answers, clock jumps.
const MAX_MOVES: usize = 5_000;
/// After this many clock jumps without a commit, the clock jumps by a day.
const MAX_IDLE: u32 = 100;

pub(super) struct RunEnvironment<W: Workflow> {
    pub(super) memory: Arc<Memory>,
    pub(super) store: Arc<CrashStore>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) platform: Arc<W::Platform>,
    pub(super) faults: Arc<ScriptedFaults>,
    pub(super) edges: Arc<Mutex<BTreeMap<ExecutionId, Vec<Edge>>>>,
    pub(super) questions: Vec<Vec<Answer>>,
    /// Approvals and waits that are left until their deadline.
    pub(super) unanswered: HashSet<(ExecutionId, OpenQuestion)>,
    /// Executions that an operator has tried to repair.
    pub(super) retried: HashSet<ExecutionId>,
    pub(super) script: Script,
    /// The concurrent changes that have not happened yet.
    pub(super) meanwhile: Option<ConcurrentChange>,
    pub(super) interrupted: bool,
    /// The number of commits at the last clock jump, and how many jumps had no commit.
    pub(super) idle: (usize, u32),
    pub(super) kind: std::marker::PhantomData<fn() -> W>,
}

impl<W: Workflow> RunEnvironment<W> {
    /// Creates an engine as after a process start, with only the content of the store.
    fn engine(&self) -> Engine<W::Platform> {
        let edges = self.edges.clone();
        let options =
            crate::Options { fault_injector: Some(self.faults.clone()), ..crate::Options::default() };
        let engine = Engine::new(self.store.clone(), self.clock.clone(), self.platform.clone());
        let engine = engine.with_checked::<W>().with_options(options);
        engine.with_edge_observer(move |id, taken| {
            lock_unpoisoned(&edges).entry(id).or_default().extend_from_slice(taken);
        })
    }

    pub(super) async fn start(&mut self, data: W) -> Result<ExecutionId, Error> {
        loop {
            let request = Request::by(&Person::new("requester", ["requester"]))
                .with_idempotency_key("sweep", "the same");
            match self.engine().start(data.clone(), request).await {
                Ok(started) => return Ok(started.id),
                Err(_) if self.store.is_dead() => self.restart(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts a new process: the same store, and the leases of the old process expire.
    fn restart(&mut self) {
        self.store.revive();
        self.clock.advance(31 * SECOND);
    }

    pub(super) async fn execution(&self, id: ExecutionId) -> Result<Execution<W>, Error> {
        let record = self.memory.load(id).await?.ok_or(Error::NotFound(id))?;
        serde_json::from_slice(&record.body).map_err(|e| Error::Unreadable { id, why: e.to_string() })
    }

    pub(super) async fn run_to_end(&mut self, id: ExecutionId) -> Result<(RunEnd, Option<Reason>), Error> {
        let mut parked = None;
        let mut engine = self.engine();
        for _ in 0..MAX_MOVES {
            if self.store.is_dead() {
                self.restart();
                engine = self.engine();
            }
            self.apply_concurrent_change().await?;
            self.interrupt(&engine, id).await?;
            match self.work(&engine).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(_) if self.store.is_dead() => continue,
                Err(error) => return Err(error),
            }
            if self.store.is_dead() {
                continue;
            }
            let open = self.open(id).await?;
            let Some(stuck) = open.iter().find(|record| record.phase == "parked") else {
                if open.is_empty()
                    && let Phase::Finished { outcome, .. } = self.execution(id).await?.phase
                {
                    return Ok((RunEnd::Finished(outcome), parked));
                }
                self.answer(&engine, &open).await?;
                continue;
            };
            if must_skip(stuck) && self.skip(&engine, stuck.id).await? {
                continue;
            }
            let reason = reason_of(stuck);
            if !self.retried.insert(stuck.id) {
                return Ok((RunEnd::Parked(reason), parked.or(Some(reason))));
            }
            parked = parked.or((stuck.id == id).then_some(reason));
            self.faults.lift();
            self.deliver(&engine, stuck.id, Event::RetryRequested(order())).await?;
            if self.store.is_dead() {
                self.retried.remove(&stuck.id);
            }
        }
        let execution = self.execution(id).await?;
        Ok((RunEnd::Restless(format!("{} in {}", execution.phase_name(), execution.state_name())), parked))
    }

    /// Runs the first due task, or the last if the script is reversed. Returns true if there was one.
    async fn work(&self, engine: &Engine<W::Platform>) -> Result<bool, Error> {
        if !self.script.backwards {
            return engine.work_next().await;
        }
        let now = self.clock.now();
        let mut leases = self.store.lease("backwards", now, 30 * SECOND, 1_000).await?;
        let Some(last) = leases.pop() else { return Ok(false) };
        for lease in leases {
            let before = lease.deliveries.saturating_sub(1);
            self.store.release(lease.task.id, lease.epoch, lease.task.due, before).await?;
        }
        engine.work(last).await;
        Ok(true)
    }

    /// Returns the open executions, with the first one in front.
    async fn open(&self, first: ExecutionId) -> Result<Vec<Record>, Error> {
        let filter = Filter { open: Some(true), ..Filter::default() };
        let mut open = self.memory.list(&filter, None, 10_000).await?.items;
        open.sort_by_key(|record| record.id != first);
        Ok(open)
    }

    async fn deliver(
        &self,
        engine: &Engine<W::Platform>,
        id: ExecutionId,
        event: Event,
    ) -> Result<(), Error> {
        match engine.deliver(id, event).await {
            Ok(_) | Err(Error::Refused(_)) => Ok(()),
            Err(_) if self.store.is_dead() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Skips the step or the undo of a parked execution. Returns false if it cannot be skipped.
    async fn skip(&self, engine: &Engine<W::Platform>, id: ExecutionId) -> Result<bool, Error> {
        let repair = Repair::Skip { slot: None };
        match engine.deliver(id, Event::Repaired { repair, order: order() }).await {
            Ok(_) => Ok(true),
            Err(Error::Refused(_)) => Ok(false),
            Err(_) if self.store.is_dead() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Applies concurrent changes. They run in another process, which does not crash.
    async fn apply_concurrent_change(&mut self) -> Result<(), Error> {
        let commits = self.store.commits();
        let Some(due) = self.meanwhile.take_if(|meanwhile| commits >= meanwhile.after) else { return Ok(()) };
        let (store, clock) = (self.memory.clone(), self.clock.clone());
        Engine::<W::Platform>::new(store, clock, self.platform.clone()).transact(true, due.decide).await
    }

    async fn interrupt(&mut self, engine: &Engine<W::Platform>, id: ExecutionId) -> Result<(), Error> {
        let commits = self.store.commits();
        let due = match self.script.interruption {
            Some(
                Interruption::Cancel(n)
                | Interruption::PauseAndResume(n)
                | Interruption::Terminate(n)
                | Interruption::CancelChild(n),
            ) => commits >= n,
            None => false,
        };
        if !due || self.interrupted {
            return Ok(());
        }
        self.interrupted = true;
        match self.script.interruption {
            Some(Interruption::Cancel(_)) => self.deliver(engine, id, Event::CancelRequested(order())).await,
            Some(Interruption::Terminate(_)) => {
                self.deliver(engine, id, Event::TerminateRequested(order())).await
            }
            Some(Interruption::PauseAndResume(_)) => {
                self.deliver(engine, id, Event::PauseRequested(order())).await?;
                while engine.work_next().await? {}
                self.clock.advance(MINUTE);
                while engine.work_next().await? {}
                self.deliver(engine, id, Event::ResumeRequested(order())).await
            }
            Some(Interruption::CancelChild(_)) => {
                let open = self.open(id).await?;
                match open.iter().find(|record| record.id != id) {
                    Some(child) => self.deliver(engine, child.id, Event::CancelRequested(order())).await,
                    None => Ok(()),
                }
            }
            None => Ok(()),
        }
    }

    /// Returns violations between parents and children: one child for each slot, and a link that matches the child's
    /// end.
    pub(super) async fn child_violations(&self) -> Result<Vec<String>, Error> {
        let engine =
            Engine::<W::Platform>::new(self.memory.clone(), self.clock.clone(), self.platform.clone());
        let all = self.memory.list(&Filter::default(), None, 10_000).await?.items;
        let (mut wrong, mut links) = (Vec::new(), 0);
        for record in &all {
            for child in engine.children(record.id).await? {
                links += 1;
                let open = all.iter().any(|other| other.id == child.execution && other.open);
                if open != child.outcome.is_none() {
                    wrong.push(format!(
                        "{} {} ended differently from its link",
                        child.workflow, child.subject
                    ));
                }
            }
        }
        // Executions that a decision started have no parent.
        let children = all.iter().filter(|record| has_parent(&record.body)).count();
        if links < children {
            wrong.push(format!("{children} children were started, but parents have {links} links"));
        }
        Ok(wrong)
    }

    /// Nothing is due: approve, send a signal, or let time pass.
    async fn answer(&mut self, engine: &Engine<W::Platform>, open: &[Record]) -> Result<(), Error> {
        for record in open {
            let awaits = engine.machine(&record.workflow, record.schema)?.awaited_input(record)?;
            let others: &[Answer] = match &awaits {
                AwaitedInput::People { .. } => &[Answer::No, Answer::Late],
                AwaitedInput::Signal(_) => &[Answer::Late],
                AwaitedInput::Nothing => continue,
            };
            let question = match awaits {
                AwaitedInput::People { visit, stage } => OpenQuestion::People(visit, stage),
                AwaitedInput::Signal(_) | AwaitedInput::Nothing => OpenQuestion::Signal(record.revision),
            };
            if self.unanswered.contains(&(record.id, question)) {
                continue;
            }
            return match (self.question(others), awaits) {
                (Answer::Late, _) | (_, AwaitedInput::Nothing) => {
                    self.unanswered.insert((record.id, question));
                    Ok(())
                }
                (_, AwaitedInput::Signal(name)) => {
                    self.deliver(engine, record.id, Event::Signalled { name: name.into() }).await
                }
                (Answer::Yes, AwaitedInput::People { .. }) => {
                    self.vote(engine, record.id, Verdict::Approve).await
                }
                (Answer::No, AwaitedInput::People { .. }) => {
                    self.vote(engine, record.id, Verdict::Refuse).await
                }
            };
        }
        self.pass_time().await
    }

    fn question(&mut self, others: &[Answer]) -> Answer {
        let answer = self.script.answers.get(self.questions.len()).copied().unwrap_or(Answer::Yes);
        self.questions.push(others.to_vec());
        answer
    }

    async fn vote(
        &self,
        engine: &Engine<W::Platform>,
        id: ExecutionId,
        verdict: Verdict,
    ) -> Result<(), Error> {
        let case = match engine.approval(id).await {
            Ok(Some(case)) => case,
            Ok(None) => return Ok(()),
            Err(_) if self.store.is_dead() => return Ok(()),
            Err(error) => return Err(error),
        };
        let places = case.seats.iter().flat_map(|seat| (0..seat.count).map(move |_| seat));
        for (number, seat) in places.enumerate() {
            let person = Person::new(format!("voter-{number}"), seat.any_of.clone());
            match engine.vote(id, &person, verdict, &case.digest, "as scripted").await {
                Ok(_) | Err(Error::Refused(_)) => {}
                Err(_) if self.store.is_dead() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn pass_time(&mut self) -> Result<(), Error> {
        let commits = self.store.commits();
        self.idle =
            if self.idle.0 == commits { (commits, self.idle.1.saturating_add(1)) } else { (commits, 0) };
        match self.memory.next_due().await? {
            // A message for a workflow that is not registered here returns forever: it must not hide later tasks.
            Some(_) | None if self.idle.1 > MAX_IDLE => self.clock.advance(DAY),
            Some(next) => self.clock.advance_to(next),
            None => self.clock.advance(MINUTE),
        }
        Ok(())
    }
}

fn reason_of(record: &Record) -> Reason {
    let named = |reason: &&Reason| record.reason.as_deref() == Some(Into::<&str>::into(**reason));
    Reason::VARIANTS.iter().find(named).copied().unwrap_or(Reason::LimitReached)
}

/// Returns true if it was parked by a fault that represents a skipped step: the error code is the label of that edge.
fn must_skip(record: &Record) -> bool {
    let body: Value = serde_json::from_slice(&record.body).unwrap_or_default();
    let errors = body.pointer("/phase/parked/errors").and_then(Value::as_array);
    errors.into_iter().flatten().any(|error| error.get("code").and_then(Value::as_str) == Some(SKIPPED))
}

fn order() -> Attribution {
    Attribution { by: "operator".into(), reason: "as scripted".into() }
}

fn has_parent(body: &[u8]) -> bool {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body.get("parent").is_some_and(|parent| !parent.is_null())
}
