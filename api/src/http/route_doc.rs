//! The documentation of a route, for `/openapi.json`. Every route of the table must have it.
//!
//! The inputs follow from the arguments of the handler ([`request_doc`](crate::http::request_doc)); the answers and problems are declared here.

use crate::{
    http::{extract::page::ListPage, problem::code::ProblemCode},
    types::{
        self,
        executions::{Execution, OrderPreview, Proposal},
    },
};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Writes the schema of a type.
pub(crate) type SchemaWriter = fn(&mut SchemaGenerator) -> Schema;

/// Returns a reference to the schema of a type in the components.
pub(super) fn schema_ref<T: JsonSchema>() -> SchemaWriter {
    |generator| generator.subschema_for::<T>()
}

/// Returns the schema of a type, inline.
pub(super) fn inline_schema<T: JsonSchema>() -> SchemaWriter {
    T::json_schema
}

/// A successful answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseDoc {
    pub(super) status: u16,
    /// The media type and schema of the body, if any.
    pub(super) body: Option<(&'static str, Option<SchemaWriter>)>,
    /// True if `Location` names the new resource.
    pub(super) located: bool,
    /// True if `ETag` has the version.
    pub(super) tagged: bool,
}

/// A body that the handler reads itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyDoc {
    pub(super) media: &'static [&'static str],
    pub(super) schema: Option<SchemaWriter>,
}

/// The documentation of a route.
#[derive(Clone, Debug)]
pub(crate) struct RouteDoc {
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) bodies: Vec<BodyDoc>,
    pub(super) answers: Vec<ResponseDoc>,
    pub(super) may: Vec<ProblemCode>,
    /// Query parameters that the handler reads itself, each with its description.
    pub(super) asks: Vec<(&'static str, &'static str)>,
    /// True if the route starts an execution and accepts `Tenure-Label`.
    pub(super) labelled: bool,
    /// The events of a stream, each with the schema of its data. A stream continues after `Last-Event-ID`.
    pub(super) events: Vec<(&'static str, SchemaWriter)>,
}

/// Creates the documentation of an operation with an id and a summary.
pub(super) const fn doc(id: &'static str, summary: &'static str) -> RouteDoc {
    RouteDoc {
        id,
        summary,
        bodies: Vec::new(),
        answers: Vec::new(),
        may: Vec::new(),
        asks: Vec::new(),
        labelled: false,
        events: Vec::new(),
    }
}

const JSON: &str = "application/json";
/// The media type of server-sent events.
pub(super) const STREAM: &str = "text/event-stream";
/// The media types of a document.
pub(super) const DOCUMENT: &[&str] = &[JSON, "application/yaml"];

impl RouteDoc {
    fn answering(mut self, status: u16, body: Option<(&'static str, Option<SchemaWriter>)>) -> Self {
        self.answers.push(ResponseDoc { status, body, located: false, tagged: false });
        self
    }

    /// Adds a JSON answer.
    pub(super) fn says<T: JsonSchema>(self, status: u16) -> Self {
        self.answering(status, Some((JSON, Some(schema_ref::<T>()))))
    }

    /// Adds a JSON answer with a page of items.
    pub(super) fn lists<T: JsonSchema>(self) -> Self {
        self.says::<ListPage<T>>(200)
    }

    /// Adds an answer of another media type.
    pub(super) fn file(self, status: u16, media: &'static str) -> Self {
        self.answering(status, Some((media, None)))
    }

    /// Adds an answer without a body.
    pub(super) fn nothing(self) -> Self {
        self.answering(204, None)
    }

    /// Adds a redirect.
    pub(super) fn moves(self) -> Self {
        self.answering(303, None).located()
    }

    /// Adds an answer of server-sent events; the last event is `end`.
    pub(super) fn streams(self) -> Self {
        let streams = self.file(200, STREAM).tells::<types::streams::End>("end");
        streams.may(&[ProblemCode::QueryInvalid, ProblemCode::TooManyStreams, ProblemCode::Stopping])
    }

    /// Adds an event of the stream.
    pub(super) fn tells<T: JsonSchema>(mut self, name: &'static str) -> Self {
        self.events.push((name, schema_ref::<T>()));
        self
    }

    /// Adds a `Location` to the last answer.
    pub(super) fn located(mut self) -> Self {
        self.answers.last_mut().into_iter().for_each(|answer| answer.located = true);
        self
    }

    /// Adds an `ETag` to the last answer.
    pub(super) fn tagged(mut self) -> Self {
        self.answers.last_mut().into_iter().for_each(|answer| answer.tagged = true);
        self
    }

    /// Adds a request document, as JSON or YAML.
    pub(super) fn takes<T: JsonSchema>(self) -> Self {
        self.reads(DOCUMENT, Some(schema_ref::<T>()))
    }

    /// Adds a JSON request body.
    pub(super) fn takes_json<T: JsonSchema>(self) -> Self {
        self.reads(&[JSON], Some(schema_ref::<T>()))
    }

    /// Adds a request body with these media types.
    pub(super) fn reads(mut self, media: &'static [&'static str], schema: Option<SchemaWriter>) -> Self {
        self.bodies.push(BodyDoc { media, schema });
        self
    }

