//! Policy as code: requests for tenants, the rules of the platform, and decisions that can be repeated.
//!
//! Documents are parsed strictly, and every finding has its line and column. `docs/policy.md` explains every key. The functions here are pure, except
//! [`in_force`], [`version`] and [`publish`], which read and write through a view.

mod built_in;
mod change_summary;
mod contradictions;
mod decision;
pub mod decisions;
mod examples;
mod explain;
mod onboarding_decision;
pub(crate) mod parsing;
mod platform_policy;
mod platform_policy_reader;
mod preflight;
mod rules;
pub(crate) mod sections;
mod tenant_request;
mod terms;
mod versions;
mod warnings;

pub use crate::duration;
pub use crate::tenancy::Multitenancy;
pub use crate::tenancy::PolicyRef;
pub use decision::{Decision, Judgement, OnboardingFacts, Reason, Verdict};
pub use examples::question::{PolicyAnswer, PolicyQuestion, RecordedRuling, rule};
pub use examples::{Example, Expected, Outcome, test};
pub use explain::{ApplicableRule, Subject, explain};
pub use onboarding_decision::{OnboardingEvaluation, evaluate, preflight::check_on};
pub(crate) use parsing::document::from_json;
pub use parsing::document::{Item, Value, from_yaml};
pub use parsing::finding::{Finding, Invalid, Spot};
pub use parsing::provenance::{Origin, Provenance};
pub use parsing::ratio::Ratio;
pub use parsing::reader::{Fields, Reader};
pub(crate) use platform_policy::sha256;
pub use platform_policy::{
    ComplianceDemands, OnboardingApproval, PlatformPolicy, PolicyChange, PolicyInForce, PublishedPolicy,
};
pub use preflight::{ClosedName, Preflight, day, has_ended};
pub use rules::{Rule, RuleName, rules};
pub use sections::admission::{AdmissionRules, AgingRules, SoftThreshold};
pub use sections::approvals::{ApprovalGate, ApprovalGates, QuotaIncreaseApproval};
pub use sections::capacity::{CapacityRules, Rung};
pub use sections::gpu_models::{GpuModels, GpuPiece, MigProfile, ModelFacts};
pub use sections::guards::{GuardMode, GuardName, Guards};
pub use sections::lending::{AntiColocate, ColocationScope, LendingRules, ThrashRules};
pub use sections::offboarding::OffboardingRules;
pub use sections::pins::Pin;
pub use sections::reclaim::{
    Algorithm, ConfirmRules, ReclaimGuard, ReclaimRules, ScrubMethod, ScrubRules, StepLimits,
};
pub use sections::retention::{Retention, Then};
pub use sections::sanitisation::{Medium, Method, SanitisationRules};
pub use sections::scheduling::{BorrowWithin, ReclaimWithin, SchedulingRules, WithinQueue};
pub use sections::sweeps::{Schedule, Sweep, SweepSchedules};
pub use tenant_request::{EntitlementRequest, OnboardingRequest, TenantPolicy, WorkspaceRequest};
pub use terms::{OnboardingTerms, PriceClass, WorkspaceTerms, constraints};
pub(crate) use terms::{classes, pins};
pub use versions::{
    Difference, Published, check, diff, in_force, model_named, publish, resource_named, version, warnings,
};
