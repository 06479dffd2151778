//! Ledger actions of quota changes: the decision, the capacity set aside, and the quota written.

pub(crate) mod capacity_hold;
pub(crate) mod evaluate_change;
pub(crate) mod lower_quota;
