//! The words a workflow is written in. Each builder forbids, by its type, leaving out what must be said.

use crate::{
    Act, ActionError, Approval, Branch, Commitment, DoneTo, Outcome, Procedure, RetryPolicy, Rule, Seat,
    StateSet, Step, Wait, WhilePending, Workflow,
    model::{
        action::{HOUR, MINUTE},
        step::{Choice, Choose, Recorder, Undo},
    },
};
use serde::de::DeserializeOwned;
use std::{marker::PhantomData, time::Duration};

/// One action that does not say yet how it is undone; it cannot become a step until it does.
///
/// ```
/// # use engine::*;
/// # #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)] struct Hello;
/// # #[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)] enum State { Greeting, Done }
/// # #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)] struct Greet;
/// # impl Action for Greet {
/// #     const NAME: &'static str = "Greet";
/// #     type Platform = ();
/// #     type Output = ();
/// #     async fn run(&self, _: &(), _: &Call) -> Result<(), ActionError> { Ok(()) }
/// # }
/// # impl Workflow for Hello {
/// #     const NAME: &'static str = "hello";
/// #     const SCHEMA: u32 = 1;
/// #     const INITIAL: State = State::Greeting;
/// #     type State = State;
/// #     type Platform = ();
/// #     fn subject(&self) -> Subject { Subject::default() }
/// #     fn plan(&self) -> Plan { Plan::default() }
/// #     fn examples() -> Vec<Self> { vec![Self] }
/// fn step(&self, state: State) -> Step<Self> {
///     match state {
///         State::Greeting => act(Greet).nothing_to_undo().then(State::Done),
///         State::Done => end(Outcome::Completed),
///     }
/// }
/// # }
/// ```
///
/// Without those two words the same does not compile:
///
/// ```compile_fail
/// # use engine::*;
/// # #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)] struct Hello;
/// # #[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)] enum State { Greeting, Done }
/// # #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)] struct Greet;
/// # impl Action for Greet {
/// #     const NAME: &'static str = "Greet";
/// #     type Platform = ();
/// #     type Output = ();
/// #     async fn run(&self, _: &(), _: &Call) -> Result<(), ActionError> { Ok(()) }
/// # }
/// # impl Workflow for Hello {
/// #     const NAME: &'static str = "hello";
/// #     const SCHEMA: u32 = 1;
/// #     const INITIAL: State = State::Greeting;
/// #     type State = State;
/// #     type Platform = ();
/// #     fn subject(&self) -> Subject { Subject::default() }
/// #     fn plan(&self) -> Plan { Plan::default() }
/// #     fn examples() -> Vec<Self> { vec![Self] }
/// fn step(&self, state: State) -> Step<Self> {
///     match state {
///         State::Greeting => act(Greet).then(State::Done),
///         State::Done => end(Outcome::Completed),
///     }
/// }
/// # }
/// ```
#[must_use = "say .undo(..), .nothing_to_undo() or .forward_only()"]
pub struct Uncompensated<W: Workflow, A, K> {
    actions: Vec<A>,
    kind: PhantomData<fn() -> (W, K)>,
}

/// Does one action.
pub fn act<W: Workflow, A, K>(action: A) -> Uncompensated<W, A, K>
where
    A: DoneTo<W::Platform, K>,
{
    Uncompensated { actions: vec![action], kind: PhantomData }
}

/// Does like actions side by side, one a slot.
pub fn act_each<W: Workflow, A, K>(actions: impl IntoIterator<Item = A>) -> Uncompensated<W, A, K>
where
    A: DoneTo<W::Platform, K>,
{
    Uncompensated { actions: actions.into_iter().collect(), kind: PhantomData }
}

impl<W: Workflow, A: DoneTo<W::Platform, K>, K> Uncompensated<W, A, K> {
    /// How it is taken back. Its arguments are stored before the action starts.
    pub fn undo<U: DoneTo<W::Platform, L> + Clone, L>(self, undo: U) -> Acting<W, A::Output> {
        self.undo_each(move |_| undo.clone())
    }

