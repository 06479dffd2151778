//! The builder of steps that start child workflows and wait for them.

use super::offspring::{ChildSpec, child_arguments};
use crate::{
    ActBuilder, Branch, ChildEnd, Commitment, DAY, ErasedAction, RetryPolicy, Workflow,
    authoring::acting::act_with_defaults,
    model::definition::{child_type::ChildType, step::Undo},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{marker::PhantomData, time::Duration};

/// Child executions whose behaviour on compensation is not chosen yet; only then can they become a step.
///
/// ```
/// # use engine::*;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Clone, Debug, Serialize, Deserialize)] struct Rest;
/// # impl Action for Rest {
/// #     const NAME: &'static str = "Rest";
/// #     type Platform = ();
/// #     type Output = ();
/// #     async fn run(&self, _: &(), _: &Call) -> Result<(), ActionError> { Ok(()) }
/// # }
/// # #[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)] enum Walking { Resting, Arrived }
/// /// One leg of a journey: a workflow like any other.
/// #[derive(Clone, Debug, Serialize, Deserialize)]
/// struct Leg { to: String, steps: u64 }
/// # impl Workflow for Leg {
/// #     const NAME: &'static str = "leg";
/// #     const SCHEMA: u32 = 1;
/// #     const INITIAL: Walking = Walking::Resting;
/// #     type State = Walking;
/// #     type Platform = ();
/// #     fn step(&self, state: Walking) -> Step<Self> {
/// #         match state {
/// #             Walking::Resting => act(Rest).nothing_to_undo().then(Walking::Arrived),
/// #             Walking::Arrived => end(Outcome::Completed),
/// #         }
/// #     }
/// #     fn subject(&self) -> Subject { Subject::default() }
/// #     fn plan(&self) -> Plan { Plan::default() }
/// #     fn examples() -> Vec<Self> { vec![Self { to: "Rome".into(), steps: 0 }] }
/// # }
/// # #[derive(Clone, Debug, Serialize, Deserialize)] struct Journey { stops: Vec<String>, steps: u64 }
/// # #[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)] enum State { Travelling, There }
/// # impl Workflow for Journey {
/// #     const NAME: &'static str = "journey";
/// #     const SCHEMA: u32 = 1;
/// #     const INITIAL: State = State::Travelling;
/// #     type State = State;
/// #     type Platform = ();
/// #     fn subject(&self) -> Subject { Subject::default() }
/// #     fn plan(&self) -> Plan { Plan::default() }
/// #     fn examples() -> Vec<Self> { vec![Self { stops: vec!["Rome".into()], steps: 0 }] }
/// fn step(&self, state: State) -> Step<Self> {
///     match state {
///         State::Travelling => children(self.stops.iter().map(|to| Leg { to: to.clone(), steps: 0 }))
///             .map_result(|leg| leg.steps)              // what the parent learns of each child; the default is its data
///             .cancel_on_undo()                         // compensation cancels each child and waits for its end
///             .max_concurrent(8)
///             .within(3 * DAY)
///             .record(|me: &mut Self, leg: ChildEnd<u64>| me.steps += leg.data)
///             .then(State::There),
///         State::There => end(Outcome::Completed),
///     }
/// }
/// # }
/// # assert_eq!(check::<Journey>(), []);
/// ```
///
/// # Guarantees
/// - Each slot starts one child, even after crashes. The commit that ends the child wakes the slot.
/// - A child that ends as [`Outcome::Completed`](crate::Outcome::Completed) is a success of its slot. Any other end
///   is a permanent failure `child.refused`, `child.rolled_back` and so on, for `.on_failure(..)` and `.or_else(..)`
///   as with actions.
/// - While another execution holds the guard of a child, its slot waits and reports that execution.
/// - A child that is [`Workflow::AUTHORISED_BY_PARENT`] is started only by an authorised parent whose plan
///   [covers](crate::Plan::covers) the child's.
#[must_use = "call .cancel_on_undo() or .forward_only()"]
pub struct Children<W: Workflow, C, T> {
    children: Vec<C>,
    any_end: bool,
    answer: fn(&C) -> T,
    workflow: PhantomData<fn() -> W>,
}

/// Starts workflows on the same platform, one for each slot, and waits for their ends. See [`Children`].
pub fn children<W: Workflow, C: Workflow<Platform = W::Platform>>(
    children: impl IntoIterator<Item = C>,
) -> Children<W, C, C> {
    Children {
        children: children.into_iter().collect(),
        any_end: false,
        answer: C::clone,
        workflow: PhantomData,
    }
}

impl<W: Workflow, C: Workflow<Platform = W::Platform>, T> Children<W, C, T>
where
    T: Serialize + DeserializeOwned + 'static,
{
    /// Treats every end of a child as a success of its slot and records it, so that the parent can continue with
    /// failed ones.
    pub fn accept_any_outcome(mut self) -> Self {
        self.any_end = true;
        self
    }

    /// Selects the part of a child's final data that the parent receives. The parent stores it until the state is
    /// left, so keep it small if there are many children.
    pub fn map_result<U>(self, answer: fn(&C) -> U) -> Children<W, C, U> {
        Children { children: self.children, any_end: self.any_end, answer, workflow: PhantomData }
    }

    /// Makes compensation cancel each child, in the order of the trail, and wait for its end. A child past its pivot
    /// goes forward to its end and is kept, as is a completed one: the parent's outcome lists both.
    pub fn cancel_on_undo(self) -> ActBuilder<W, ChildEnd<T>> {
        self.build(Commitment::Undone)
    }

    /// Never cancels a child: the parent is past its pivot or passes it here. Every path to it needs an
    /// authorisation.
    pub fn forward_only(self) -> ActBuilder<W, ChildEnd<T>> {
        self.build(Commitment::ForwardOnly { destroys: false })
    }

    fn build(self, commitment: Commitment) -> ActBuilder<W, ChildEnd<T>> {
        let Self { children, any_end, answer, .. } = self;
        let undone = commitment == Commitment::Undone;
        let branch = |child: C| {
            let cancel = ErasedAction::cancelling(child_arguments(C::NAME, &child.subject().name));
            let undo = Undo { action: cancel, decode: |stored| Ok(ErasedAction::cancelling(stored.clone())) };
            let deed = ErasedAction::starting(ChildSpec { child, any_end, answer });
            Branch { action: deed, undo: undone.then_some(undo), record: None }
        };
        let mut act = act_with_defaults(children.into_iter().map(branch).collect(), commitment);
        act.child_type = Some(ChildType::for_workflow::<C>());
        // A child takes as long as its state may. More frequent checks would not help.
        act.retry = RetryPolicy { budget: Duration::MAX, ..RetryPolicy::default() };
        act.within = DAY;
        ActBuilder::from_act(act)
    }
}
