//! The faults, each kind with a switch and a counter: a failing case is reduced by leaving kinds out, and by stopping after
//! the last relevant one.

use crate::dice::Dice;
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};
use strum::{EnumString, IntoStaticStr, VariantArray};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, EnumString, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Trouble {
    /// A node dies before a commit reaches the store.
    CrashBefore,
    /// A node dies after its commit, before the answer.
    CrashAfter,
    /// The store performs a call, and its answer is lost.
    AnswerLost,
    /// A node cannot reach the store for a while.
    Cut,
    /// Calls of the store are slow.
    Slow,
    /// A node's clock is set forward or back.
    ClockJump,
    /// An action fails temporarily.
    Transient,
    /// An action fails permanently.
    Permanent,
    /// An action never reaches the external system.
    RequestLost,
    /// An action takes effect, and its answer is lost.
    EffectLost,
    /// An action takes effect long after its caller has given up.
    Late,
    /// A user votes uninvited, twice, on an old plan, or on their own request.
    BadVote,
    /// A user rejects.
    Refusal,
    /// A user cancels.
    Cancel,
    /// A user pauses, and resumes later.
    Pause,
    /// A user closes by force.
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
    /// All kinds except `without`, and at most `upto` faults.
    #[must_use]
    pub fn new(seed: u64, without: BTreeSet<Trouble>, upto: u64) -> Self {
        Self { dice: Dice::new(seed, "troubles"), without, upto, met: AtomicU64::new(0) }
    }

    /// Returns true if `kind` happens here, with a probability of `of` in a thousand.
    pub fn strikes(&self, kind: Trouble, of: u64) -> bool {
        // Drawn in any case, so that leaving one kind out does not change the others.
        let drawn = self.dice.one_in_thousand(of);
        if !drawn || self.without.contains(&kind) || self.met.load(Ordering::SeqCst) >= self.upto {
            return false;
        }
        self.met.fetch_add(1, Ordering::SeqCst);
        true
    }

    /// Returns the number of faults so far.
    #[must_use]
    pub fn met(&self) -> u64 {
        self.met.load(Ordering::SeqCst)
    }
}
