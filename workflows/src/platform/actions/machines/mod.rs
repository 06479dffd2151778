//! Actions on machines as hardware: sanitise, recover, qualify.

pub mod qualify;
pub(crate) mod recover;
pub(crate) mod sanitise;