    /// Adds a query parameter.
    pub(super) fn asks(mut self, name: &'static str, means: &'static str) -> Self {
        self.asks.push((name, means));
        self
    }

    /// Adds problems, in addition to those common to all such routes.
    pub(super) fn may(mut self, codes: &[ProblemCode]) -> Self {
        self.may.extend_from_slice(codes);
        self
    }

    /// Adds the problem of a failed `If-Match`; the handler takes an [`IfMatch`](crate::http::extract::if_match::IfMatch).
    pub(super) fn bound(self, stale: ProblemCode) -> Self {
        self.may(&[stale])
    }

    /// Adds the answers of a command to an execution: the execution, or a proposal that waits for a second person.
    pub(super) fn ordered(self) -> Self {
        let answered = self.says::<Execution>(200).tagged().says::<Proposal>(202);
        answered.bound(ProblemCode::StaleRevision).may(ORDERED)
    }

    /// Adds the answers of a command to an execution, or the result of its dry run.
    pub(super) fn foreseen(self) -> Self {
        self.ordered().says::<OrderPreview>(200)
    }

    /// Adds the header `Tenure-Label`.
    pub(super) fn labelled(mut self) -> Self {
        self.labelled = true;
        self
    }
}

/// Problems of routes that name an execution.
pub(super) const NAMED: &[ProblemCode] =
    &[ProblemCode::IdAmbiguous, ProblemCode::Destroyed, ProblemCode::NoWorker];

/// Problems of requests that start an execution.
pub(super) const BEGUN: &[ProblemCode] =
    &[ProblemCode::Busy, ProblemCode::NeedsParent, ProblemCode::NoWorker, ProblemCode::TenantLeaves];

/// Problems of commands to an execution.
pub(super) const ORDERED: &[ProblemCode] = &[
    ProblemCode::IdAmbiguous,
    ProblemCode::Destroyed,
    ProblemCode::NoWorker,
    ProblemCode::Busy,
    ProblemCode::Stale,
    ProblemCode::Finished,
    ProblemCode::PastPivot,
    ProblemCode::Unexpected,
    ProblemCode::Unwinding,
    ProblemCode::Already,
    ProblemCode::RepairNotNow,
    ProblemCode::RepairInvalid,
    ProblemCode::RepairObservation,
    ProblemCode::SamePerson,
    ProblemCode::NotAPerson,
    ProblemCode::NeedsSecond,
    ProblemCode::ReasonMissing,
];

/// Problems of votes.
pub(super) const VOTED: &[ProblemCode] = &[
    ProblemCode::IdAmbiguous,
    ProblemCode::Destroyed,
    ProblemCode::NoWorker,
    ProblemCode::Stale,
    ProblemCode::Finished,
    ProblemCode::Unexpected,
    ProblemCode::Unwinding,
    ProblemCode::OwnRequest,
    ProblemCode::NotEntitled,
    ProblemCode::NotAPerson,
    ProblemCode::Decided,
    ProblemCode::VotedBefore,
    ProblemCode::PlanChanged,
    ProblemCode::ForRequester,
    ProblemCode::NotSeparate,
    ProblemCode::NotDelegated,
    ProblemCode::NoGlass,
    ProblemCode::GlassDestroys,
    ProblemCode::NoVote,
    ProblemCode::DecisionUnexplained,
    ProblemCode::DigestMissing,
    ProblemCode::NotWaiting,
];
