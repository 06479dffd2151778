//! Chooses victims as Kueue does: classical preemption and fair sharing.

pub(crate) mod attempt;
pub(crate) mod candidates;
pub(crate) mod classical;
pub(crate) mod dominant_share;
pub(crate) mod fair_sharing;
pub(crate) mod guard;
pub(crate) mod preemptor;
pub(crate) mod tournament;
