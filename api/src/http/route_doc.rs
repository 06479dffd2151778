//! What a route says of itself, for `/openapi.json`: the table of routes takes none that does not.
//!
//! What it reads follows from the handler's own arguments ([`request_doc`](crate::http::request_doc)); what it answers, and with which problems,
//! is said here.

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

/// Where a type's schema stands among the components.
pub(super) fn schema_ref<T: JsonSchema>() -> SchemaWriter {
    |generator| generator.subschema_for::<T>()
}

/// A type's schema itself.
pub(super) fn inline_schema<T: JsonSchema>() -> SchemaWriter {
    T::json_schema
}

/// An answer that is not a problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseDoc {
    pub(super) status: u16,
    /// Its media type and schema, if it has a body.
    pub(super) body: Option<(&'static str, Option<SchemaWriter>)>,
    /// Whether `Location` names what was begun or made.
    pub(super) located: bool,
    /// Whether `ETag` names its version.
    pub(super) tagged: bool,
}

/// A body that the handler reads by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyDoc {
    pub(super) media: &'static [&'static str],
    pub(super) schema: Option<SchemaWriter>,
}

/// What a route says of itself.
#[derive(Clone, Debug)]
pub(crate) struct RouteDoc {
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) bodies: Vec<BodyDoc>,
    pub(super) answers: Vec<ResponseDoc>,
    pub(super) may: Vec<ProblemCode>,
    /// Parameters of the address that the handler reads by itself, each with what it means.
    pub(super) asks: Vec<(&'static str, &'static str)>,
    /// Whether it begins an execution, and so takes `Tenure-Label`.
    pub(super) labelled: bool,
    /// Of a stream, which goes on after `Last-Event-ID`: the events that it may tell, each with its data.
    pub(super) events: Vec<(&'static str, SchemaWriter)>,
}

/// A route of this name, which does this.
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

    /// Answers with this, as JSON.
    pub(super) fn says<T: JsonSchema>(self, status: u16) -> Self {
        self.answering(status, Some((JSON, Some(schema_ref::<T>()))))
    }

    /// Answers with pages of these.
    pub(super) fn lists<T: JsonSchema>(self) -> Self {
        self.says::<ListPage<T>>(200)
    }

    /// Answers with what is no JSON.
    pub(super) fn file(self, status: u16, media: &'static str) -> Self {
        self.answering(status, Some((media, None)))
    }

    /// Answers with nothing but that it is done.
    pub(super) fn nothing(self) -> Self {
        self.answering(204, None)
    }

    /// Leads a browser elsewhere.
    pub(super) fn moves(self) -> Self {
        self.answering(303, None).located()
    }

    /// Answers with server-sent events, which end with `end`.
    pub(super) fn streams(self) -> Self {
        let streams = self.file(200, STREAM).tells::<types::streams::End>("end");
        streams.may(&[ProblemCode::QueryInvalid, ProblemCode::TooManyStreams, ProblemCode::Stopping])
    }

    /// May tell an event of this name.
    pub(super) fn tells<T: JsonSchema>(mut self, name: &'static str) -> Self {
        self.events.push((name, schema_ref::<T>()));
        self
    }

    /// The answer just named has a `Location`.
    pub(super) fn located(mut self) -> Self {
        self.answers.last_mut().into_iter().for_each(|answer| answer.located = true);
        self
    }

    /// The answer just named has an `ETag`.
    pub(super) fn tagged(mut self) -> Self {
        self.answers.last_mut().into_iter().for_each(|answer| answer.tagged = true);
        self
    }

    /// Takes a document, as JSON or YAML.
    pub(super) fn takes<T: JsonSchema>(self) -> Self {
        self.reads(DOCUMENT, Some(schema_ref::<T>()))
    }

    /// Takes JSON.
    pub(super) fn takes_json<T: JsonSchema>(self) -> Self {
        self.reads(&[JSON], Some(schema_ref::<T>()))
    }

    /// Takes a body of these media types.
    pub(super) fn reads(mut self, media: &'static [&'static str], schema: Option<SchemaWriter>) -> Self {
        self.bodies.push(BodyDoc { media, schema });
        self
    }

    /// Takes a parameter in the address.
    pub(super) fn asks(mut self, name: &'static str, means: &'static str) -> Self {
        self.asks.push((name, means));
        self
    }

    /// May be refused with these, beside what every such route may.
    pub(super) fn may(mut self, codes: &[ProblemCode]) -> Self {
        self.may.extend_from_slice(codes);
        self
    }

    /// Is refused so when what `If-Match` names is not what there is; its handler takes an [`IfMatch`](crate::http::extract::if_match::IfMatch).
    pub(super) fn bound(self, stale: ProblemCode) -> Self {
        self.may(&[stale])
    }

    /// Takes an order to an execution: answered with it, or with what waits for a second person.
    pub(super) fn ordered(self) -> Self {
        let answered = self.says::<Execution>(200).tagged().says::<Proposal>(202);
        answered.bound(ProblemCode::StaleRevision).may(ORDERED)
    }

    /// Takes an order to an execution, or as a dry run answers what it would lead to.
    pub(super) fn foreseen(self) -> Self {
        self.ordered().says::<OrderPreview>(200)
    }

    /// Takes `Tenure-Label`.
    pub(super) fn labelled(mut self) -> Self {
        self.labelled = true;
        self
    }
}

/// With what an execution that is named may not be found, or not be shown.
pub(super) const NAMED: &[ProblemCode] =
    &[ProblemCode::IdAmbiguous, ProblemCode::Destroyed, ProblemCode::NoWorker];

/// With what a request that begins an execution may be refused.
pub(super) const BEGUN: &[ProblemCode] =
    &[ProblemCode::Busy, ProblemCode::NeedsParent, ProblemCode::NoWorker, ProblemCode::TenantLeaves];

/// With what an order to an execution may be refused.
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

/// With what a vote may be refused.
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
