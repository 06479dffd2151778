//! What audit and certificates sign with: canonical JSON, digests, DSSE envelopes, Ed25519 keys and timestamps.

pub(crate) mod canonical;
pub mod dsse;
pub(crate) mod moment;
pub(crate) mod signer;
