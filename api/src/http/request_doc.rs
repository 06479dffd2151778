//! What a handler reads, told by the types of its arguments: the schema of a request is that of the very type it is read into.

use crate::http::{
    extract::{
        Asked, Sent, Text, Undescribed,
        dry_run::{self, DryRun},
        if_match::IfMatch,
    },
    route_doc::{Writes, whole},
};
use axum::{
    extract::{ConnectInfo, Extension, Path, State},
    http::HeaderMap,
};
use schemars::JsonSchema;

/// What the arguments of a handler read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inputs {
    /// The parameters of the address.
    pub(super) query: Option<Writes>,
    /// The body.
    pub(super) body: Option<Writes>,
    /// Whether it reads a body that its route has to describe.
    pub(super) text: bool,
    /// Whether it compares `If-Match`.
    pub(super) bound: bool,
}

/// An argument of a handler.
pub(crate) trait Part {
    /// Adds what it reads.
    fn tell(inputs: &mut Inputs) {
        let _ = inputs;
    }
}

impl<T> Part for State<T> {}
impl<T> Part for Extension<T> {}
impl<T> Part for Path<T> {}
impl Part for HeaderMap {}
impl<T> Part for ConnectInfo<T> {}

impl Part for IfMatch {
    fn tell(inputs: &mut Inputs) {
        inputs.bound = true;
    }
}

impl Part for DryRun {
    fn tell(inputs: &mut Inputs) {
        inputs.query = Some(whole::<dry_run::Parameter>());
    }
}

impl<T: JsonSchema> Part for Asked<T> {
    fn tell(inputs: &mut Inputs) {
        inputs.query = Some(whole::<T>());
    }
}

impl<T: JsonSchema> Part for Sent<T> {
    fn tell(inputs: &mut Inputs) {
        inputs.body = Some(whole::<T>());
    }
}

impl Part for Text {
    fn tell(inputs: &mut Inputs) {
        inputs.text = true;
    }
}

impl<T> Part for Undescribed<T> {
    fn tell(inputs: &mut Inputs) {
        inputs.text = true;
    }
}

/// The arguments of a handler. The first type of each tuple is axum's own mark.
pub(crate) trait Parts {
    /// What they read.
    fn told() -> Inputs;
}

fn inputs(tell: &[fn(&mut Inputs)]) -> Inputs {
    let mut inputs = Inputs::default();
    tell.iter().for_each(|tell| tell(&mut inputs));
    inputs
}

impl<M> Parts for (M,) {
    fn told() -> Inputs {
        Inputs::default()
    }
}

impl<M, A: Part> Parts for (M, A) {
    fn told() -> Inputs {
        inputs(&[A::tell])
    }
}

impl<M, A: Part, B: Part> Parts for (M, A, B) {
    fn told() -> Inputs {
        inputs(&[A::tell, B::tell])
    }
}

impl<M, A: Part, B: Part, C: Part> Parts for (M, A, B, C) {
    fn told() -> Inputs {
        inputs(&[A::tell, B::tell, C::tell])
    }
}

impl<M, A: Part, B: Part, C: Part, D: Part> Parts for (M, A, B, C, D) {
    fn told() -> Inputs {
        inputs(&[A::tell, B::tell, C::tell, D::tell])
    }
}

impl<M, A: Part, B: Part, C: Part, D: Part, E: Part> Parts for (M, A, B, C, D, E) {
    fn told() -> Inputs {
        inputs(&[A::tell, B::tell, C::tell, D::tell, E::tell])
    }
}

impl<M, A: Part, B: Part, C: Part, D: Part, E: Part, F: Part> Parts for (M, A, B, C, D, E, F) {
    fn told() -> Inputs {
        inputs(&[A::tell, B::tell, C::tell, D::tell, E::tell, F::tell])
    }
}
