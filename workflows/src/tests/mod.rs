//! Tests of the crate as a whole.

pub(crate) mod books;
mod placements;
mod decision_callers;
mod policy_catalogue;
mod policy_keys;
mod policy_retention;
mod starts;
mod workload_retention;
