//! Variants of a replay, for comparison with borrowing.

use serde::Serialize;

/// A variant of a replay.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Baseline {
    /// Borrowing as the policy defines it.
    Lending,
    /// Without borrowing.
    NoBorrowing,
    /// Victims are evicted even if a later choice made their eviction unnecessary.
    NoFillBack,
    /// Without the guard: plans that need an approval are approved immediately.
    NoGuard,
}

impl Baseline {
    /// Returns true if workspaces borrow.
    #[must_use]
    pub fn borrows(self) -> bool {
        match self {
            Self::NoBorrowing => false,
            Self::Lending | Self::NoFillBack | Self::NoGuard => true,
        }
    }

    /// Returns the name in reports.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Lending => "borrowing",
            Self::NoBorrowing => "no borrowing",
            Self::NoFillBack => "without fill-back",
            Self::NoGuard => "guard off",
        }
    }
}
