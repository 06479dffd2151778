//! Documents the request of a route from the argument types of its handler, so the schema always matches the parsed type.

use crate::http::{
    extract::{
        JsonBody, QueryParams, RawJsonBody, TextBody,
        dry_run::{self, DryRun},
        if_match::IfMatch,
    },
    route_doc::{SchemaWriter, inline_schema},
};
use axum::{
    extract::{ConnectInfo, Extension, Path, State},
    http::HeaderMap,
};
use schemars::JsonSchema;

/// The inputs of a handler.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestDoc {
    /// The query parameters.
    pub(super) query: Option<SchemaWriter>,
    /// The body.
    pub(super) body: Option<SchemaWriter>,
    /// True if the handler reads a body that the route must document.
    pub(super) text: bool,
    /// True if the handler compares `If-Match`.
    pub(super) bound: bool,
}

/// An argument of a handler.
pub(crate) trait DescribedExtractor {
    /// Adds the inputs that the argument reads.
    fn tell(inputs: &mut RequestDoc) {
        let _ = inputs;
    }
}

impl<T> DescribedExtractor for State<T> {}
impl<T> DescribedExtractor for Extension<T> {}
impl<T> DescribedExtractor for Path<T> {}
impl DescribedExtractor for HeaderMap {}
impl<T> DescribedExtractor for ConnectInfo<T> {}

impl DescribedExtractor for IfMatch {
    fn tell(inputs: &mut RequestDoc) {
        inputs.bound = true;
    }
}

impl DescribedExtractor for DryRun {
    fn tell(inputs: &mut RequestDoc) {
        inputs.query = Some(inline_schema::<dry_run::Parameter>());
    }
}

impl<T: JsonSchema> DescribedExtractor for QueryParams<T> {
    fn tell(inputs: &mut RequestDoc) {
        inputs.query = Some(inline_schema::<T>());
    }
}

impl<T: JsonSchema> DescribedExtractor for JsonBody<T> {
    fn tell(inputs: &mut RequestDoc) {
        inputs.body = Some(inline_schema::<T>());
    }
}

impl DescribedExtractor for TextBody {
    fn tell(inputs: &mut RequestDoc) {
        inputs.text = true;
    }
}

impl<T> DescribedExtractor for RawJsonBody<T> {
    fn tell(inputs: &mut RequestDoc) {
        inputs.text = true;
    }
}

/// The arguments of a handler. The first type of each tuple is a marker of axum.
pub(crate) trait DescribedHandler {
    /// Returns the inputs of the handler.
    fn told() -> RequestDoc;
}

fn inputs(tell: &[fn(&mut RequestDoc)]) -> RequestDoc {
    let mut inputs = RequestDoc::default();
    tell.iter().for_each(|tell| tell(&mut inputs));
    inputs
}

impl<M> DescribedHandler for (M,) {
    fn told() -> RequestDoc {
        RequestDoc::default()
    }
}

impl<M, A: DescribedExtractor> DescribedHandler for (M, A) {
    fn told() -> RequestDoc {
        inputs(&[A::tell])
    }
}

impl<M, A: DescribedExtractor, B: DescribedExtractor> DescribedHandler for (M, A, B) {
    fn told() -> RequestDoc {
        inputs(&[A::tell, B::tell])
    }
}

impl<M, A: DescribedExtractor, B: DescribedExtractor, C: DescribedExtractor> DescribedHandler
    for (M, A, B, C)
{
    fn told() -> RequestDoc {
        inputs(&[A::tell, B::tell, C::tell])
    }
}

impl<M, A: DescribedExtractor, B: DescribedExtractor, C: DescribedExtractor, D: DescribedExtractor>
    DescribedHandler for (M, A, B, C, D)
{
    fn told() -> RequestDoc {
        inputs(&[A::tell, B::tell, C::tell, D::tell])
    }
}

impl<
    M,
    A: DescribedExtractor,
    B: DescribedExtractor,
    C: DescribedExtractor,
    D: DescribedExtractor,
    E: DescribedExtractor,
> DescribedHandler for (M, A, B, C, D, E)
{
    fn told() -> RequestDoc {
        inputs(&[A::tell, B::tell, C::tell, D::tell, E::tell])
    }
}

impl<
    M,
    A: DescribedExtractor,
    B: DescribedExtractor,
    C: DescribedExtractor,
    D: DescribedExtractor,
    E: DescribedExtractor,
    F: DescribedExtractor,
> DescribedHandler for (M, A, B, C, D, E, F)
{
    fn told() -> RequestDoc {
        inputs(&[A::tell, B::tell, C::tell, D::tell, E::tell, F::tell])
    }
}
