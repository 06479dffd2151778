//! Everything that can go wrong, each kind with a switch, and all of them counted: a failing case is made smaller by leaving
//! kinds out and by letting nothing happen after the last that matters.

use crate::dice::Dice;
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};
use strum::{EnumString, IntoStaticStr, VariantArray};

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, EnumString, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Trouble {
    /// A node dies before a commit reaches the store.
    CrashBefore,
    /// A node dies after its commit, before the answer.
    CrashAfter,
    /// The store does as it is asked, and the answer is lost.
    AnswerLost,
    /// A node cannot reach the store for a while.
    Cut,
    /// Calls of the store take long.
    Slow,
    /// A node's clock is set forward or back.
    ClockJump,
    /// An action is refused for the moment.
    Transient,
    /// An action is refused for good.
    Permanent,
    /// An action never reaches the external system.
    RequestLost,
    /// An action takes effect, and its answer is lost.
    EffectLost,
    /// An action takes effect long after its caller has given up.
    Late,
    /// A person votes without being asked, twice, on an old plan, or on their own request.
    BadVote,
    /// A person refuses.
    Refusal,
    /// A person cancels.
    Cancel,
    /// A person pauses, and resumes later.
    Pause,
    /// A person closes by force.
    Terminate,
    /// A signal comes early, twice, or to an execution that does not wait for it.
    StraySignal,
}

/// The permitted faults.
#[derive(Debug)]
pub struct Troubles {
    dice: Dice,
    without: BTreeSet<Trouble>,
    upto: u64,
    met: AtomicU64,
}

impl Troubles {
    /// All but `without`, and no more than `upto` in all.
    #[must_use]
    pub fn new(seed: u64, without: BTreeSet<Trouble>, upto: u64) -> Self {
        Self { dice: Dice::new(seed, "troubles"), without, upto, met: AtomicU64::new(0) }
    }

    /// Returns true if `kind` happens here, with a probability of `of` in a thousand.
    pub fn strikes(&self, kind: Trouble, of: u64) -> bool {
        // Drawn whether or not it counts, so that leaving one kind out leaves the others where they were.
        let drawn = self.dice.one_in_thousand(of);
        if !drawn || self.without.contains(&kind) || self.met.load(Ordering::SeqCst) >= self.upto {
            return false;
        }
        self.met.fetch_add(1, Ordering::SeqCst);
        true
    }

    /// How many have happened.
    #[must_use]
    pub fn met(&self) -> u64 {
        self.met.load(Ordering::SeqCst)
    }
}
