//! Quota changes: the request, the terms, and the names of limits on the platform.
//!
//! Shared by the workflows [`quota_increase`](crate::quota_change::increase) and [`quota_decrease`](crate::quota_change::decrease). Everything here is pure.
//! Invariant of both: at any time `ledger ≤ hard limit of the namespace ≤ queue ≤ record of the cohort ≤ ledger + what is earmarked`. So after an
//! interruption the tighter limit is in force. Only a manual change on the platform can break this, and it is detected.

pub mod decrease;
mod evaluate;
mod facts;
pub mod increase;
mod increase_approval;
mod layer_steps;
mod ledger;
mod preview;
mod request;
mod terms;

pub use crate::ledger::GpuHoldings;
pub(crate) use evaluate::format_time;
pub use evaluate::{ChangeEvaluation, QuotaDecision, evaluate};
pub use facts::{ChangeFacts, ResourceStatus};
pub(crate) use layer_steps::LayerSteps;
pub(crate) use ledger::write_line;
pub use ledger::{
    CheckUse, EvaluateChange, ExcessMeasured, GrantQuota, HoldCapacity, LowerQuota, MeasureExcess,
    PrepareHeld, QuarantineHeld, ReleaseCapacity, RestoreQuota, SettleDecrease, change_facts,
};
pub use preview::ChangePreview;
pub(crate) use request::parse_time;
pub use request::{Change, Direction, QuotaRequest, subject};
pub use terms::{ChangeTerms, layer_names};
pub(crate) use terms::{example_terms, layer_limits};