    /// How each is taken back.
    pub fn undo_each<U: DoneTo<W::Platform, L>, L>(self, undo: impl Fn(&A) -> U) -> Acting<W, A::Output> {
        self.build(Commitment::Undone, |action| Some(undo_of::<W, U, L>(undo(action))))
    }

    /// It changes nothing that would have to be taken back.
    pub fn nothing_to_undo(self) -> Acting<W, A::Output> {
        self.build(Commitment::NothingToUndo, |_| None)
    }

    /// It cannot be taken back: from here the execution only goes forward. Needs an authorisation on every path to it.
    pub fn forward_only(self) -> Acting<W, A::Output> {
        self.build(Commitment::ForwardOnly { destroys: false }, |_| None)
    }

    fn build(
        self,
        commitment: Commitment,
        undo: impl Fn(&A) -> Option<Undo<W::Platform>>,
    ) -> Acting<W, A::Output> {
        let slot = |action: A| Branch { undo: undo(&action), deed: action.deed(), record: None };
        Acting { act: plain(self.actions.into_iter().map(slot).collect(), commitment), output: PhantomData }
    }
}

fn undo_of<W: Workflow, U: DoneTo<W::Platform, L>, L>(undo: U) -> Undo<W::Platform> {
    Undo { deed: undo.deed(), decode: |stored| serde_json::from_value::<U>(stored.clone()).map(U::deed) }
}

pub(crate) fn plain<W: Workflow>(branches: Vec<Branch<W>>, commitment: Commitment) -> Act<W> {
    Act {
        branches,
        commitment,
        retry: RetryPolicy::default(),
        attempt_within: MINUTE,
        heartbeat: None,
        within: HOUR,
        at_once: 16,
        keys: Vec::new(),
        while_pending: WhilePending::default(),
        next: W::INITIAL,
        on_failure: Vec::new(),
        or_else: None,
        optional: false,
        kin: None,
    }
}

/// One of several unlike actions; not a [`Branch`] until it says how it is undone.
#[must_use = "say .undo(..) or .nothing_to_undo()"]
pub struct UncompensatedBranch<W: Workflow, A, K> {
    action: A,
    kind: PhantomData<fn() -> (W, K)>,
}

/// One of the unlike actions of [`all`].
pub fn branch<W: Workflow, A: DoneTo<W::Platform, K>, K>(action: A) -> UncompensatedBranch<W, A, K> {
    UncompensatedBranch { action, kind: PhantomData }
}

impl<W: Workflow, A: DoneTo<W::Platform, K>, K> UncompensatedBranch<W, A, K> {
    /// How it is taken back.
    pub fn undo<U: DoneTo<W::Platform, L>, L>(self, undo: U) -> Branch<W> {
        Branch { deed: self.action.deed(), undo: Some(undo_of::<W, U, L>(undo)), record: None }
    }

    /// It changes nothing that would have to be taken back.
    pub fn nothing_to_undo(self) -> Branch<W> {
        Branch { deed: self.action.deed(), undo: None, record: None }
    }
}

impl<W: Workflow> Branch<W> {
    /// Where this branch's result goes; `T` must be its action's output.
    #[must_use]
    pub fn record<T: DeserializeOwned + 'static>(mut self, keep: fn(&mut W, T)) -> Self {
        self.record = Some(recorder(keep));
        self
    }
}

/// Does unlike actions side by side.
pub fn all<W: Workflow>(branches: impl IntoIterator<Item = Branch<W>>) -> Acting<W, ()> {
    let branches: Vec<_> = branches.into_iter().collect();
    let undone = branches.iter().any(|branch| branch.undo.is_some());
    let commitment = if undone { Commitment::Undone } else { Commitment::NothingToUndo };
    Acting { act: plain(branches, commitment), output: PhantomData }
}

/// Actions whose compensation is settled; [`Acting::then`] makes them a step.
#[must_use = "say .then(state)"]
pub struct Acting<W: Workflow, O> {
    act: Act<W>,
    output: PhantomData<fn() -> O>,
}

