//! The sections of the platform policy, one file each, with the reader of that section.

pub(crate) mod admission;
pub(crate) mod approvals;
pub(crate) mod capacity;
pub(crate) mod gpu_models;
pub(crate) mod guards;
pub(crate) mod lending;
pub(crate) mod offboarding;
pub(crate) mod pins;
pub(crate) mod procedures;
pub(crate) mod reclaim;
pub(crate) mod retention;
pub(crate) mod sanitisation;
pub(crate) mod scheduling;
pub(crate) mod seats;
pub(crate) mod sweeps;
