//! A workflow that reaches every condition of an open execution. Its yard counts effects by idempotency key, and completes no
//! work until it is opened.

use engine::{
    Action, ActionError, Call, DAY, HOUR, MINUTE, Outcome, Plan, Probe, Repeat, RetryPolicy, Rule, Seat,
    Step, Subject, Workflow, act, act_each, approval, await_signal, children, end, wait, when,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use strum::{IntoStaticStr, VariantArray};

/// The condition of an open execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, VariantArray)]
pub enum Kind {
    /// It waits for approval.
    Approval,
    /// It waits for a signal.
    Signal,
    /// It waits for a timer.
    Timer,
    /// The action has failed, and will be retried.
    Retrying,
    /// A worker had its task and died: only the yard knows if it took effect.
    InFlight,
    /// Some of its slots are done, others are running.
    FanOut,
    /// It waits for its children.
    Parent,
    /// It is a child and waits for a signal. No top-level execution has this kind; each parent has two such children.
    Child,
    /// It is parked past its pivot.
    Parked,
    /// It is parked, because the outcome of a call is unknown.
    Unknown,
    /// It is undoing: one undo is done, another fails temporarily.
    Unwinding,
}

/// The external system: effects by idempotency key.
#[derive(Debug, Default)]
pub struct Yard {
    effects: Mutex<BTreeMap<String, u32>>,
    failures: Mutex<BTreeMap<String, u32>>,
    open: AtomicBool,
}

impl Yard {
    /// From now on every call takes effect.
    pub fn open(&self) {
        self.open.store(true, Ordering::Release);
    }

    /// Returns a copy of the current state.
    #[must_use]
    pub fn twin(&self) -> Self {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let open = AtomicBool::new(self.is_open());
        Self { effects: Mutex::new(self.effects()), failures: Mutex::new(failures), open }
    }

    /// Returns how often each key took effect.
    #[must_use]
    pub fn effects(&self) -> BTreeMap<String, u32> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns how often a call of the subject was refused.
    #[must_use]
    pub fn failures(&self, subject: &str) -> u32 {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).get(subject).copied().unwrap_or(0)
    }

    /// Adds an effect.
    pub fn effect(&self, key: String) {
        *self.effects.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default() += 1;
    }

    fn has(&self, key: &str) -> bool {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).contains_key(key)
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    fn fail(&self, subject: &str) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        *failures.entry(subject.to_owned()).or_default() += 1;
    }
}

/// The behaviour of an action while the yard is closed. Once it is open, each takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// Takes effect.
    Plainly,
    /// No effect: a transient failure.
    Busy,
    /// No effect yet: retry in an hour.
    Later,
    /// No effect: a permanent failure.
    Broken,
    /// Takes effect, but neither the answer nor a probe shows it.
    Unheard,
    /// No effect: a permanent failure, even when the yard is open.
    Never,
}

/// An action with one effect for each key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Do {
    subject: String,
    how: How,
}

impl Action for Do {
    const NAME: &'static str = "Do";
    type Platform = Yard;
    type Output = String;
    const REPEAT: Repeat = Repeat::AfterProbe;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    async fn run(&self, on: &Yard, call: &Call) -> Result<String, ActionError> {
        let how = if on.is_open() && self.how != How::Never { How::Plainly } else { self.how };
        if how != How::Plainly {
            on.fail(&self.subject);
        }
        match how {
            How::Plainly | How::Unheard => on.effect(call.key()),
            How::Busy | How::Later | How::Broken | How::Never => {}
        }
        match how {
            How::Plainly => Ok(self.subject.clone()),
            How::Busy => Err(ActionError::transient("yard.busy", "it is closed")),
            How::Later => Err(ActionError::pending("yard.later", HOUR)),
            How::Broken | How::Never => Err(ActionError::permanent("yard.broken", "it is closed for good")),
            How::Unheard => Err(ActionError::unknown("yard.unheard", "no answer came")),
        }
    }

    async fn probe(&self, on: &Yard, call: &Call) -> Result<Probe<String>, ActionError> {
        Ok(match (self.how, on.is_open(), on.has(&call.key())) {
            (How::Unheard, false, _) => Probe::CannotTell,
            (_, _, true) => Probe::Done(self.subject.clone()),
            (_, _, false) => Probe::NotDone,
        })
    }
}

/// An execution that reaches the condition of its kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Errand {
    number: usize,
    kind: Kind,
    learnt: Vec<String>,
}

/// The states of the workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[allow(missing_docs, reason = "what each does is said in `step`")]
pub enum State {
    Choosing,
    Asking,
    Listening,
    Sleeping,
    Arriving,
    Trying,
    Spreading,
    Parenting,
    Committing,
    Building,
    Furnishing,
    Breaking,
    Finishing,
    Done,
    Declined,
    Lapsed,
}

impl Errand {
    /// Returns executions of all kinds in turn.
    #[must_use]
    pub fn numbered(number: usize) -> Self {
        let kinds: Vec<Kind> = Kind::VARIANTS.iter().copied().filter(|kind| *kind != Kind::Child).collect();
        Self { number, kind: kinds[number % kinds.len()], learnt: Vec::new() }
    }

