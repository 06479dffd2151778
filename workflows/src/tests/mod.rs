//! Tests of the crate as a whole.

mod decision_callers;
mod policy_catalogue;
mod policy_keys;
mod policy_retention;
