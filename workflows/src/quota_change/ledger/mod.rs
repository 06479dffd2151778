//! Ledger actions of quota changes: the decision, the reserved capacity, and the written quota.

mod capacity_hold;
mod evaluate_change;
mod lower_quota;

pub use capacity_hold::{GrantQuota, HoldCapacity, PrepareHeld, QuarantineHeld, ReleaseCapacity};
pub(crate) use evaluate_change::write_line;
pub use evaluate_change::{EvaluateChange, change_facts};
pub use lower_quota::{CheckUse, ExcessMeasured, LowerQuota, MeasureExcess, RestoreQuota, SettleDecrease};
