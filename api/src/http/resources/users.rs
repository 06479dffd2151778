//! `/v1/users`: users of the service. The request that creates a token shows it once.

use crate::{
    auth::{Caller, NewUser, Role, User, Verb, add_user, remove_user},
    http::{
        extract::{
            JsonBody, QueryParams,
            if_match::{IfMatch, tag, tagged},
            page::{ListPage, Paging, document_with_version, documents, scope::get_visible},
        },
        middleware::idempotency::ContainsSecret,
        problem::{Problem, code::ProblemCode},
        resources::{enrolments, tokens},
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
use serde_json::Value;
use workflows::tenancy::Tenant;

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, manage) = (Access::Staff(Verb::ReadUsers), Access::Staff(Verb::ManageUsers));
    vec![
        Route::get("/v1/users", read, list, doc("listUsers", "Lists users.").lists::<types::users::User>()),
        Route::get(
            "/v1/users/{name}",
            read,
            show,
            doc("showUser", "A user.").says::<types::users::User>(200).tagged(),
        ),
        Route::post(
            "/v1/users",
            manage,
            add,
            doc("addUser", "Adds a user, and shows their token once.")
                .says::<types::users::UserMade>(201)
                .located()
                .may(&[ProblemCode::UserExists]),
        ),
        tokens::list(read),
        tokens::issue(manage),
        tokens::rotate(manage),
        tokens::remove(manage),
        enrolments::enrol(manage),
        enrolments::claim(),
        Route::delete(
            "/v1/users/{name}",
            manage,
            remove,
            doc("removeUser", "Removes a user.").nothing().bound(ProblemCode::StaleTag),
        ),
    ]
}

/// Returns a user without fields about tokens.
fn seen(user: &User) -> Value {
    let mut value = mapping::thing(user, &["created_at", "claimed_at"]);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("token");
        fields.remove("tokens");
        fields.remove("enrolment");
        fields.remove("controlled_by");
    }
    value
}

async fn list(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<Paging>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = wanted.page()?;
    let (users, next) = documents::<User>(&app, "", &page, |_| true).await?;
    Ok(Json(ListPage::new(users.iter().map(seen).collect(), next)))
}

async fn show(State(app): State<SharedState>, Path(name): Path<String>) -> Result<Response, Problem> {
    let found = document_with_version::<User>(&app, &name).await?;
    let (user, version) = found.ok_or_else(|| Problem::not_found("user", &name))?;
    Ok(tagged(tag(version), seen(&user)))
}

async fn add(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    JsonBody(new): JsonBody<NewUser>,
) -> Result<Response, Problem> {
    let by = caller.act(app.engine.clock().now());
    let (user, token) = add_user(&app.engine, new, &by).await?;
    tracing::info!(user = user.name, by = caller.name, "user added");
    let mut body = seen(&user);
    let unknown = match &user.tenant {
        Some(tenant) => get_visible::<Tenant>(&app, &caller, tenant).await?.is_none().then_some(tenant),
        None => None,
    };
    if let Some(fields) = body.as_object_mut() {
        fields.insert("token".into(), Value::String(token.reveal()));
        if let Some(tenant) = unknown {
            let warning =
                format!("tenant {tenant} does not exist yet: {} sees nothing until it does", user.name);
            fields.insert("warning".into(), Value::String(warning));
        } else if user.tenant.is_none() && user.roles.contains(&Role::TenantOwner) {
            let warning = format!("no tenant was given: {} acts for every tenant", user.name);
            fields.insert("warning".into(), Value::String(warning));
        }
    }
    let location = [(header::LOCATION, format!("/v1/users/{}", user.name))];
    let mut answer = (StatusCode::CREATED, location, Json(body)).into_response();
    answer.extensions_mut().insert(ContainsSecret);
    Ok(answer)
}

async fn remove(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    bound: IfMatch,
) -> Result<StatusCode, Problem> {
    if bound
        .bind::<User, _>("the user", &name, remove_user(&app.engine, &name, app.provider.is_some()))
        .await?
    {
        tracing::info!(user = name, by = caller.name, "user removed");
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::not_found("user", &name))
}
