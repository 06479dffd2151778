//! Text encodings that several crates share.

pub mod hex;
pub mod percent;
pub mod rfc3339;
