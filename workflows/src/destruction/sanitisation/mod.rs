//! Sanitisation records: the treatment of one asset, and the rule that decides if it counts.

pub(crate) mod attribution;
pub(crate) mod gpu_scrub;
pub(crate) mod observation;
pub(crate) mod parts;
pub(crate) mod record;
pub(crate) mod rejection;
