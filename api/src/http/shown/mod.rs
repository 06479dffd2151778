//! What answers look like: the types that `/openapi.json` describes them by.
//!
//! `executions`, `approvals` and `operating` are serialised as they stand there. The rest are things of the books, which are
//! kept as the crates below have them and only respelt on their way out ([`view`](super::view)): their types here say what
//! that comes to, and a test holds live answers to them, no field more and none less.

pub(super) mod access;
pub(super) mod account;
pub(super) mod approvals;
pub(super) mod books;
pub(super) mod channels;
pub(super) mod documents;
pub(super) mod executions;
pub(super) mod fleet;
pub(super) mod keys;
pub(super) mod operating;
pub(super) mod people;
pub(super) mod scheduling;
pub(super) mod streams;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// A moment, RFC 3339 in UTC.
pub(super) enum Time {}

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
pub(super) enum Span {}

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
pub(super) enum Object {}

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
