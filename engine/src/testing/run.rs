//! One run from request to rest, on the in-memory store and a clock that jumps to whatever is due next.

use super::{
    cuttable::Cuttable,
    scene::{Fault, Scene},
};
use crate::{
    Bend, Call, Edge, Engine, Error, Event, Execution, ManualClock, Order, Outcome, Person, Phase, Reason,
    Request, Step, Tap, Verdict, Workflow,
    action::{MINUTE, SECOND},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use store::{Commit, ExecutionId, Key, Memory, Store, Timestamp};

/// How a question, to people or to the world, is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    /// Granted; the signal comes.
    Yes,
    /// Refused.
    No,
    /// Not at all: the deadline passes.
    Late,
}

/// Which attempt is bent: the `nth` of forward actions, or of undos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Point {
    pub(crate) nth: usize,
    pub(crate) undo: bool,
}

/// When the process dies: around the `nth` commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cut {
    Before(usize),
    After(usize),
}

/// What an operator does once the `nth` commit is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Interruption {
    Cancel(usize),
    PauseAndResume(usize),
    Terminate(usize),
}

/// Everything that is done to a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Script {
    pub(crate) answers: Vec<Answer>,
    pub(crate) faults: Vec<(Point, Fault, Option<String>)>,
    pub(crate) cut: Option<Cut>,
    pub(crate) interruption: Option<Interruption>,
}

/// An attempt, as the tap saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deeded {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) undo: bool,
    pub(crate) key: String,
}

/// How a run came to rest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rest {
    Finished(Outcome),
    Parked(Reason),
    /// Neither, within the bound on events: what it was doing.
    Restless(String),
}

pub(crate) struct Run {
    pub(crate) rest: Rest,
    /// Why it was parked on the way, if it was.
    pub(crate) parked: Option<Reason>,
    pub(crate) past_pivot: bool,
    pub(crate) deeds: Vec<Deeded>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) undone: Vec<String>,
    /// For each question met: the other answers it could have had.
    pub(crate) questions: Vec<Vec<Answer>>,
    pub(crate) commits: usize,
    pub(crate) before: BTreeMap<String, Value>,
    pub(crate) after: BTreeMap<String, Value>,
    pub(crate) complaints: Vec<String>,
}

/// The bound on what a run may need: events delivered, questions answered, jumps of the clock.
const MOST_MOVES: usize = 5_000;

pub(crate) async fn run<W: Workflow>(scene: &dyn Scene<W>, script: &Script) -> Result<Run, Error> {
    let world = scene.world();
    let memory = Arc::new(Memory::new());
    memory.commit(Commit { documents: world.documents, ..Commit::default() }).await?;
    let mut stage: Stage<W> = Stage {
        memory: memory.clone(),
        store: Arc::new(Cuttable::new(memory.clone(), script.cut)),
        clock: Arc::new(ManualClock::at(Timestamp(1_767_225_600_000))),
        platform: Arc::new(world.platform),
        tap: Arc::new(ScriptTap {
            faults: script.faults.clone(),
            repeats: script.cut.is_some(),
            ..ScriptTap::default()
        }),
        edges: Arc::default(),
        questions: Vec::new(),
        script: script.clone(),
        interrupted: false,
        kind: std::marker::PhantomData,
    };
    let before = scene.snapshot(&stage.platform, &ledger(&memory, &world.collections).await?);
    let id = stage.start(scene.data()).await?;
    let (rest, parked) = stage.play(id).await?;
    let execution = stage.execution(id).await?;
    let journalled = undone(&execution);
    let after = scene.snapshot(&stage.platform, &ledger(&memory, &world.collections).await?);
    Ok(Run {
        rest,
        parked,
        past_pivot: execution.pivot.is_some(),
        deeds: locked(&stage.tap.deeds).clone(),
        edges: locked(&stage.edges).clone(),
        undone: journalled,
        questions: stage.questions,
        commits: stage.store.commits(),
        before,
        after,
        complaints: scene.complaints(&stage.platform),
    })
}

fn undone<W: Workflow>(execution: &Execution<W>) -> Vec<String> {
    let undone = execution.trail.iter().filter(|mark| mark.fate == crate::Fate::Undone);
    undone.map(|mark| format!("{}: {}", mark.state, mark.undo)).collect()
}

