//! Quotas and their use: limits, the account of a tenant, loans, earmarks and usage counters.

pub(crate) mod cohort;
pub(crate) mod earmark;
pub(crate) mod flavor_quota;
pub(crate) mod lender;
pub mod limit_names;
pub(crate) mod loan;
pub(crate) mod quota;
pub(crate) mod reservation;
pub(crate) mod usage;
