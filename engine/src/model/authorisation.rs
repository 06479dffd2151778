//! What allows an execution to pass its point of no return, bound to one plan.

use crate::{PlanDigest, Rule};
use serde::{Deserialize, Serialize};
use store::ExecutionId;

/// What allows an execution to pass its point of no return, bound to one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorisation {
    /// The plan that was decided on.
    pub digest: PlanDigest,
    /// The state in which it was given; asked again there when the plan has changed since.
    pub state: String,
    /// Who or what gave it.
    pub by: Authoriser,
}

/// Who or what gave an [`Authorisation`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authoriser {
    /// These people.
    People(Vec<String>),
    /// This person alone, in an emergency.
    BreakGlass {
        /// Who.
        person: String,
        /// Policy let it be done for a plan that destroys data too.
        destroys: bool,
    },
    /// This rule of policy.
    Waiver(Rule),
    /// The execution that started this one.
    Parent {
        /// Which one.
        execution: ExecutionId,
        /// Its plan, which covers the one that is authorised here.
        plan: PlanDigest,
        /// Who or what authorised that.
        by: Box<Authoriser>,
    },
}

impl Authoriser {
    /// People stand behind it, here or where the parent was authorised: enough of them to destroy what is destroyed.
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
