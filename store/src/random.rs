//! Randomness for record keys and unique names. No decision depends on it.

use uuid::{Builder, Uuid};

/// Fills `bytes` with unpredictable values.
#[expect(clippy::disallowed_methods, reason = "keys of records are drawn in this crate, which keeps them")]
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), String> {
    getrandom::fill(bytes).map_err(|error| format!("no randomness: {error}"))
}

/// Returns a unique name.
pub(crate) fn name() -> Result<Uuid, String> {
    let mut bytes = [0; 16];
    fill(&mut bytes)?;
    Ok(Builder::from_random_bytes(bytes).into_uuid())
}
