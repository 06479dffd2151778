//! Requests that become executions: one type a workflow says how it is read, begun and tried out.
//!
//! Every such collection has two addresses: a POST to it begins an execution (202, with its address), and a POST to
//! `:plan` beside it says what would be decided and done, and changes nothing.

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

/// Parameters of the address.
pub(in crate::http) type Parameters = BTreeMap<String, String>;

/// A request that becomes an execution.
pub(in crate::http) trait StartRequest: Sized + Send + Sync + 'static {
    /// What its documents look like.
    type Document: JsonSchema;
    /// What `:plan` answers.
    type Planned: JsonSchema;

    /// The request that a document says. `asked` are the parameters of the address.
    fn read(document: &TextBody, asked: &Parameters) -> Result<Self, Problem>;

    /// Whose it is; empty for the platform's own.
    fn tenant(&self) -> &str;

    /// The request with what only a search finds.
    fn prepare(self, _app: &ServerState) -> impl Future<Output = Result<Self, Problem>> + Send {
        async { Ok(self) }
    }

    /// Begins the execution.
    fn start(
        self,
        app: &ServerState,
        caller: &Caller,
        asked: engine::Request,
    ) -> impl Future<Output = Result<Started, Problem>> + Send;

    /// What would be decided and done, by the books as they stand.
    fn plan(&self, view: &mut View) -> Result<Value, Undecided>;
}

/// The two routes of a request, with what they say of themselves.
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

/// Begins what is asked for, or finds the execution that was begun under the same key.
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

/// A plan, which says so where people count who are not separate from each other.
pub(in crate::http) fn with_separation(app: &ServerState, mut planned: Value) -> Value {
    let separation = app.engine.separation();
    if let Some(fields) = planned.as_object_mut().filter(|_| !separation.is_enforced()) {
        fields.insert("separation".into(), separation.name().into());
    }
    planned
}

/// Refuses to act for a tenant that the caller is not bound to.
pub(in crate::http) fn own(caller: &Caller, tenant: &str) -> Result<(), Problem> {
    if caller.sees(tenant) {
        return Ok(());
    }
    Err(Problem::new(ProblemCode::ForeignTenant, format!("{} may not act for tenant {tenant}", caller.name)))
}

/// A plan with its digest, as people vote on it.
pub(in crate::http) fn planned<W: Workflow>(plan: &Plan) -> Value {
    json!({ "plan": plan, "digest": plan.digest(W::NAME, W::SCHEMA) })
}

/// Refuses parameters that are not among `known`.
pub(in crate::http) fn only(asked: &Parameters, known: &[&str]) -> Result<(), Problem> {
    match asked.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(other) => {
            Err(Problem::new(ProblemCode::QueryInvalid, format!("{other}: this is no parameter here")))
        }
    }
}

/// The value that a document of JSON or YAML says.
pub(in crate::http) fn document<T: DeserializeOwned>(body: &TextBody) -> Result<T, Problem> {
    if !body.is_yaml() {
        return parse_json(if body.text.trim().is_empty() { "{}" } else { &body.text });
    }
    yaml(&body.text)
}

/// A request that knows its own documents: YAML, or JSON with its places named all the same.
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
