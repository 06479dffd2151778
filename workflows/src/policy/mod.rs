//! Policy as code: what tenants ask for, what the platform allows, and decisions that can be decided again.
//!
//! Documents are read strictly, with every finding at its line and column; `docs/policy.md` explains every key. Nothing
//! here reads a clock, a store or the world, but for [`in_force`], [`version`] and [`publish`], which go through a view.

mod admission;
mod approvals;
mod capacity;
mod contradictions;
pub mod decisions;
mod document;
pub use crate::duration;
mod evaluate;
mod examples;
mod explain;
mod filled;
mod finding;
mod gpu_models;
mod guards;
mod lending;
mod library;
mod meaning;
mod offboarding;
mod pins;
mod platform;
mod platform_reader;
mod procedures;
mod provenance;
mod ratio;
mod reader;
mod reclaim;
mod request;
mod retention;
mod sanitisation;
mod scheduling;
mod sweeps;
mod terms;

pub use admission::{Admission, Ageing, SoftThreshold};
pub use approvals::{Gate, Gates, QuotaIncrease};
pub use capacity::{Capacity, Rung};
pub(crate) use document::{Item, Value, from_json, from_yaml};
pub use evaluate::{Evaluation, Facts, Judgement, Reason, Verdict, evaluate};
pub use examples::{Example, Expected, Outcome, test};
pub use explain::{Applies, Subject, explain};
pub use finding::{Finding, Invalid, Spot};
pub use gpu_models::{GpuModels, MigProfile, ModelFacts};
pub use guards::{GuardMode, GuardName, Guards};
pub use lending::{AntiColocate, ColocationScope, Lending, Thrash};
pub use library::{Difference, Published, check, diff, in_force, publish, version};
pub use offboarding::Offboarding;
pub use pins::Pin;
pub(crate) use platform::sha256;
pub use platform::{
    Approvals, Demands, PlatformPolicy, PolicyChange, PolicyInForce, PolicyRef, PublishedPolicy,
};
pub use provenance::{Origin, Provenance};
pub use ratio::Ratio;
pub(crate) use reader::Reader;
pub use reclaim::{Algorithm, Confirm, Guard, Reclaim, Scrub, ScrubMethod, StepLimits};
pub use request::{EntitlementRequest, Multitenancy, Request, TenantPolicy, WorkspaceRequest};
pub use retention::{Retention, Then};
pub use sanitisation::{Medium, Method, Sanitisation};
pub use scheduling::{BorrowWithin, ReclaimWithin, Scheduling, WithinQueue};
pub use sweeps::{Schedule, Sweep, Sweeps};
pub(crate) use terms::pins;
pub use terms::{PriceClass, Terms, WorkspaceTerms, constraints};
