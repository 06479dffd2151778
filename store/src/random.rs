//! Randomness for keys of records and for names that must never be given twice. None of it decides anything.

use uuid::{Builder, Uuid};

/// Fills `bytes` with what nobody can guess.
#[expect(clippy::disallowed_methods, reason = "keys of records are drawn in this crate, which keeps them")]
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), String> {
    getrandom::fill(bytes).map_err(|error| format!("no randomness: {error}"))
}

/// A name that nothing else has.
pub(crate) fn name() -> Result<Uuid, String> {
    let mut bytes = [0; 16];
    fill(&mut bytes)?;
    Ok(Builder::from_random_bytes(bytes).into_uuid())
}
