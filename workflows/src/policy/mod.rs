//! Policy as code: what tenants ask for, what the platform allows, and decisions that can be decided again.
//!
//! Documents are read strictly, with every finding at its line and column; `docs/policy.md` explains every key. Nothing
//! here reads a clock, a store or the world, but for [`in_force`], [`version`] and [`publish`], which go through a view.

mod contradictions;
pub mod decisions;
pub use crate::duration;
mod change_summary;
mod examples;
mod explain;
mod onboarding_decision;
pub(crate) mod parsing;
mod platform_policy;
mod platform_policy_reader;
pub(crate) mod sections;
mod tenant_request;
mod terms;
mod versions;

pub use crate::policy::onboarding_decision::{Evaluation, Facts, Judgement, Reason, Verdict, evaluate};
pub(crate) use crate::policy::parsing::document::{Item, Value, from_json, from_yaml};
pub use crate::policy::parsing::finding::{Finding, Invalid, Spot};
pub use crate::policy::parsing::provenance::{Origin, Provenance};
pub use crate::policy::parsing::ratio::Ratio;
pub(crate) use crate::policy::parsing::reader::Reader;
pub(crate) use crate::policy::platform_policy::sha256;
pub use crate::policy::platform_policy::{
    Approvals, Demands, PlatformPolicy, PolicyChange, PolicyInForce, PolicyRef, PublishedPolicy,
};
pub use crate::policy::sections::admission::{Admission, Ageing, SoftThreshold};
pub use crate::policy::sections::approvals::{Gate, Gates, QuotaIncrease};
pub use crate::policy::sections::capacity::{Capacity, Rung};
pub use crate::policy::sections::gpu_models::{GpuModels, MigProfile, ModelFacts};
pub use crate::policy::sections::guards::{GuardMode, GuardName, Guards};
pub use crate::policy::sections::lending::{AntiColocate, ColocationScope, Lending, Thrash};
pub use crate::policy::sections::offboarding::Offboarding;
pub use crate::policy::sections::pins::Pin;
pub use crate::policy::sections::reclaim::{
    Algorithm, Confirm, Guard, Reclaim, Scrub, ScrubMethod, StepLimits,
};
pub use crate::policy::sections::retention::{Retention, Then};
pub use crate::policy::sections::sanitisation::{Medium, Method, Sanitisation};
pub use crate::policy::sections::scheduling::{BorrowWithin, ReclaimWithin, Scheduling, WithinQueue};
pub use crate::policy::sections::sweeps::{Schedule, Sweep, Sweeps};
pub use crate::policy::tenant_request::{
    EntitlementRequest, Multitenancy, Request, TenantPolicy, WorkspaceRequest,
};
pub use crate::policy::versions::{Difference, Published, check, diff, in_force, publish, version};
pub use examples::{Example, Expected, Outcome, test};
pub use explain::{Applies, Subject, explain};
pub(crate) use terms::pins;
pub use terms::{PriceClass, Terms, WorkspaceTerms, constraints};