impl<W: Workflow, O> Acting<W, O> {
    pub(crate) fn of(act: Act<W>) -> Self {
        Self { act, output: PhantomData }
    }
}

impl<W: Workflow, O: DeserializeOwned + 'static> Acting<W, O> {
    /// Where the result goes, called once a slot, in order, when all have succeeded.
    pub fn record(mut self, keep: fn(&mut W, O)) -> Self {
        for branch in &mut self.act.branches {
            branch.record = Some(recorder(keep));
        }
        self
    }
}

impl<W: Workflow, O> Acting<W, O> {
    /// The whole state ends by then. Default 1 h.
    pub fn within(mut self, limit: Duration) -> Self {
        self.act.within = limit;
        self
    }

    /// One attempt ends by then; later, its outcome is unknown. Default 1 min.
    pub fn attempt_within(mut self, limit: Duration) -> Self {
        self.act.attempt_within = limit;
        self
    }

    /// An attempt that does not call [`Call::beat`](crate::Call::beat) for this long counts as without an answer.
    pub fn heartbeat(mut self, limit: Duration) -> Self {
        self.act.heartbeat = Some(limit);
        self
    }

    /// When and how often to try again.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.act.retry = policy;
        self
    }

    /// At most `n` slots are worked on at once. Default 16.
    pub fn at_once(mut self, n: usize) -> Self {
        self.act.at_once = n.max(1);
        self
    }

    /// Operators may also limit its attempts under these keys, each `kind/name`. Undos are limited by what their own action
    /// says.
    pub fn limited_by<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.act.keys.extend(keys.into_iter().map(Into::into));
        self
    }

    /// What becomes of its places at limited keys while its action is pending. Default: they are given back.
    pub fn while_pending(mut self, places: WhilePending) -> Self {
        self.act.while_pending = places;
        self
    }

    /// Where a final failure with `code` leads, instead of turning back. What was begun stays on the trail.
    pub fn on_failure(mut self, code: &'static str, state: W::State) -> Self {
        self.act.on_failure.push((code, state));
        self
    }

    /// Where any other final failure leads, instead of turning back.
    pub fn or_else(mut self, state: W::State) -> Self {
        self.act.or_else = Some(state);
        self
    }

    /// An operator may leave the step out, with a reason, when it cannot be done. Whoever says so answers for what the data
    /// then lacks in the states that follow.
    pub fn optional(mut self) -> Self {
        self.act.optional = true;
        self
    }

    /// It destroys data: only an approval can authorise it, never a waiver. Makes the step forward-only.
    pub fn destroys(mut self) -> Self {
        self.act.commitment = Commitment::ForwardOnly { destroys: true };
        self
    }

    /// Where success leads.
    pub fn then(mut self, next: W::State) -> Step<W> {
        self.act.next = next;
        Step::Act(self.act)
    }
}

fn recorder<W: Workflow, O: DeserializeOwned + 'static>(keep: fn(&mut W, O)) -> Recorder<W> {
    Box::new(move |data, output| {
        let output =
            serde_json::from_value(output).map_err(|e| ActionError::permanent("engine.decode", e))?;
        keep(data, output);
        Ok(())
    })
}

/// A question to people that does not say yet where each answer leads.
#[must_use = "say .within(..).granted(..).refused(..).expired(..)"]
pub struct Asking {
    seats: Vec<Seat>,
    within: Option<Duration>,
    procedure: Procedure,
}
/// [`Asking`], with the way for yes.
#[must_use = "say .refused(..).expired(..)"]
pub struct AskingGranted<S>(Asking, S);
/// [`Asking`], with the ways for yes and no.
#[must_use = "say .expired(..)"]
pub struct AskingRefused<S>(Asking, S, S);

/// Asks for the consent of different people, one for each place of `seats`.
pub fn approval(seats: impl IntoIterator<Item = Seat>) -> Asking {
    Asking { seats: seats.into_iter().collect(), within: None, procedure: Procedure::default() }
}

