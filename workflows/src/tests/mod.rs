//! Tests of the crate as a whole.

mod policy_keys;
mod policy_retention;
mod ways_past_failures;
