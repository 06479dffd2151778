//! The input of a new execution. It may come from another version of this program.

use serde_json::Value;

/// The input of a new execution: data in the given schema, which may differ from this version's.
#[derive(Clone, Debug)]
pub(crate) struct VersionedInput {
    pub(crate) schema: u32,
    pub(crate) data: Value,
}
