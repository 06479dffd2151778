//! The workflows that are played: errands whose steps are data, chores that they send others on, and demolitions that
//! destroy what two people have agreed to.

use crate::world::{Deed, PATIENCE, World};
use engine::{
    Action, ActionError, Call, ChildEnd, Entity, HOUR, LedgerAction, MINUTE, Outcome, Plan, Probe, Repeat,
    RetryPolicy, Rule, Seat, Step, Subject, Undecided, View, Workflow, act, act_each, approval, await_signal,
    children, end, wait, when,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use strum::{IntoStaticStr, VariantArray};

/// What one of the numbered states of an errand does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Spec {
    /// Makes these side by side.
    Make(Vec<String>),
    /// Takes so many tokens out of the pool.
    Reserve(u64),
    /// Asks two people who hold `boss`.
    Ask,
    /// Waits for the signal `go`.
    Listen,
    /// Ten minutes.
    Sleep,
    /// Sends others on chores.
    Send(Vec<Chore>),
    /// Pays once, past which there is no way back.
    Pay(String),
}

/// How long people and signals are waited for.
pub const ANSWER_WITHIN: Duration = HOUR;
/// How long a plain wait takes.
pub const SLEEP: Duration = Duration::from_secs(600);

/// What a call made, and for which visit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// What.
    pub name: String,
    /// In which state.
    pub state: String,
    /// Which time.
    pub entered: u32,
}

fn policy() -> RetryPolicy {
    RetryPolicy { attempts: 4, ..RetryPolicy::default() }
}

/// Makes a thing. Safe to run twice: the world knows the key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Make {
    /// Its name.
    pub name: String,
}
impl Action for Make {
    const NAME: &'static str = "Make";
    type Platform = Arc<World>;
    type Output = Made;
    async fn run(&self, on: &Arc<World>, call: &Call) -> Result<Made, ActionError> {
        on.perform(Deed::Make, &self.name, call).await?;
        Ok(self.made(call))
    }
    async fn probe(&self, on: &Arc<World>, call: &Call) -> Result<Probe<Made>, ActionError> {
        on.ask(call, self.made(call)).await
    }
}
impl Make {
    fn made(&self, call: &Call) -> Made {
        Made { name: self.name.clone(), state: call.state.clone(), entered: call.states_entered }
    }
}

/// Takes a thing away. Tolerates that it is not there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unmake {
    /// Its name.
    pub name: String,
}
impl Action for Unmake {
    const NAME: &'static str = "Unmake";
    type Platform = Arc<World>;
    type Output = ();
    async fn run(&self, on: &Arc<World>, call: &Call) -> Result<(), ActionError> {
        on.perform(Deed::Unmake, &self.name, call).await
    }
}

/// Pays. Not to be repeated before a probe has said that it did not happen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pay {
    /// For what.
    pub name: String,
}
impl Action for Pay {
    const NAME: &'static str = "Pay";
    type Platform = Arc<World>;
    type Output = ();
    const REPEAT: Repeat = Repeat::AfterProbe;
    async fn run(&self, on: &Arc<World>, call: &Call) -> Result<(), ActionError> {
        on.perform(Deed::Pay, &self.name, call).await
    }
    async fn probe(&self, on: &Arc<World>, call: &Call) -> Result<Probe<()>, ActionError> {
        on.ask(call, ()).await
    }
}

/// Destroys. Safe to run twice: what is gone is gone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wreck {
    /// What.
    pub name: String,
}
impl Action for Wreck {
    const NAME: &'static str = "Wreck";
    type Platform = Arc<World>;
    type Output = ();
    async fn run(&self, on: &Arc<World>, call: &Call) -> Result<(), ActionError> {
        on.perform(Deed::Wreck, &self.name, call).await
    }
}

/// Tokens, and who holds how many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// In all.
    pub total: u64,
    /// With nobody.
    pub free: u64,
    /// By execution.
    pub held: BTreeMap<String, u64>,
}
impl Pool {
    /// The one pool's name.
    pub const ID: &'static str = "tokens";
}
impl Entity for Pool {
    const COLLECTION: &'static str = "pools";
    fn id(&self) -> String {
        Self::ID.into()
    }
}

/// Takes tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reserve {
    /// How many.
    pub tokens: u64,
}
impl LedgerAction for Reserve {
    const NAME: &'static str = "Reserve";
    type Output = ();
    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let mut pool = view.need::<Pool>(Pool::ID)?;
        let Some(free) = pool.free.checked_sub(self.tokens) else {
            return Err(ActionError::transient("pool.empty", "not enough tokens").into());
        };
        pool.free = free;
        *pool.held.entry(call.execution.to_string()).or_default() += self.tokens;
        view.put(&pool)
    }
}

