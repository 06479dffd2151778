//! The marker that replaces a body that cannot be decrypted any more.

use crate::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a marker begins as JSON; no execution does.
const BEGINNING: &[u8] = br#"{"sealed":"#;

/// Replaces the body of a record or the detail of a history entry, as `{"sealed": ..}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecryptable {
    /// The owner of the key; empty for the platform.
    pub owner: String,
    /// The key.
    pub key: String,
    /// When the key was destroyed; `None` if it is missing or wrong, which is an error.
    pub destroyed_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Marker {
    sealed: Undecryptable,
}

impl Undecryptable {
    /// Parses `body` as a marker. Returns `None` for an ordinary body.
    #[must_use]
    pub fn from_body(body: &[u8]) -> Option<Self> {
        // A quick check before parsing, because every body is checked.
        if !body.starts_with(BEGINNING) {
            return None;
        }
        let marker: Marker = serde_json::from_slice(body).ok()?;
        Some(marker.sealed)
    }

    pub(super) fn into_body(self) -> Vec<u8> {
        serde_json::to_vec(&Marker { sealed: self }).unwrap_or_default()
    }
}

impl fmt::Display for Undecryptable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, key, destroyed_at } = self;
        let owner = if owner.is_empty() { "the platform" } else { owner };
        match destroyed_at {
            Some(_) => write!(f, "its content was encrypted with key {key} of {owner}, which was destroyed"),
            None => write!(
                f,
                "its content is encrypted with key {key} of {owner}, which is missing in the folder of record keys, or does not match"
            ),
        }
    }
}
