//! Text encodings that several layers share.

pub mod hex;
pub mod percent;
pub mod rfc3339;
