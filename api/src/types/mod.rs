//! Types of answers, from which `/openapi.json` is generated.
//!
//! `executions`, `approvals` and `operations` are serialised directly. Other answers are documents of lower crates, converted by [`mapping`]: their types here
//! describe the result, and a test compares them with live answers, field by field.

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

/// A timestamp, RFC 3339 in UTC.
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

/// A duration such as `1h30m`.
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

/// An object whose fields depend on its content.
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