    fn name(&self) -> String {
        format!("errand/{:05}", self.number)
    }

    fn doing(&self, how: How) -> Do {
        Do { subject: self.name(), how }
    }

    fn chores(&self) -> impl Iterator<Item = Chore> {
        let of = |n: usize| Chore { name: format!("chore/{:05}/{n}", self.number) };
        [of(1), of(2)].into_iter()
    }
}

impl Workflow for Errand {
    const NAME: &'static str = "errand";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Choosing;
    type State = State;
    type Platform = Yard;

    fn step(&self, state: State) -> Step<Self> {
        let is = |kinds: &[Kind]| kinds.contains(&self.kind);
        let learn = |me: &mut Self, what: String| me.learnt.push(what);
        let patient = RetryPolicy { attempts: 200, ..RetryPolicy::default() };
        match state {
            State::Choosing => when(is(&[Kind::Approval]), "ask", State::Asking)
                .or_when(is(&[Kind::Signal]), "listen", State::Listening)
                .or_when(is(&[Kind::Timer]), "sleep", State::Sleeping)
                .or_when(is(&[Kind::InFlight]), "arrive", State::Arriving)
                .or_when(is(&[Kind::Retrying, Kind::Unknown]), "try", State::Trying)
                .or_when(is(&[Kind::FanOut]), "spread", State::Spreading)
                .or_when(is(&[Kind::Parent]), "start others", State::Parenting)
                .or_when(is(&[Kind::Parked]), "commit", State::Committing)
                .waived_by(Rule { name: "tests".into(), version: "1".into() })
                .otherwise("build", State::Building),
            State::Asking => approval([Seat::new("boss", 2)])
                .within(DAY)
                .granted(State::Finishing)
                .refused(State::Declined)
                .expired(State::Lapsed),
            State::Listening => await_signal("go").within(DAY).then(State::Finishing).expired(State::Lapsed),
            State::Sleeping => wait(HOUR).then(State::Finishing),
            State::Arriving => await_signal("come").within(DAY).then(State::Trying).expired(State::Lapsed),
            State::Trying => {
                let how = match self.kind {
                    Kind::Retrying => How::Busy,
                    Kind::Unknown => How::Unheard,
                    _ => How::Plainly,
                };
                act(self.doing(how)).nothing_to_undo().record(learn).retry(patient).then(State::Finishing)
            }
            State::Spreading => {
                let hows = [How::Plainly, How::Later, How::Plainly, How::Later];
                act_each(hows.map(|how| self.doing(how)))
                    .undo_each(|done: &Do| Do { how: How::Plainly, ..done.clone() })
                    .record(learn)
                    .within(DAY)
                    .then(State::Finishing)
            }
            State::Parenting => {
                children(self.chores()).cancel_on_undo().within(2 * DAY).then(State::Finishing)
            }
            State::Committing => {
                act(self.doing(How::Broken)).forward_only().record(learn).then(State::Finishing)
            }
            State::Building => {
                act(self.doing(How::Plainly)).undo(self.doing(How::Busy)).then(State::Furnishing)
            }
            State::Furnishing => {
                act(self.doing(How::Plainly)).undo(self.doing(How::Plainly)).then(State::Breaking)
            }
            State::Breaking => act(self.doing(How::Never)).nothing_to_undo().then(State::Finishing),
            State::Finishing => {
                act(self.doing(How::Plainly)).nothing_to_undo().within(MINUTE).then(State::Done)
            }
            State::Done => end(Outcome::Completed),
            State::Declined => end(Outcome::Refused),
            State::Lapsed => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        Subject {
            tenant: format!("tenant-{}", self.number % 10),
            name: self.name(),
            guard: Some(self.name()),
        }
    }

    fn plan(&self) -> Plan {
        Plan { title: self.name(), decides: json!({ "number": self.number }), placement: json!(self.learnt) }
    }

    fn examples() -> Vec<Self> {
        (0..Kind::VARIANTS.len()).map(Self::numbered).collect()
    }
}

/// The child workflow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chore {
    name: String,
}

/// The states of a chore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[allow(missing_docs, reason = "what each does is said in `step`")]
pub enum Standing {
    Listening,
    Working,
    Done,
    Lapsed,
}

impl Workflow for Chore {
    const NAME: &'static str = "chore";
    const SCHEMA: u32 = 1;
    const INITIAL: Standing = Standing::Listening;
    type State = Standing;
    type Platform = Yard;

    fn step(&self, state: Standing) -> Step<Self> {
        match state {
            Standing::Listening => {
                await_signal("go").within(DAY).then(Standing::Working).expired(Standing::Lapsed)
            }
            Standing::Working => act(Do { subject: self.name.clone(), how: How::Plainly })
                .nothing_to_undo()
                .then(Standing::Done),
            Standing::Done => end(Outcome::Completed),
            Standing::Lapsed => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: String::new(), name: self.name.clone(), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan { title: self.name.clone(), decides: json!(self.name), placement: json!(null) }
    }

    fn examples() -> Vec<Self> {
        vec![Self { name: "chore/1".into() }]
    }
}
