//! `/v1/tenants`: tenants and their onboarding.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            QueryParams, TextBody,
            page::{
                ListPage, Page,
                scope::{get_visible, list_visible},
            },
            understood,
        },
        middleware::{
            idempotency::{ContainsSecret, RequestKey, StartKey, mark_replayed},
            traceparent,
        },
        problem::{Problem, code::ProblemCode},
        resources::{
            executions::full,
            workflow_start::{by_place, own, with_separation},
        },
        route::{Access, Route},
        route_doc::{BEGUN, doc},
    },
    state::{ServerState, SharedState},
    types::{self, mapping, problems::Fault},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use engine::{ActionError, Undecided, View};
use program::token::Token;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use store::Filter;
use workflows::{
    onboarding::{Onboarding, preview},
    policy::{OnboardingRequest, in_force, model_named},
    tenancy::{Entitlement, Isolation, NodeAllocation, Tenant},
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, ask) = (Access::Tenant(Verb::ReadTenants), Access::Tenant(Verb::Onboard));
    vec![
        Route::get(
            "/v1/tenants",
            read,
            list,
            doc("listTenants", "Lists tenants, by state and tier.").lists::<types::fleet::Tenant>(),
        ),
        Route::get(
            "/v1/tenants/{id}",
            read,
            show,
            doc("showTenant", "Shows a tenant: purchased and held GPUs, and open executions.")
                .says::<types::fleet::TenantInFull>(200),
        ),
        Route::post(
            "/v1/tenants",
            ask,
            onboard,
            doc(
                "askForTenant",
                "Starts the onboarding of a tenant. For a tenant with its own cluster, the header Tenure-Cluster-Key has the key.",
            )
            .takes::<types::stored_documents::TenantRequest>()
            .labelled()
            .says::<types::executions::Execution>(202)
            .located()
            .tagged()
            .may(BEGUN),
        ),
        Route::post(
            "/v1/tenants:plan",
            ask,
            plan,
            doc("planTenant", "Previews the onboarding of a tenant. Changes nothing.")
                .takes::<types::stored_documents::TenantRequest>()
                .says::<types::stored_documents::OnboardingPlan>(200),
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wanted")]
struct ListParams {
    state: Option<String>,
    tier: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

const TIMES: &[&str] = &["created_at", "activated_at", "closed_at"];

async fn list(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(wanted): QueryParams<ListParams>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let is = |wanted: &Option<String>, has: &str| wanted.as_deref().is_none_or(|wanted| wanted == has);
    let meant =
        |tenant: &Tenant| is(&wanted.state, tenant.state.into()) && is(&wanted.tier, tenant.tier.into());
    let (tenants, next) = list_visible::<Tenant>(&app, &caller, "", &page, meant).await?;
    Ok(Json(ListPage::new(tenants.iter().map(|tenant| mapping::thing(tenant, TIMES)).collect(), next)))
}

/// Returns a tenant with its purchased and held GPUs and its open executions.
async fn show(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let tenant = get_visible::<Tenant>(&app, &caller, &id).await?;
    let tenant = tenant.ok_or_else(|| Problem::not_found("tenant", &id))?;
    let holding = get_visible::<NodeAllocation>(&app, &caller, &id).await?;
    let entitlement = get_visible::<Entitlement>(&app, &caller, &id).await?;
    let filter = Filter { tenant: Some(id), open: Some(true), ..Filter::default() };
    let open = app.engine.list(&filter, None, 100).await?;
    let mut value = mapping::thing(&tenant, TIMES);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("entitlement".into(), json!(entitlement));
        fields.insert("holding".into(), json!(holding));
        let open: Vec<_> = open.items.iter().map(mapping::row).collect();
        fields.insert("open_executions".into(), json!(open));
    }
    Ok(Json(value))
}

/// Parses an onboarding request, as YAML or JSON. Errors name their position.
pub(in crate::http) fn read_request(text: &str, is_json: bool) -> Result<OnboardingRequest, Problem> {
    by_place(text, is_json, OnboardingRequest::from_yaml, OnboardingRequest::from_json)
}

async fn plan(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    body: TextBody,
) -> Result<Json<Value>, Problem> {
    let read = |body: &TextBody| read_request(&body.text, body.is_json());
    let request = understood(&app, &caller, body, read).await?;
    own(&caller, request.name.as_str())?;
    let planning = app.clone();
    let previewed = async move {
        let preview = planning.engine.transact(false, |view| {
            let policy = in_force(view)?;
            let request = by_aliases(view, &request)?;
            preview(view, &request, &policy)
        });
        preview.await.map(|preview| json!(preview))
    };
    let planned = app.documents.plan(caller.owner(), previewed).await??;
    Ok(Json(with_separation(&app, planned)))
}

async fn onboard(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Extension(once): Extension<RequestKey>,
    body: TextBody,
) -> Result<Response, Problem> {
    let labels = body.labels.clone();
    let read = |body: &TextBody| read_request(&body.text, body.is_json());
    let request = understood(&app, &caller, body, read).await?;
    start(&app, &caller, request, once.start_key(), &labels).await
}

/// Starts an onboarding, or returns the existing one with the same idempotency key.
pub(in crate::http) async fn start(
    app: &ServerState,
    caller: &Caller,
    request: OnboardingRequest,
    once: Option<StartKey>,
    labels: &[String],
) -> Result<Response, Problem> {
    own(caller, request.name.as_str())?;
    let request = app.engine.transact(false, |view| by_aliases(view, &request)).await?;
    let secret = cluster_secret(&request)?;
    let onboarding = Onboarding::new(request, secret.as_ref().map(Token::hash));
    let asked = labels.iter().fold(engine::Request::by(&caller.person()), engine::Request::with_label);
    let asked = StartKey::put(once, traceparent::with_trace_link(asked));
    let started = app.engine.start(onboarding, asked).await?;
    let mut answer = full(app, started.id, StatusCode::ACCEPTED).await?;
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/executions/{}", started.id)) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    if started.replayed {
        mark_replayed(&mut answer);
    } else if let Some(secret) = secret
        && let Ok(value) = HeaderValue::from_str(&secret.reveal())
    {
        answer.headers_mut().insert("tenure-cluster-key", value);
        answer.extensions_mut().insert(ContainsSecret);
    }
    Ok(answer)
}

/// Replaces aliases of the policy by their GPU models.
fn by_aliases(view: &mut View, request: &OnboardingRequest) -> Result<OnboardingRequest, Undecided> {
    let mut named = request.clone();
    named.entitlement.gpu_model = model_named(view, &request.entitlement.gpu_model)?;
    Ok(named)
}

/// Creates the key of a tenant's own cluster; only its hash is passed on.
fn cluster_secret(request: &OnboardingRequest) -> Result<Option<Token>, Problem> {
    match request.tenant.isolation {
        Isolation::DedicatedCluster => {
            let none = |e| Problem::of_action(ActionError::transient("token.no_randomness", e));
            Token::draw().map(Some).map_err(none)
        }
        Isolation::DedicatedNodes | Isolation::SharedSlices => Ok(None),
    }
}

/// Parses the JSON value of an envelope; errors name positions below `prefix`.
pub(in crate::http) fn read_value(value: &Value, prefix: &str) -> Result<OnboardingRequest, Problem> {
    OnboardingRequest::from_json(value).map_err(|invalid| {
        let faults = invalid.findings.iter().map(|finding| Fault {
            pointer: format!("{prefix}/{}", finding.field.replace(['.', '['], "/").replace(']', "")),
            message: format!("{}; {}", finding.problem, finding.remedy),
            line: None,
            column: None,
        });
        Problem::new(ProblemCode::DocumentInvalid, invalid.to_string()).at(faults.collect())
    })
}
