//! Requests that start executions. One type per workflow defines how to parse, start and preview its request.
//!
//! Every such collection has two routes. A POST to the collection starts an execution (202 with its path). A POST to `:plan` returns the decision and the plan,
//! and changes nothing.

use crate::{
    auth::Caller,
    http::{
        extract::{QueryParams, TextBody, parse_json, understood, yaml},
        middleware::{
            idempotency::{RequestKey, StartKey, mark_replayed},
            traceparent,
        },
        problem::{Problem, code::ProblemCode},
        resources::executions::full,
        route::{Access, Route},
        route_doc::{BEGUN, RouteDoc},
    },
    state::{ServerState, SharedState},
    types::executions::Execution,
};
use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use engine::{Plan, Started, Undecided, View, Workflow};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{collections::BTreeMap, future::Future};
use workflows::policy::Invalid;

/// Query parameters.
pub(in crate::http) type Parameters = BTreeMap<String, String>;

/// A request that starts an execution.
pub(in crate::http) trait StartRequest: Sized + Send + Sync + 'static {
    /// The document type of the request.
    type Document: JsonSchema;
    /// The answer type of `:plan`.
    type Planned: JsonSchema;

    /// Parses a document. `asked` are the query parameters.
    fn read(document: &TextBody, asked: &Parameters) -> Result<Self, Problem>;

    /// The tenant of the request; empty for the platform.
    fn tenant(&self) -> &str;

    /// Adds values that need a search.
    fn prepare(self, _app: &ServerState) -> impl Future<Output = Result<Self, Problem>> + Send {
        async { Ok(self) }
    }

    /// Starts the execution.
    fn start(
        self,
        app: &ServerState,
        caller: &Caller,
        asked: engine::Request,
    ) -> impl Future<Output = Result<Started, Problem>> + Send;

    /// Returns the decision and the plan, from the present ledger.
    fn plan(&self, view: &mut View) -> Result<Value, Undecided>;
}

/// Returns the two routes of a request, with their documentation.
pub(in crate::http) fn start_routes<W: StartRequest>(
    (start_at, started): (&'static str, RouteDoc),
    (plan_at, planned): (&'static str, RouteDoc),
    access: Access,
) -> Vec<Route> {
    let started = started.takes::<W::Document>().labelled();
    let started =
        started.says::<Execution>(202).located().tagged().may(BEGUN).may(&[ProblemCode::QueryInvalid]);
    let planned = planned.takes::<W::Document>().says::<W::Planned>(200).may(&[ProblemCode::QueryInvalid]);
    vec![Route::post(start_at, access, start::<W>, started), Route::post(plan_at, access, plan::<W>, planned)]
}

async fn start<W: StartRequest>(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Extension(once): Extension<RequestKey>,
    QueryParams(asked): QueryParams<Parameters>,
    body: TextBody,
) -> Result<Response, Problem> {
    let labels = body.labels.clone();
    let wish = understood(&app, &caller, body, move |body| W::read(body, &asked)).await?;
    begin(&app, &caller, wish, once.start_key(), &labels).await
}

/// Starts an execution, or returns the existing one with the same idempotency key.
pub(in crate::http) async fn begin<W: StartRequest>(
    app: &ServerState,
    caller: &Caller,
    wish: W,
    once: Option<StartKey>,
    labels: &[String],
) -> Result<Response, Problem> {
    own(caller, wish.tenant())?;
    let asked = labels.iter().fold(engine::Request::by(&caller.person()), engine::Request::with_label);
    let asked = StartKey::put(once, traceparent::with_trace_link(asked));
    let started = wish.prepare(app).await?.start(app, caller, asked).await?;
    let mut answer = full(app, started.id, StatusCode::ACCEPTED).await?;
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/executions/{}", started.id)) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    if started.replayed {
        mark_replayed(&mut answer);
    }
    Ok(answer)
}

async fn plan<W: StartRequest>(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(asked): QueryParams<Parameters>,
    body: TextBody,
) -> Result<Json<Value>, Problem> {
    let wish = understood(&app, &caller, body, move |body| W::read(body, &asked)).await?;
    own(&caller, wish.tenant())?;
    let wish = wish.prepare(&app).await?;
    let planning = app.clone();
    let planned = async move { planning.engine.transact(false, |view| wish.plan(view)).await };
    let planned = app.documents.plan(caller.owner(), planned).await??;
    Ok(Json(with_separation(&app, planned)))
}

/// Returns a plan, with a warning if the server accepts votes of persons who are not separate.
pub(in crate::http) fn with_separation(app: &ServerState, mut planned: Value) -> Value {
    let separation = app.engine.separation();
    if let Some(fields) = planned.as_object_mut().filter(|_| !separation.is_enforced()) {
        fields.insert("separation".into(), separation.name().into());
    }
    planned
}

/// Rejects a request for a tenant other than the one the caller is bound to.
pub(in crate::http) fn own(caller: &Caller, tenant: &str) -> Result<(), Problem> {
    if caller.sees(tenant) {
        return Ok(());
    }
    Err(Problem::new(ProblemCode::ForeignTenant, format!("{} may not act for tenant {tenant}", caller.name)))
}

/// Returns a plan with the digest that approvers vote on.
pub(in crate::http) fn planned<W: Workflow>(plan: &Plan) -> Value {
    json!({ "plan": plan, "digest": plan.digest(W::NAME, W::SCHEMA) })
}

/// Rejects parameters that are not in `known`.
pub(in crate::http) fn only(asked: &Parameters, known: &[&str]) -> Result<(), Problem> {
    match asked.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(other) => Err(Problem::new(ProblemCode::QueryInvalid, format!("{other}: unknown parameter"))),
    }
}

/// Parses a JSON or YAML document.
pub(in crate::http) fn document<T: DeserializeOwned>(body: &TextBody) -> Result<T, Problem> {
    if !body.is_yaml() {
        return parse_json(if body.text.trim().is_empty() { "{}" } else { &body.text });
    }
    yaml(&body.text)
}

/// Parses a document with its own parser. Errors in YAML and JSON name their position.
pub(in crate::http) fn by_place<T>(
    text: &str,
    is_json: bool,
    from_yaml: impl Fn(&str) -> Result<T, Invalid>,
    from_json: impl Fn(&Value) -> Result<T, Invalid>,
) -> Result<T, Problem> {
    let read = from_yaml(text);
    if !is_json {
        return read.map_err(|invalid| Problem::invalid(&invalid));
    }
    let value: Value = parse_json(text)?;
    match (read, from_json(&value)) {
        (Ok(request), _) | (Err(_), Ok(request)) => Ok(request),
        (Err(invalid), Err(_)) => Err(Problem::invalid(&invalid)),
    }
}
