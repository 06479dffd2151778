//! Policy as code: what tenants ask for, what the platform allows, and decisions that can be decided again.
//!
//! Documents are read strictly, with every finding at its line and column; `docs/policy.md` explains every key. Nothing
//! here reads a clock, a store or the world, but for [`in_force`], [`version`] and [`publish`], which go through a view.

mod document;
pub mod duration;
mod evaluate;
mod finding;
mod library;
mod platform;
mod platform_reader;
mod reader;
mod request;
mod terms;

pub(crate) use document::{Item, Value, from_yaml};
pub use evaluate::{Evaluation, Facts, Judgement, Reason, Verdict, evaluate};
pub use finding::{Finding, Invalid, Spot};
pub use library::{Difference, check, diff, in_force, publish, version};
pub(crate) use platform::sha256;
pub use platform::{Approvals, Demands, PlatformPolicy, PolicyInForce, PolicyRef, PublishedPolicy};
pub(crate) use reader::Reader;
pub use request::{EntitlementRequest, Request, TenantPolicy, WorkspaceRequest};
pub use terms::{PriceClass, Terms, WorkspaceTerms, constraints};
