//! `/v1/delegations`: delegations of votes.

use crate::{
    auth::{Caller, Delegation, NewDelegation, Role, User, Verb, add_delegation, end_delegation},
    http::{
        extract::{
            JsonBody, QueryParams,
            if_match::{IfMatch, tag, tagged},
            page::{
                ListPage, Page, document,
                scope::{get_visible_with_version, list_visible},
            },
        },
        problem::{Problem, code::ProblemCode},
        resources::reservations::time,
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types::{self, mapping},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use store::Sequence;

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, give) = (Access::Tenant(Verb::ReadApprovals), Access::Tenant(Verb::Delegate));
    vec![
        Route::get(
            "/v1/delegations",
            read,
            list,
            doc("listDelegations", "Lists delegations.").lists::<types::users::Delegation>(),
        ),
        Route::get(
            "/v1/delegations/{id}",
            read,
            show,
            doc("showDelegation", "A delegation.").says::<types::users::Delegation>(200).tagged(),
        ),
        Route::post(
            "/v1/delegations",
            give,
            add,
            doc("delegate", "Delegates votes to another user for a limited time.")
                .says::<types::users::Delegation>(201)
                .located(),
        ),
        Route::delete(
            "/v1/delegations/{id}",
            give,
            end,
            doc("endDelegation", "Ends a delegation; it stays in the history.")
                .nothing()
                .bound(ProblemCode::StaleTag)
                .may(&[ProblemCode::DelegationForeign]),
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wanted")]
struct ListParams {
    from: Option<String>,
    to: Option<String>,
    state: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

fn seen(app: &ServerState, delegation: &Delegation) -> Value {
    let mut value = mapping::thing(delegation, &["since", "until", "created_at"]);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("state".into(), json!(delegation.state(app.engine.clock().now())));
    }
    value
}

async fn list(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(wanted): QueryParams<ListParams>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    if let Some(state) = wanted.state.as_deref().filter(|state| !STATES.contains(state)) {
        let detail = format!("state: {state:?} is not allowed; use {}", STATES.join(", "));
        return Err(Problem::new(ProblemCode::QueryInvalid, detail));
    }
    let now = app.engine.clock().now();
    let is = |wanted: &Option<String>, has: &str| wanted.as_deref().is_none_or(|wanted| wanted == has);
    let of = |one: &Delegation| {
        is(&wanted.from, &one.from) && is(&wanted.to, &one.to) && is(&wanted.state, one.state(now))
    };
    let (found, next) = list_visible::<Delegation>(&app, &caller, "", &page, of).await?;
    Ok(Json(ListPage::new(found.iter().map(|one| seen(&app, one)).collect(), next)))
}

/// The states of a delegation.
const STATES: [&str; 3] = ["planned", "in_force", "over"];

async fn show(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (found, version) = find(&app, &caller, &id).await?;
    Ok(tagged(tag(version), seen(&app, &found)))
}

/// Returns the delegation, if the caller may see it.
async fn find(app: &ServerState, caller: &Caller, id: &str) -> Result<(Delegation, Sequence), Problem> {
    let found = get_visible_with_version::<Delegation>(app, caller, id).await?;
    found.ok_or_else(|| Problem::not_found("delegation", id))
}

/// A requested delegation. Without `from` it is the caller's own; without `since` it starts now.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "New")]
struct DelegationBody {
    from: Option<String>,
    to: String,
    #[serde(default)]
    roles: Vec<String>,
    since: Option<String>,
    until: String,
    reason: String,
}

async fn add(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    JsonBody(new): JsonBody<DelegationBody>,
) -> Result<Response, Problem> {
    let from = new.from.unwrap_or_else(|| caller.name.clone());
    if from != caller.name {
        let user = document::<User>(&app, &from).await?;
        let own = |user: &User| caller.tenant.is_none() || caller.tenant == user.tenant;
        if caller.tenant.is_some() && !user.as_ref().is_some_and(own) {
            let detail = format!("from: {} may not delegate for users of other tenants", caller.name);
            return Err(Problem::new(ProblemCode::ForeignTenant, detail));
        }
        if !caller.roles.contains(&Role::Admin) {
            let detail = format!(
                "from: only {from} or an admin may delegate for {from}; omit `from` to delegate your own votes"
            );
            return Err(Problem::new(ProblemCode::Forbidden, detail));
        }
    }
    let asked = NewDelegation {
        from,
        to: new.to,
        roles: new.roles,
        since: time("since", new.since.as_deref())?,
        until: time("until", Some(&new.until))?.unwrap_or_default(),
        reason: new.reason,
    };
    let made = add_delegation(&app.engine, asked, &caller.name).await?;
    tracing::info!(from = made.from, to = made.to, id = made.id, by = caller.name, "delegated");
    let location = [(header::LOCATION, format!("/v1/delegations/{}", made.id))];
    Ok((StatusCode::CREATED, location, Json(seen(&app, &made))).into_response())
}

async fn end(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    bound: IfMatch,
) -> Result<StatusCode, Problem> {
    find(&app, &caller, &id).await?;
    let end = end_delegation(&app.engine, &id, &caller);
    let ended = bound.bind::<Delegation, _>("the delegation", &id, end).await?;
    let ended = ended.ok_or_else(|| Problem::not_found("delegation", &id))?;
    tracing::info!(from = ended.from, to = ended.to, id, by = caller.name, "delegation ended");
    Ok(StatusCode::NO_CONTENT)
}
