//! Changes of quotas: what is asked for, what policy makes of it, and what it is called on the platform.
//!
//! Shared by [`quota_increase`](crate::quota_change::increase) and [`quota_decrease`](crate::quota_change::decrease), which are the
//! machines. Everything here is pure. Invariant of both: at any moment
//! `ledger ≤ hard limit of the namespace ≤ queue ≤ record of the cohort ≤ ledger + what is earmarked`, so that whatever
//! is cut short, the tighter limit is in force; only somebody else's hand on the platform can break it, and is seen.

pub mod decrease;
mod evaluate;
mod facts;
pub mod increase;
mod increase_approval;
mod layer_steps;
mod ledger;
mod request;
mod terms;

pub use crate::ledger::GpuHoldings;
pub(crate) use evaluate::format_time;
pub use evaluate::{ChangeEvaluation, QuotaDecision, evaluate};
pub use facts::{ChangeFacts, ResourceStatus};
pub(crate) use layer_steps::{ChangeWaits, LayerSteps};
pub(crate) use ledger::write_line;
pub use ledger::{
    CheckUse, EvaluateChange, ExcessMeasured, GrantQuota, HoldCapacity, LowerQuota, MeasureExcess,
    PrepareHeld, QuarantineHeld, ReleaseCapacity, RestoreQuota, SettleDecrease, change_facts,
};
pub(crate) use request::parse_time;
pub use request::{Change, Direction, QuotaRequest, subject};
pub use terms::{ChangeTerms, layer_names};
pub(crate) use terms::{example_terms, layer_limits};
