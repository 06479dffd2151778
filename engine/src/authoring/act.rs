//! Builds a step that acts: one action, several of the same type, or several of different types.
//!
//! Invariant: an action cannot become a step before its undo is chosen.

use super::acting::{act_with_defaults, recorder};
use crate::{ActBuilder, Branch, Commitment, IntoErasedAction, Workflow, model::definition::step::Undo};
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// An action whose undo is not chosen yet. Only with an undo it can become a step.
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
/// Without `.nothing_to_undo()` it does not compile:
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

/// Runs one action.
pub fn act<W: Workflow, A, K>(action: A) -> Uncompensated<W, A, K>
where
    A: IntoErasedAction<W::Platform, K>,
{
    Uncompensated { actions: vec![action], kind: PhantomData }
}

/// Runs actions of the same type concurrently, one for each slot.
pub fn act_each<W: Workflow, A, K>(actions: impl IntoIterator<Item = A>) -> Uncompensated<W, A, K>
where
    A: IntoErasedAction<W::Platform, K>,
{
    Uncompensated { actions: actions.into_iter().collect(), kind: PhantomData }
}

impl<W: Workflow, A: IntoErasedAction<W::Platform, K>, K> Uncompensated<W, A, K> {
    /// Sets the undo. Its arguments are stored before the action starts.
    pub fn undo<U: IntoErasedAction<W::Platform, L> + Clone, L>(self, undo: U) -> ActBuilder<W, A::Output> {
        self.undo_each(move |_| undo.clone())
    }

    /// Sets the undo of each action.
    pub fn undo_each<U: IntoErasedAction<W::Platform, L>, L>(
        self,
        undo: impl Fn(&A) -> U,
    ) -> ActBuilder<W, A::Output> {
        self.build(Commitment::Undone, |action| Some(undo_of::<W, U, L>(undo(action))))
    }

    /// Declares that the action needs no undo.
    pub fn nothing_to_undo(self) -> ActBuilder<W, A::Output> {
        self.build(Commitment::NothingToUndo, |_| None)
    }

    /// Declares that the action cannot be undone: from here the execution only goes forward. Every path to it needs
    /// an authorisation.
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

/// One of several actions of different types, whose undo is not chosen yet.
#[must_use = "say .undo(..) or .nothing_to_undo()"]
pub struct UncompensatedBranch<W: Workflow, A, K> {
    action: A,
    kind: PhantomData<fn() -> (W, K)>,
}

/// One of the actions of [`all`].
pub fn branch<W: Workflow, A: IntoErasedAction<W::Platform, K>, K>(
    action: A,
) -> UncompensatedBranch<W, A, K> {
    UncompensatedBranch { action, kind: PhantomData }
}

impl<W: Workflow, A: IntoErasedAction<W::Platform, K>, K> UncompensatedBranch<W, A, K> {
    /// Sets the undo.
    pub fn undo<U: IntoErasedAction<W::Platform, L>, L>(self, undo: U) -> Branch<W> {
        Branch { action: self.action.into_erased(), undo: Some(undo_of::<W, U, L>(undo)), record: None }
    }

    /// Declares that the action needs no undo.
    pub fn nothing_to_undo(self) -> Branch<W> {
        Branch { action: self.action.into_erased(), undo: None, record: None }
    }
}

impl<W: Workflow> Branch<W> {
    /// Sets the recorder of the result. `T` must be the output of the action.
    #[must_use]
    pub fn record<T: DeserializeOwned + 'static>(mut self, keep: fn(&mut W, T)) -> Self {
        self.record = Some(recorder(keep));
        self
    }
}

/// Runs actions of different types concurrently.
pub fn all<W: Workflow>(branches: impl IntoIterator<Item = Branch<W>>) -> ActBuilder<W, ()> {
    let branches: Vec<_> = branches.into_iter().collect();
    let undone = branches.iter().any(|branch| branch.undo.is_some());
    let commitment = if undone { Commitment::Undone } else { Commitment::NothingToUndo };
    ActBuilder::from_act(act_with_defaults(branches, commitment))
}
