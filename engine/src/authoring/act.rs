//! Builds a step that acts: one action, like actions side by side, or unlike ones.
//!
//! Invariant: an action cannot become a step before it says how it is undone.

use super::acting::{act_with_defaults, recorder};
use crate::{ActBuilder, Branch, Commitment, IntoErasedAction, Workflow, model::definition::step::Undo};
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

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
    A: IntoErasedAction<W::Platform, K>,
{
    Uncompensated { actions: vec![action], kind: PhantomData }
}

/// Does like actions side by side, one a slot.
pub fn act_each<W: Workflow, A, K>(actions: impl IntoIterator<Item = A>) -> Uncompensated<W, A, K>
where
    A: IntoErasedAction<W::Platform, K>,
{
    Uncompensated { actions: actions.into_iter().collect(), kind: PhantomData }
}

impl<W: Workflow, A: IntoErasedAction<W::Platform, K>, K> Uncompensated<W, A, K> {
    /// How it is taken back. Its arguments are stored before the action starts.
    pub fn undo<U: IntoErasedAction<W::Platform, L> + Clone, L>(self, undo: U) -> ActBuilder<W, A::Output> {
        self.undo_each(move |_| undo.clone())
    }

    /// How each is taken back.
    pub fn undo_each<U: IntoErasedAction<W::Platform, L>, L>(
        self,
        undo: impl Fn(&A) -> U,
    ) -> ActBuilder<W, A::Output> {
        self.build(Commitment::Undone, |action| Some(undo_of::<W, U, L>(undo(action))))
    }

    /// It changes nothing that would have to be taken back.
    pub fn nothing_to_undo(self) -> ActBuilder<W, A::Output> {
        self.build(Commitment::NothingToUndo, |_| None)
    }

    /// It cannot be taken back: from here the execution only goes forward. Needs an authorisation on every path to it.
    pub fn forward_only(self) -> ActBuilder<W, A::Output> {
        self.build(Commitment::ForwardOnly { destroys: false }, |_| None)
    }

    fn build(
        self,
        commitment: Commitment,
        undo: impl Fn(&A) -> Option<Undo<W::Platform>>,
    ) -> ActBuilder<W, A::Output> {
        let slot = |action: A| Branch { undo: undo(&action), action: action.into_erased(), record: None };
        ActBuilder::from_act(act_with_defaults(self.actions.into_iter().map(slot).collect(), commitment))
    }
}

fn undo_of<W: Workflow, U: IntoErasedAction<W::Platform, L>, L>(undo: U) -> Undo<W::Platform> {
    Undo {
        action: undo.into_erased(),
        decode: |stored| serde_json::from_value::<U>(stored.clone()).map(U::into_erased),
    }
}

/// One of several unlike actions; not a [`Branch`] until it says how it is undone.
#[must_use = "say .undo(..) or .nothing_to_undo()"]
pub struct UncompensatedBranch<W: Workflow, A, K> {
    action: A,
    kind: PhantomData<fn() -> (W, K)>,
}

/// One of the unlike actions of [`all`].
pub fn branch<W: Workflow, A: IntoErasedAction<W::Platform, K>, K>(
    action: A,
) -> UncompensatedBranch<W, A, K> {
    UncompensatedBranch { action, kind: PhantomData }
}

impl<W: Workflow, A: IntoErasedAction<W::Platform, K>, K> UncompensatedBranch<W, A, K> {
    /// How it is taken back.
    pub fn undo<U: IntoErasedAction<W::Platform, L>, L>(self, undo: U) -> Branch<W> {
        Branch { action: self.action.into_erased(), undo: Some(undo_of::<W, U, L>(undo)), record: None }
    }

    /// It changes nothing that would have to be taken back.
    pub fn nothing_to_undo(self) -> Branch<W> {
        Branch { action: self.action.into_erased(), undo: None, record: None }
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
pub fn all<W: Workflow>(branches: impl IntoIterator<Item = Branch<W>>) -> ActBuilder<W, ()> {
    let branches: Vec<_> = branches.into_iter().collect();
    let undone = branches.iter().any(|branch| branch.undo.is_some());
    let commitment = if undone { Commitment::Undone } else { Commitment::NothingToUndo };
    ActBuilder::from_act(act_with_defaults(branches, commitment))
}
