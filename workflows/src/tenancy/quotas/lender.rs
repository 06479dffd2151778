//! The lender of a loan: a workspace, or the tenant's pool.

use crate::tenancy::{NameError, WorkspaceName};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The lender of a loan. Stored and shown as one string: no workspace can have the name of the pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Lender {
    /// A workspace lends the idle part of its own quota.
    Workspace(WorkspaceName),
    /// The tenant's pool: GPUs that it bought and that no workspace has in its quota.
    Pool,
}

impl Lender {
    /// The text for the pool.
    pub const POOL: &'static str = "@pool";

    /// Returns the workspace, if it is one.
    #[must_use]
    pub fn workspace(&self) -> Option<&WorkspaceName> {
        match self {
            Self::Workspace(name) => Some(name),
            Self::Pool => None,
        }
    }

    /// Returns the lender as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.workspace().map_or(Self::POOL, WorkspaceName::as_str)
    }
}

impl From<WorkspaceName> for Lender {
    fn from(name: WorkspaceName) -> Self {
        Self::Workspace(name)
    }
}

impl From<Lender> for String {
    fn from(lender: Lender) -> Self {
        lender.as_str().to_owned()
    }
}

impl TryFrom<String> for Lender {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        if text == Self::POOL { Ok(Self::Pool) } else { WorkspaceName::try_from(text).map(Self::Workspace) }
    }
}

impl PartialEq<WorkspaceName> for Lender {
    fn eq(&self, name: &WorkspaceName) -> bool {
        self.workspace() == Some(name)
    }
}

impl fmt::Display for Lender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
