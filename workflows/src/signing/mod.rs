//! Signing for audit and certificates: canonical JSON, digests, DSSE envelopes, Ed25519 keys and timestamps.
//!
//! Invariant: equal content has equal bytes, so that a digest or a signature identifies one content.

pub(crate) mod canonical;
pub mod dsse;
mod key_succession;
mod moment;
mod signer;

pub use canonical::Digest;
pub use key_succession::{KeySuccession, KeySuccessions};
pub use moment::Moment;
pub use signer::{KeyFile, PublicKey, Signer, SigningKey};