/// Gives all tokens back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Release {
    /// How many were taken at this step.
    pub tokens: u64,
}
impl LedgerAction for Release {
    const NAME: &'static str = "Release";
    type Output = ();
    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let mut pool = view.need::<Pool>(Pool::ID)?;
        let back = pool.held.remove(&call.execution.to_string()).unwrap_or(0);
        pool.free += back;
        view.put(&pool)
    }
}

/// One thing made, on behalf of an errand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chore {
    /// What is made.
    pub name: String,
    /// Whether it waits in the middle.
    pub dawdles: bool,
    /// What calls have answered.
    pub noted: Vec<Made>,
}

/// Where a chore may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Doing {
    Choosing,
    Dawdling,
    Making,
    Polishing,
    Done,
}

impl Workflow for Chore {
    const NAME: &'static str = "chore";
    const SCHEMA: u32 = 1;
    const INITIAL: Doing = Doing::Choosing;
    type State = Doing;
    type Platform = Arc<World>;

    fn step(&self, state: Doing) -> Step<Self> {
        let make = |name: String| {
            act(Make { name: name.clone() })
                .undo(Unmake { name })
                .record(|me: &mut Self, made| me.noted.push(made))
                .retry(policy())
                .attempt_within(PATIENCE)
                .within(6 * HOUR)
        };
        match state {
            Doing::Choosing => {
                when(self.dawdles, "dawdle", Doing::Dawdling).otherwise("at once", Doing::Making)
            }
            Doing::Dawdling => wait(SLEEP).then(Doing::Making),
            Doing::Making => make(self.name.clone()).then(Doing::Polishing),
            Doing::Polishing => make(format!("{}-polish", self.name)).then(Doing::Done),
            Doing::Done => end(Outcome::Completed),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: "home".into(), name: format!("chore/{}", self.name), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan { title: "chore".into(), decides: json!({ "make": self.name }), placement: json!(null) }
    }

    fn examples() -> Vec<Self> {
        vec![Self { name: "a".into(), dawdles: true, noted: vec![] }]
    }
}

/// Steps to be taken one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Errand {
    /// Names it.
    pub name: String,
    /// The steps.
    pub steps: Vec<Spec>,
    /// What calls have answered.
    pub noted: Vec<Made>,
    /// How chores have ended.
    pub sent: Vec<String>,
}

/// Where an errand may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Going {
    Leaving,
    First,
    Second,
    Third,
    Fourth,
    Fifth,
    Done,
    Declined,
    Lapsed,
}

impl Errand {
    /// The step that a state stands for.
    #[must_use]
    pub fn spec(&self, state: &str) -> Option<&Spec> {
        let place = ["First", "Second", "Third", "Fourth", "Fifth"].iter().position(|name| *name == state)?;
        self.steps.get(place)
    }

    fn at(&self, state: Going, next: Going) -> Step<Self> {
        let note = |me: &mut Self, made: Made| me.noted.push(made);
        let sent = |me: &mut Self, end: ChildEnd<Vec<Made>>| {
            let outcome: &str = end.outcome.into();
            me.sent.push(outcome.into());
        };
        let none: Vec<Make> = Vec::new();
        let unmake = |make: &Make| Unmake { name: make.name.clone() };
        match self.spec(state.into()).cloned() {
            None => act_each(none).undo_each(unmake).then(next),
            Some(Spec::Make(names)) => act_each(names.into_iter().map(|name| Make { name }))
                .undo_each(unmake)
                .record(note)
                .retry(policy())
                .attempt_within(PATIENCE)
                .within(6 * HOUR)
                .then(next),
            Some(Spec::Reserve(tokens)) => {
                act(Reserve { tokens }).undo(Release { tokens }).retry(policy()).within(6 * HOUR).then(next)
            }
            Some(Spec::Ask) => approval([Seat::of("boss", 2)])
                .within(ANSWER_WITHIN)
                .granted(next)
                .refused(Going::Declined)
                .expired(Going::Lapsed),
            Some(Spec::Listen) => await_signal("go").within(ANSWER_WITHIN).then(next).expired(Going::Lapsed),
            Some(Spec::Sleep) => wait(SLEEP).then(next),
            Some(Spec::Send(chores)) => children(chores)
                .answer(|chore| chore.noted.clone())
                .cancelled()
                .within(24 * HOUR)
                .record(sent)
                .then(next),
            Some(Spec::Pay(name)) => {
                act(Pay { name }).forward_only().retry(policy()).attempt_within(PATIENCE).then(next)
            }
        }
    }
}

impl Workflow for Errand {
    const NAME: &'static str = "errand";
    const SCHEMA: u32 = 1;
    const INITIAL: Going = Going::Leaving;
    type State = Going;
    type Platform = Arc<World>;

