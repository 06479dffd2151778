//! The account of a tenant in memory: copied on its first change, and metered before each change.

pub(crate) mod cohort_cell;
pub(crate) mod metering;
