//! Actions on machines as hardware: sanitise, recover, qualify.

pub(crate) mod qualify;
pub(crate) mod recover;
pub(crate) mod sanitise;
