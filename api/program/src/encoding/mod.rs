//! Text encodings that several crates share.

pub mod percent;
pub mod rfc3339;

pub use store::hex;
