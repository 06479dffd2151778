//! What was done to one asset, and whether that counts as sanitised.

pub(crate) mod attribution;
pub(crate) mod gpu_scrub;
pub(crate) mod observation;
pub(crate) mod parts;
pub(crate) mod record;
pub(crate) mod rejection;
