//! Steps: act, approval, wait, choose, end.
//!
//! Built by [`act`](crate::act), [`approval`](crate::approval), [`wait`](crate::wait), [`when`](crate::when) and
//! [`end`](crate::end) in `authoring`; read by the core, the check and the diagram.

use super::child_type::ChildType;
use crate::{ActionError, ErasedAction, Outcome, Procedure, RetryPolicy, Rule, Seat, WhilePending, Workflow};
use serde_json::Value;
use std::time::Duration;

/// The step of one state.
pub enum Step<W: Workflow> {
    /// One or more actions.
    Act(Act<W>),
    /// A decision by people.
    Approval(Approval<W::State>),
    /// A span of time, or a signal within it.
    Wait(Wait<W::State>),
    /// A decision by the data.
    Choose(Choose<W::State>),
    /// The end. Any outcome except [`Outcome::Completed`] first undoes the trail.
    End(Outcome),
}

/// The ways in which a step can be undone or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commitment {
    /// The trail has its compensations.
    Undone,
    /// It needs no undo.
    NothingToUndo,
    /// It cannot be undone: the pivot or a later step.
    ForwardOnly {
        /// True if it destroys data: only an approval can authorise it, not a waiver.
        destroys: bool,
    },
}

/// Actions that run concurrently, and the states that follow.
pub struct Act<W: Workflow> {
    pub(crate) branches: Vec<Branch<W>>,
    pub(crate) commitment: Commitment,
    pub(crate) retry: RetryPolicy,
    pub(crate) attempt_within: Duration,
    pub(crate) heartbeat: Option<Duration>,
    pub(crate) within: Duration,
    pub(crate) at_once: usize,
    /// Limit keys of every slot, in addition to those of its action.
    pub(crate) keys: Vec<String>,
    pub(crate) while_pending: WhilePending,
    pub(crate) next: W::State,
    pub(crate) on_failure: Vec<(&'static str, W::State)>,
    pub(crate) or_else: Option<W::State>,
    /// True if an operator may skip the step.
    pub(crate) optional: bool,
    /// The state after a skip, if it differs from the state after success.
    pub(crate) skip_to: Option<W::State>,
    /// The workflow that each slot starts, in a step of children.
    pub(crate) child_type: Option<ChildType<W::Platform>>,
}

pub(crate) type Recorder<W> = Box<dyn Fn(&mut W, Value) -> Result<(), ActionError> + Send + Sync>;
pub(crate) type Decoder<P> = fn(&Value) -> Result<ErasedAction<P>, serde_json::Error>;

/// One slot of a step: an action, its undo, and the recorder of its result.
pub struct Branch<W: Workflow> {
    pub(crate) action: ErasedAction<W::Platform>,
    pub(crate) undo: Option<Undo<W::Platform>>,
    pub(crate) record: Option<Recorder<W>>,
}

pub(crate) struct Undo<P> {
    pub(crate) action: ErasedAction<P>,
    pub(crate) decode: Decoder<P>,
}

/// An approval by people.
pub struct Approval<S> {
    pub(crate) seats: Vec<Seat>,
    pub(crate) within: Option<Duration>,
    pub(crate) procedure: Procedure,
    pub(crate) granted: S,
    pub(crate) refused: S,
    pub(crate) expired: S,
}

/// A wait for a span of time or for a signal.
pub struct Wait<S> {
    pub(crate) signal: Option<&'static str>,
    /// True if a signal that arrived before the state counts.
    pub(crate) earlier: bool,
    pub(crate) within: Option<Duration>,
    /// The state after the signal.
    pub(crate) then: S,
    /// The state after the deadline; equal to `then` in a plain wait.
    pub(crate) expired: S,
}

/// Edges out of a state, of which the data selects one.
pub struct Choose<S> {
    pub(crate) options: Vec<Choice<S>>,
    pub(crate) chosen: usize,
}

pub(crate) struct Choice<S> {
    pub(crate) label: &'static str,
    pub(crate) to: S,
    pub(crate) waiver: Option<Rule>,
}

/// An [`Edge`] with the facts that the check and the diagram need.
pub(crate) struct Exit<S> {
    pub(crate) label: String,
    /// The label for people, with details from the data.
    pub(crate) text: String,
    pub(crate) to: S,
    pub(crate) authorises: Authority,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Authority {
    None,
    Waiver,
    People,
}

impl<S> Exit<S> {
    fn new(label: impl Into<String>, to: S) -> Self {
        let label = label.into();
        Self { text: label.clone(), label, to, authorises: Authority::None }
    }

    fn text(self, text: String) -> Self {
        Self { text, ..self }
    }

    fn authorising(self, authorises: Authority) -> Self {
        Self { authorises, ..self }
    }
}

/// The label of a step's success.
pub(crate) const DONE: &str = "done";
/// The label of the edge past a skipped step.
pub(crate) const SKIPPED: &str = "skipped";
/// The label of an approval's edge to itself after an escalation.
pub(crate) const ESCALATED: &str = "escalated";
/// The label of an approval's edge to itself after an extension.
pub(crate) const EXTENDED: &str = "extended";

impl<W: Workflow> Step<W> {
    /// Returns every edge out of this step, which belongs to the state `here`, for any data.
    pub(crate) fn exits(&self, here: W::State) -> Vec<Exit<W::State>> {
        match self {
            Self::Act(act) => act.exits(),
            Self::Approval(approval) => approval.exits(here),
            Self::Wait(wait) => wait.exits(),
            Self::Choose(choose) => choose.options.iter().map(Choice::exit).collect(),
            Self::End(_) => Vec::new(),
        }
    }

