//! The authorisation to pass the pivot, bound to one plan.

use crate::{PlanDigest, Rule};
use serde::{Deserialize, Serialize};
use store::ExecutionId;

/// The authorisation of an execution to pass its pivot, bound to one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorisation {
    /// The plan that was decided on.
    pub digest: PlanDigest,
    /// The approval state that granted it. The execution returns to it if the plan changes.
    pub state: String,
    /// The authoriser.
    pub by: Authoriser,
}

/// The sources of an [`Authorisation`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authoriser {
    /// These people.
    People(Vec<String>),
    /// One person, by break-glass.
    BreakGlass {
        /// The person.
        person: String,
        /// True if policy allows break-glass for plans that destroy data.
        destroys: bool,
    },
    /// This rule of policy.
    Waiver(Rule),
    /// The execution that started this one.
    Parent {
        /// The id of the parent.
        execution: ExecutionId,
        /// The plan of the parent, which covers the authorised plan.
        plan: PlanDigest,
        /// The authoriser of the parent.
        by: Box<Authoriser>,
    },
}

impl Authoriser {
    /// Returns true if people authorised the plan, here or in the parent, with enough authority to destroy data.
    #[must_use]
    pub fn is_people(&self) -> bool {
        match self {
            Self::People(_) => true,
            Self::BreakGlass { destroys, .. } => *destroys,
            Self::Waiver(_) => false,
            Self::Parent { by, .. } => by.is_people(),
        }
    }
}
