//! Ways to run the same scene, so that what borrowing is worth can be seen (domain 7.3 point 7).

use serde::Serialize;

/// How a scene is run.
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
    /// As policy says.
    Lending,
    /// Nobody borrows.
    NoBorrowing,
    /// Who was chosen gives way, also when a later choice made it needless.
    NoFillBack,
    /// No plan is too wide: what people would be asked about is agreed to at once.
    NoGuard,
}

impl Baseline {
    /// Whether workspaces borrow.
    #[must_use]
    pub fn borrows(self) -> bool {
        match self {
            Self::NoBorrowing => false,
            Self::Lending | Self::NoFillBack | Self::NoGuard => true,
        }
    }

    /// What it is called in reports.
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