    /// Returns [`Act::authority_needed`] for a step that acts.
    pub(crate) fn authority_needed(&self) -> Option<(bool, bool)> {
        match self {
            Self::Act(act) => Some(act.authority_needed()),
            Self::Approval(_) | Self::Wait(_) | Self::Choose(_) | Self::End(_) => None,
        }
    }
}

impl<S: Copy> Choice<S> {
    fn exit(&self) -> Exit<S> {
        let way = Exit::new(self.label, self.to);
        if self.waiver.is_some() { way.authorising(Authority::Waiver) } else { way }
    }
}

impl<W: Workflow> Act<W> {
    /// Returns whether the step needs an authorisation of the plan, and whether a waiver is not enough.
    pub(crate) fn authority_needed(&self) -> (bool, bool) {
        let child_type = self.child_type.as_ref().map_or(Authority::None, ChildType::authority);
        let own = match self.commitment {
            Commitment::ForwardOnly { destroys: true } => Authority::People,
            Commitment::ForwardOnly { destroys: false } => Authority::Waiver,
            Commitment::Undone | Commitment::NothingToUndo => Authority::None,
        };
        let most = own.max(child_type);
        (most > Authority::None, most == Authority::People)
    }

    /// Returns true if the step has a protecting action.
    pub(crate) fn protects(&self) -> bool {
        self.branches.iter().any(|branch| branch.action.protects)
    }

    /// Returns true if the step has a protecting action and an edge past its failure.
    pub(crate) fn leaves_unprotected(&self) -> bool {
        let past_failure = !self.on_failure.is_empty() || self.or_else.is_some() || self.optional;
        self.protects() && past_failure
    }

    /// Returns the names of the actions, each once, in order.
    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Vec::new();
        for branch in &self.branches {
            if !names.contains(&branch.action.name) {
                names.push(branch.action.name);
            }
        }
        names
    }

    fn exits(&self) -> Vec<Exit<W::State>> {
        let names = self.names();
        let text = match &self.child_type {
            Some(kind) => kind.title(),
            None if names.is_empty() => "nothing to do".into(),
            None => names.join(", "),
        };
        let mut ways = vec![Exit::new(DONE, self.next).text(text)];
        ways.extend(self.on_failure.iter().map(|(code, to)| Exit::new(*code, *to)));
        ways.extend(self.or_else.map(|to| Exit::new("failed", to)));
        if self.optional {
            ways.push(Exit::new(SKIPPED, self.skip_to.unwrap_or(self.next)));
        }
        ways
    }
}

impl<S: Copy> Approval<S> {
    pub(crate) fn label(ruling: crate::Ruling) -> &'static str {
        match ruling {
            crate::Ruling::Granted => "approved",
            crate::Ruling::Refused => "refused",
            crate::Ruling::Expired => "expired",
        }
    }

    /// Returns true if the approval or one of its escalations has no seats.
    pub(crate) fn asks_nobody(&self) -> bool {
        let later = self.procedure.escalate.iter().map(|next| &next.seats);
        std::iter::once(&self.seats).chain(later).any(|seats| seats.iter().all(|seat| seat.count == 0))
    }

    fn exits(&self, here: S) -> Vec<Exit<S>> {
        use crate::Ruling::{Expired, Granted, Refused};
        let names =
            |seats: &[Seat]| seats.iter().map(|seat| seat.any_of.join("/")).collect::<Vec<_>>().join(" and ");
        let escalated = self.procedure.escalate.first().map(|next| {
            let text = format!("after {} asks {}", span(Some(next.after)), names(&next.seats));
            Exit::new(ESCALATED, here).text(text)
        });
        let extended = self
            .procedure
            .extend
            .map(|by| Exit::new(EXTENDED, here).text(format!("extended once by {}", span(Some(by)))));
        let ruled = [
            Exit::new(Self::label(Granted), self.granted)
                .text(format!("approved by {}", names(&self.seats)))
                .authorising(Authority::People),
            Exit::new(Self::label(Refused), self.refused),
            Exit::new(Self::label(Expired), self.expired)
                .text(format!("not decided within {}", span(self.within))),
        ];
        ruled.into_iter().chain(escalated).chain(extended).collect()
    }
}

impl<S: Copy> Wait<S> {
    pub(crate) fn signal_label(&self) -> String {
        format!("signal {}", self.signal.unwrap_or_default())
    }

    pub(crate) fn deadline_label(&self) -> String {
        "deadline".into()
    }

    fn exits(&self) -> Vec<Exit<S>> {
        let within = span(self.within);
        let text = if self.signal.is_some() {
            format!("no signal within {within}")
        } else {
            format!("after {within}")
        };
        let signalled = self.signal.map(|_| Exit::new(self.signal_label(), self.then));
        signalled.into_iter().chain([Exit::new(self.deadline_label(), self.expired).text(text)]).collect()
    }
}

/// Formats a duration in the largest unit that divides it: `5 d`, `90 s`.
pub(crate) fn span(duration: Option<Duration>) -> String {
    let Some(duration) = duration else { return "an unstated time".into() };
    let seconds = duration.as_secs();
    for (unit, name) in [(86_400, "d"), (3_600, "h"), (60, "min")] {
        if seconds >= unit && seconds.is_multiple_of(unit) {
            return format!("{} {name}", seconds / unit);
        }
    }
    format!("{seconds} s")
}

/// The label of the edge back to an approval after the plan has changed.
pub(crate) const PLAN_CHANGED: &str = "plan has changed";
