//! `/v1/groups`: groups of users, which can have seats at approvals.

use crate::{
    auth::{Caller, Group, Verb, add_group, change_group, remove_group},
    http::{
        extract::{
            JsonBody, QueryParams,
            if_match::{IfMatch, tag, tagged},
            page::{ListPage, Paging, document_with_version, documents},
        },
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::SharedState,
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
use serde_json::Value;
use std::collections::BTreeSet;

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, manage) = (Access::Staff(Verb::ReadUsers), Access::Staff(Verb::ManageUsers));
    vec![
        Route::get(
            "/v1/groups",
            read,
            list,
            doc("listGroups", "Lists groups of users.").lists::<types::users::Group>(),
        ),
        Route::get(
            "/v1/groups/{name}",
            read,
            show,
            doc("showGroup", "A group.").says::<types::users::Group>(200).tagged(),
        ),
        Route::post(
            "/v1/groups",
            manage,
            add,
            doc("makeGroup", "Creates a group.")
                .says::<types::users::Group>(201)
                .located()
                .tagged()
                .may(&[ProblemCode::GroupExists]),
        ),
        Route::post(
            "/v1/groups/{name}:join",
            manage,
            join,
            doc("joinGroup", "Adds a user to a group.")
                .says::<types::users::Group>(200)
                .tagged()
                .bound(ProblemCode::StaleTag),
        ),
        Route::post(
            "/v1/groups/{name}:leave",
            manage,
            leave,
            doc("leaveGroup", "Removes a user from a group.")
                .says::<types::users::Group>(200)
                .tagged()
                .bound(ProblemCode::StaleTag),
        ),
        Route::delete(
            "/v1/groups/{name}",
            manage,
            remove,
            doc("removeGroup", "Removes a group.").nothing().bound(ProblemCode::StaleTag),
        ),
    ]
}

fn seen(group: &Group) -> Value {
    let mut value = mapping::thing(group, &["created_at"]);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("joined");
    }
    value
}

async fn list(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<Paging>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = wanted.page()?;
    let (groups, next) = documents::<Group>(&app, "", &page, |_| true).await?;
    Ok(Json(ListPage::new(groups.iter().map(seen).collect(), next)))
}

async fn show(State(app): State<SharedState>, Path(name): Path<String>) -> Result<Response, Problem> {
    stands(&app, &name).await
}

/// Returns the present group.
async fn stands(app: &SharedState, name: &str) -> Result<Response, Problem> {
    let found = document_with_version::<Group>(app, name).await?;
    let (group, version) = found.ok_or_else(|| Problem::not_found("group", name))?;
    Ok(tagged(tag(version), seen(&group)))
}

/// A new group.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "New")]
struct GroupBody {
    name: String,
    #[serde(default)]
    members: BTreeSet<String>,
}

async fn add(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    JsonBody(new): JsonBody<GroupBody>,
) -> Result<Response, Problem> {
    let by = caller.act(app.engine.clock().now());
    let group = add_group(&app.engine, &new.name, new.members, &by).await?;
    tracing::info!(group = group.name, by = caller.name, "group created");
    let location = [(header::LOCATION, format!("/v1/groups/{}", group.name))];
    Ok((StatusCode::CREATED, location, stands(&app, &group.name).await?).into_response())
}

/// The user to add or remove.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Who")]
struct MemberBody {
    #[serde(default)]
    user: String,
}

async fn join(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    bound: IfMatch,
    JsonBody(who): JsonBody<MemberBody>,
) -> Result<Response, Problem> {
    change(&app, &caller, (&name, bound), &who, true).await
}

async fn leave(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    bound: IfMatch,
    JsonBody(who): JsonBody<MemberBody>,
) -> Result<Response, Problem> {
    change(&app, &caller, (&name, bound), &who, false).await
}

async fn change(
    app: &SharedState,
    caller: &Caller,
    (name, bound): (&str, IfMatch),
    who: &MemberBody,
    joins: bool,
) -> Result<Response, Problem> {
    let by = caller.act(app.engine.clock().now());
    let change = change_group(&app.engine, name, (&who.user, joins), &by);
    let changed = bound.bind::<Group, _>("the group", name, change).await?;
    let group = changed.ok_or_else(|| Problem::not_found("group", name))?;
    tracing::info!(group = group.name, user = who.user, joins, by = caller.name, "group changed");
    stands(app, name).await
}

async fn remove(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    bound: IfMatch,
) -> Result<StatusCode, Problem> {
    if bound.bind::<Group, _>("the group", &name, remove_group(&app.engine, &name)).await? {
        tracing::info!(group = name, by = caller.name, "group removed");
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::not_found("group", &name))
}