    fn step(&self, state: Going) -> Step<Self> {
        match state {
            // Policy lets every errand pass, so that what is paid is authorised.
            Going::Leaving => when(true, "always", Going::First)
                .waived_by(Rule { name: "simulation".into(), version: "1".into() })
                .or_when(false, "never", Going::Declined)
                .otherwise("late", Going::Lapsed),
            Going::First => self.at(state, Going::Second),
            Going::Second => self.at(state, Going::Third),
            Going::Third => self.at(state, Going::Fourth),
            Going::Fourth => self.at(state, Going::Fifth),
            Going::Fifth => self.at(state, Going::Done),
            Going::Done => end(Outcome::Completed),
            Going::Declined => end(Outcome::Refused),
            Going::Lapsed => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: "home".into(), name: format!("errand/{}", self.name), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan { title: self.name.clone(), decides: json!({ "name": self.name }), placement: json!(self.noted) }
    }

    fn examples() -> Vec<Self> {
        let chore = Chore { name: "c".into(), dawdles: false, noted: vec![] };
        let of = |steps: Vec<Spec>| Self { name: "example".into(), steps, noted: vec![], sent: vec![] };
        vec![
            of(vec![Spec::Make(vec!["a".into()]); 5]),
            of(vec![Spec::Reserve(1); 5]),
            of(vec![Spec::Send(vec![chore]); 5]),
        ]
    }
}

/// Destroys a house, once two people have agreed to exactly what is destroyed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Demolition {
    /// The house: one demolition of it at a time.
    pub name: String,
    /// Tells the demolitions of one house apart.
    pub number: u32,
    /// What is found when it is surveyed, and changes the plan.
    pub hidden: u32,
    /// What is known to be in it.
    pub rooms: u32,
    /// What calls have answered.
    pub noted: Vec<Made>,
}

/// Where a demolition may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Wrecking {
    Agreeing,
    Surveying,
    Wrecking,
    Clearing,
    Done,
    Spared,
    Lapsed,
}

impl Demolition {
    /// What it calls something that it makes.
    #[must_use]
    pub fn thing(&self, what: &str) -> String {
        format!("{}-{}-{what}", self.name, self.number)
    }
}

impl Workflow for Demolition {
    const NAME: &'static str = "demolition";
    const SCHEMA: u32 = 1;
    const INITIAL: Wrecking = Wrecking::Agreeing;
    type State = Wrecking;
    type Platform = Arc<World>;

    fn step(&self, state: Wrecking) -> Step<Self> {
        match state {
            Wrecking::Agreeing => approval([Seat::of("boss", 2)])
                .within(ANSWER_WITHIN)
                .granted(Wrecking::Surveying)
                .refused(Wrecking::Spared)
                .expired(Wrecking::Lapsed),
            Wrecking::Surveying => act(Make { name: self.thing("fence") })
                .undo(Unmake { name: self.thing("fence") })
                .record(|me: &mut Self, made| {
                    me.rooms += std::mem::take(&mut me.hidden);
                    me.noted.push(made);
                })
                .retry(policy())
                .attempt_within(PATIENCE)
                .within(6 * HOUR)
                .then(Wrecking::Wrecking),
            Wrecking::Wrecking => act(Wreck { name: self.name.clone() })
                .forward_only()
                .destroys()
                .retry(policy())
                .attempt_within(PATIENCE)
                .then(Wrecking::Clearing),
            Wrecking::Clearing => act(Make { name: self.thing("lawn") })
                .nothing_to_undo()
                .record(|me: &mut Self, made| me.noted.push(made))
                .retry(policy())
                .attempt_within(PATIENCE)
                .within(6 * HOUR)
                .then(Wrecking::Done),
            Wrecking::Done => end(Outcome::Completed),
            Wrecking::Spared => end(Outcome::Refused),
            Wrecking::Lapsed => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        Subject {
            tenant: "home".into(),
            name: format!("house/{}", self.name),
            guard: Some(format!("house/{}", self.name)),
        }
    }

    fn plan(&self) -> Plan {
        let decides = json!({ "wreck": self.name, "rooms": self.rooms });
        Plan { title: format!("wreck {}", self.name), decides, placement: json!(null) }
    }

    fn examples() -> Vec<Self> {
        vec![Self { name: "h".into(), number: 0, hidden: 0, rooms: 1, noted: vec![] }]
    }
}

/// How soon a state may pass its deadline, by workflow and state; `None` where there is none to speak of.
#[must_use]
pub fn soonest(workflow: &str, state: &str, data: &serde_json::Value) -> Option<Duration> {
    match workflow {
        Errand::NAME => {
            let errand: Errand = serde_json::from_value(data.clone()).ok()?;
            Some(match errand.spec(state)? {
                Spec::Ask | Spec::Listen => ANSWER_WITHIN,
                Spec::Sleep => SLEEP,
                Spec::Make(_) | Spec::Reserve(_) => 6 * HOUR,
                Spec::Send(_) => 24 * HOUR,
                Spec::Pay(_) => MINUTE,
            })
        }
        Chore::NAME if state == "Dawdling" => Some(SLEEP),
        Demolition::NAME if state == "Agreeing" => Some(ANSWER_WITHIN),
        _ => None,
    }
}
