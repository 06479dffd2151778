//! Quantities with their units. Differences that could go below zero are `Option`s.

use serde::{Deserialize, Serialize};
use std::{fmt, iter::Sum};

/// A number of whole GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Gpus(pub u32);

impl Gpus {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Returns the sum, at most the largest count.
    #[must_use]
    pub fn saturating_add(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }

    /// Returns the difference, or `None` if it is negative.
    #[must_use]
    pub fn checked_sub(self, fewer: Self) -> Option<Self> {
        self.0.checked_sub(fewer.0).map(Self)
    }

    /// Returns the difference, at least zero.
    #[must_use]
    pub fn saturating_sub(self, fewer: Self) -> Self {
        Self(self.0.saturating_sub(fewer.0))
    }
}

impl fmt::Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Sum for Gpus {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Self::saturating_add)
    }
}

/// Counts the owners of a node. Every call about a node carries it, and a target rejects an older one (I-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnerEpoch(pub u64);

impl OwnerEpoch {
    /// Returns the epoch of the next owner.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for OwnerEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A sum of money in euro cents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cents(pub u64);

impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EUR {}.{:02}", self.0 / 100, self.0 % 100)
    }
}