impl Asking {
    /// How long people have. A workflow that does not say is refused at registration.
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = Some(limit);
        self
    }

    /// What else policy says about it: escalation, extension, reminders, break-glass.
    pub fn held_by(mut self, procedure: Procedure) -> Self {
        self.procedure = procedure;
        self
    }

    /// Where consent leads.
    pub fn granted<S: StateSet>(self, state: S) -> AskingGranted<S> {
        AskingGranted(self, state)
    }
}
impl<S: StateSet> AskingGranted<S> {
    /// Where a refusal leads.
    pub fn refused(self, state: S) -> AskingRefused<S> {
        AskingRefused(self.0, self.1, state)
    }
}
impl<S: StateSet> AskingRefused<S> {
    /// Where the deadline leads: never to consent.
    pub fn expired<W: Workflow<State = S>>(self, state: S) -> Step<W> {
        let Self(Asking { seats, within, procedure }, granted, refused) = self;
        Step::Approval(Approval { seats, within, procedure, granted, refused, expired: state })
    }
}

/// A wait for time to pass.
#[must_use = "say .then(..)"]
pub struct Waiting(Duration);

/// Waits for `span`.
pub fn wait(span: Duration) -> Waiting {
    Waiting(span)
}
impl Waiting {
    /// What follows.
    pub fn then<W: Workflow>(self, state: W::State) -> Step<W> {
        Step::Wait(Wait { signal: None, within: Some(self.0), then: state, expired: state })
    }
}

/// A wait for a signal.
#[must_use = "say .within(..).then(..).expired(..)"]
pub struct Listening {
    signal: &'static str,
    within: Option<Duration>,
}
/// [`Listening`], with the way for the signal.
#[must_use = "say .expired(..)"]
pub struct ListeningThen<S>(Listening, S);

/// Waits for `signal`; one that came before counts.
pub fn await_signal(signal: &'static str) -> Listening {
    Listening { signal, within: None }
}
impl Listening {
    /// How long to wait. A workflow that does not say is refused at registration.
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = Some(limit);
        self
    }

    /// Where the signal leads.
    pub fn then<S: StateSet>(self, state: S) -> ListeningThen<S> {
        ListeningThen(self, state)
    }
}
impl<S: StateSet> ListeningThen<S> {
    /// Where the deadline leads.
    pub fn expired<W: Workflow<State = S>>(self, state: S) -> Step<W> {
        let Self(Listening { signal, within }, then) = self;
        Step::Wait(Wait { signal: Some(signal), within, then, expired: state })
    }
}

/// A choice that the data makes: the first condition that holds.
#[must_use = "say .otherwise(..)"]
pub struct When<S> {
    options: Vec<Choice<S>>,
    taken: Option<usize>,
}

/// Takes this way if `condition` holds.
pub fn when<S: StateSet>(condition: bool, label: &'static str, to: S) -> When<S> {
    When { options: Vec::new(), taken: None }.or_when(condition, label, to)
}
impl<S: StateSet> When<S> {
    /// Takes this way if `condition` holds and none before did.
    pub fn or_when(mut self, condition: bool, label: &'static str, to: S) -> Self {
        if condition && self.taken.is_none() {
            self.taken = Some(self.options.len());
        }
        self.options.push(Choice { label, to, waiver: None });
        self
    }

    /// The way just named stands for the consent of people, by a rule of policy.
    pub fn waived_by(mut self, rule: Rule) -> Self {
        if let Some(option) = self.options.last_mut() {
            option.waiver = Some(rule);
        }
        self
    }

    /// Takes this way if no condition held.
    pub fn otherwise<W: Workflow<State = S>>(mut self, label: &'static str, to: S) -> Step<W> {
        let taken = self.taken.unwrap_or(self.options.len());
        self.options.push(Choice { label, to, waiver: None });
        Step::Choose(Choose { options: self.options, taken })
    }
}

/// Ends the execution.
pub fn end<W: Workflow>(outcome: Outcome) -> Step<W> {
    Step::End(outcome)
}
