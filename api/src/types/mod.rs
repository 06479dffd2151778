//! What answers look like: the types that `/openapi.json` describes them by.
//!
//! `executions`, `approvals` and `operations` are serialised as they stand there. The rest are things of the books, which are
//! kept as the crates below have them and only respelt on their way out ([`mapping`]): their types here say what
//! that comes to, and a test holds live answers to them, no field more and none less.

pub(crate) mod access;
pub(crate) mod approvals;
pub(crate) mod channels;
pub(super) mod compliance;
pub(super) mod credentials;
pub(crate) mod executions;
pub(crate) mod fleet;
pub(crate) mod mapping;
pub(crate) mod operations;
pub(crate) mod problems;
pub(super) mod schedules;
pub(super) mod stored_documents;
pub(crate) mod streams;
pub(super) mod users;
pub(super) mod workspaces;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// A moment, RFC 3339 in UTC.
pub(crate) enum Time {}

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// A span of time such as `1h30m`.
pub(crate) enum Span {}

impl JsonSchema for Span {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["15m", "1h30m"] })
    }
}

/// An object whose members depend on what it is of.
pub(crate) enum Object {}

impl JsonSchema for Object {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Object".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": true })
    }
}
