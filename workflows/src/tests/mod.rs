//! Tests of the crate as a whole.

pub(crate) mod books;
mod decision_callers;
mod placements;
mod policy_catalogue;
mod policy_keys;
mod policy_retention;
mod slice_placements;
mod starts;
mod ways_past_failures;
mod workload_retention;