async fn ledger(store: &Memory, collections: &[&'static str]) -> Result<BTreeMap<Key, Value>, Error> {
    let mut found = BTreeMap::new();
    for collection in collections {
        let mut after: Option<String> = None;
        loop {
            let page = store.documents(collection, "", after.as_deref(), 1_000).await?;
            found.extend(
                page.items
                    .into_iter()
                    .map(|d| (d.key, serde_json::from_slice(&d.body).unwrap_or(Value::Null))),
            );
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(found)
}

struct Stage<W: Workflow> {
    memory: Arc<Memory>,
    store: Arc<Cuttable>,
    clock: Arc<ManualClock>,
    platform: Arc<W::Platform>,
    tap: Arc<ScriptTap>,
    edges: Arc<Mutex<Vec<Edge>>>,
    questions: Vec<Vec<Answer>>,
    script: Script,
    interrupted: bool,
    kind: std::marker::PhantomData<fn() -> W>,
}

impl<W: Workflow> Stage<W> {
    /// An engine as after a start of the process: nothing is remembered but what the store holds.
    fn engine(&self) -> Engine<W::Platform> {
        let edges = self.edges.clone();
        let options = crate::Options { tap: Some(self.tap.clone()), ..crate::Options::default() };
        let engine = Engine::new(self.store.clone(), self.clock.clone(), self.platform.clone());
        let engine = engine.with_checked::<W>().options(options);
        engine.watched(move |_, taken| locked(&edges).extend_from_slice(taken))
    }

    async fn start(&mut self, data: W) -> Result<ExecutionId, Error> {
        loop {
            let request = Request::by(&Person::new("requester", ["requester"])).once("sweep", "the same");
            match self.engine().start(data.clone(), request).await {
                Ok(started) => return Ok(started.id),
                Err(_) if self.store.is_dead() => self.restart(),
                Err(error) => return Err(error),
            }
        }
    }

    /// What a new process finds: the same store, and the leases of the dead one lapsed.
    fn restart(&mut self) {
        self.store.revive();
        self.clock.advance(31 * SECOND);
    }

    async fn execution(&self, id: ExecutionId) -> Result<Execution<W>, Error> {
        let record = self.memory.load(id).await?.ok_or(Error::NotFound(id))?;
        serde_json::from_slice(&record.body).map_err(|e| Error::Unreadable { id, why: e.to_string() })
    }

    async fn play(&mut self, id: ExecutionId) -> Result<(Rest, Option<Reason>), Error> {
        let mut parked = None;
        let mut engine = self.engine();
        for _ in 0..MOST_MOVES {
            if self.store.is_dead() {
                self.restart();
                engine = self.engine();
            }
            self.interrupt(&engine, id).await?;
            match engine.work_next().await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(_) if self.store.is_dead() => continue,
                Err(error) => return Err(error),
            }
            if self.store.is_dead() {
                continue;
            }
            let execution = self.execution(id).await?;
            match &execution.phase {
                Phase::Finished { outcome, .. } => return Ok((Rest::Finished(*outcome), parked)),
                Phase::Parked { reason, .. } if parked.is_some() => {
                    return Ok((Rest::Parked(*reason), parked));
                }
                Phase::Parked { reason, .. } => {
                    parked = Some(*reason);
                    self.tap.lift();
                    self.tell(&engine, id, Event::RetryRequested(order())).await?;
                }
                Phase::Forward | Phase::Compensating(_) => self.answer(&engine, id, &execution).await?,
            }
        }
        let execution = self.execution(id).await?;
        Ok((Rest::Restless(format!("{} in {}", execution.phase_name(), execution.state_name())), parked))
    }

    async fn tell(&self, engine: &Engine<W::Platform>, id: ExecutionId, event: Event) -> Result<(), Error> {
        match engine.deliver(id, event).await {
            Ok(_) | Err(Error::Refused(_)) => Ok(()),
            Err(_) if self.store.is_dead() => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn interrupt(&mut self, engine: &Engine<W::Platform>, id: ExecutionId) -> Result<(), Error> {
        let commits = self.store.commits();
        let due = match self.script.interruption {
            Some(Interruption::Cancel(n) | Interruption::PauseAndResume(n) | Interruption::Terminate(n)) => {
                commits >= n
            }
            None => false,
        };
        if !due || self.interrupted {
            return Ok(());
        }
        self.interrupted = true;
        match self.script.interruption {
            Some(Interruption::Cancel(_)) => self.tell(engine, id, Event::CancelRequested(order())).await,
            Some(Interruption::Terminate(_)) => {
                self.tell(engine, id, Event::TerminateRequested(order())).await
            }
            Some(Interruption::PauseAndResume(_)) => {
                self.tell(engine, id, Event::PauseRequested(order())).await?;
                while engine.work_next().await? {}
                self.clock.advance(MINUTE);
                while engine.work_next().await? {}
                self.tell(engine, id, Event::ResumeRequested(order())).await
            }
            None => Ok(()),
        }
    }

    /// Nothing is due: people decide, a signal comes, or time passes.
    async fn answer(
        &mut self,
        engine: &Engine<W::Platform>,
        id: ExecutionId,
        now: &Execution<W>,
    ) -> Result<(), Error> {
        let forward = matches!(now.phase, Phase::Forward);
        match now.data.step(now.state) {
            Step::Approval(_) if forward => match self.question(&[Answer::No, Answer::Late]) {
                Answer::Yes => self.vote(engine, id, now, Verdict::Approve).await,
                Answer::No => self.vote(engine, id, now, Verdict::Refuse).await,
                Answer::Late => self.pass_time().await,
            },
            Step::Wait(wait) if forward && wait.signal.is_some() => match self.question(&[Answer::Late]) {
                Answer::Yes | Answer::No => {
                    let name = wait.signal.unwrap_or_default().to_owned();
                    self.tell(engine, id, Event::Signalled { name }).await
                }
                Answer::Late => self.pass_time().await,
            },
            Step::Approval(_) | Step::Wait(_) | Step::Act(_) | Step::Choose(_) | Step::End(_) => {
                self.pass_time().await
            }
        }
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
        now: &Execution<W>,
        verdict: Verdict,
    ) -> Result<(), Error> {
        let Some(ballot) = &now.ballot else { return Ok(()) };
        let places = ballot.seats.iter().flat_map(|seat| (0..seat.count).map(move |_| seat));
        for (number, seat) in places.enumerate() {
            let person = Person::new(format!("voter-{number}"), seat.any_of.clone());
            match engine.vote(id, &person, verdict, &ballot.digest, "as scripted").await {
                Ok(_) | Err(Error::Refused(_)) => {}
                Err(_) if self.store.is_dead() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn pass_time(&self) -> Result<(), Error> {
        match self.memory.next_due().await? {
            Some(next) => self.clock.advance_to(next),
            None => self.clock.advance(MINUTE),
        }
        Ok(())
    }
}

fn order() -> Order {
    Order { by: "operator".into(), reason: "as scripted".into() }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes every attempt, and bends those that the script names.
#[derive(Default)]
struct ScriptTap {
    faults: Vec<(Point, Fault, Option<String>)>,
    /// An attempt delivered again after a crash is bent again, as a world that fails does not change its mind.
    repeats: bool,
    deeds: Mutex<Vec<Deeded>>,
    again: Mutex<Vec<(String, Fault, Option<String>)>>,
    lifted: AtomicBool,
}

impl ScriptTap {
    fn lift(&self) {
        self.lifted.store(true, Ordering::SeqCst);
    }
}

impl Tap for ScriptTap {
    fn bend(&self, name: &str, _: &Value, call: &Call) -> Bend {
        let mut deeds = locked(&self.deeds);
        let nth = deeds.iter().filter(|deed| deed.undo == call.undo).count();
        let key = call.key();
        deeds.push(Deeded {
            name: name.into(),
            state: call.state.clone(),
            undo: call.undo,
            key: key.clone(),
        });
        if self.lifted.load(Ordering::SeqCst) {
            return Bend::Not;
        }
        if let Some((_, fault, code)) = locked(&self.again).iter().find(|(bent, _, _)| *bent == key) {
            return fault.bend(code.as_deref());
        }
        let point = Point { nth, undo: call.undo };
        let Some((_, fault, code)) = self.faults.iter().find(|(at, _, _)| *at == point) else {
            return Bend::Not;
        };
        if *fault == Fault::FailsForever || self.repeats {
            locked(&self.again).push((key, *fault, code.clone()));
        }
        fault.bend(code.as_deref())
    }
}
