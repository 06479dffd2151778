//! What an execution is begun with, by whoever asks for it: another version of this program, perhaps.

use serde_json::Value;

/// What an execution is begun with: data as a schema has them, which may not be that of whoever begins it.
#[derive(Clone, Debug)]
pub(crate) struct VersionedInput {
    pub(crate) schema: u32,
    pub(crate) data: Value,
}
