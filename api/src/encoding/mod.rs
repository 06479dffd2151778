//! Text encodings that several layers share.

pub(crate) mod hex;
pub(crate) mod percent;
pub(crate) mod rfc3339;
