//! `/v1/access` and `/v1/access-policies`: permissions, the policies that grant them, and the history of the policies.

use crate::{
    auth::{
        Caller, Role, User, Verb,
        policy::{AccessPolicies, RequestContext, SHIPPED},
    },
    http::{
        extract::{
            QueryParams,
            page::{ListPage, Paging, document, documents},
        },
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::SharedState,
    types::access::{Explained, Kept, Policies},
};
use axum::{
    Json,
    extract::{Path, State},
};
use program::encoding::rfc3339::format_time;
use schemars::JsonSchema;
use serde::Deserialize;
use std::{net::IpAddr, str::FromStr as _};

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Staff(Verb::ReadUsers);
    vec![
        Route::get(
            "/v1/access",
            read,
            explain,
            doc("explainAccess", "Checks if a user may do an action, and lists the deciding policies.")
                .says::<Explained>(200)
                .may(&[ProblemCode::QueryInvalid, ProblemCode::NotFound]),
        ),
        Route::get(
            "/v1/access-policies",
            read,
            list,
            doc("listAccessPolicies", "Lists the versions of the operator's access policies.")
                .lists::<Kept>(),
        ),
        Route::get(
            "/v1/access-policies/{version}",
            read,
            show,
            doc("showAccessPolicies", "Shows the text of a version of the access policies, or `current`.")
                .says::<Policies>(200),
        ),
    ]
}

fn kept(policies: AccessPolicies, current: &str) -> Kept {
    Kept {
        in_force: policies.version == current,
        since: format_time(policies.since),
        file: policies.file.display().to_string(),
        id: policies.version,
    }
}

async fn list(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<Paging>,
) -> Result<Json<ListPage<Kept>>, Problem> {
    let page = wanted.page()?;
    let (found, next) = documents::<AccessPolicies>(&app, "", &page, |_| true).await?;
    let law = app.access.law();
    Ok(Json(ListPage::new(found.into_iter().map(|one| kept(one, law.version())).collect(), next)))
}

async fn show(
    State(app): State<SharedState>,
    Path(version): Path<String>,
) -> Result<Json<Policies>, Problem> {
    let (law, house) = app.access.now();
    let current = law.version();
    if version == "current" || version == current {
        let since = document::<AccessPolicies>(&app, current).await?.map(|kept| format_time(kept.since));
        let (file, text) = house.unwrap_or_default();
        let file = (!text.is_empty()).then(|| file.display().to_string());
        let shipped = Some(SHIPPED.to_owned());
        return Ok(Json(Policies { id: current.to_owned(), in_force: true, shipped, text, file, since }));
    }
    let found = document::<AccessPolicies>(&app, &version).await?;
    let found = found.ok_or_else(|| Problem::not_found("version of the access policies", &version))?;
    Ok(Json(Policies {
        id: found.version,
        in_force: false,
        // The built-in policies of the program at that time are not stored.
        shipped: None,
        text: found.text,
        file: Some(found.file.display().to_string()),
        since: Some(format_time(found.since)),
    }))
}

/// The caller and the action to check.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Question")]
struct ExplainParams {
    /// A user.
    user: Option<String>,
    /// Instead of a user: roles, separated by commas.
    roles: Option<String>,
    /// With `roles`: the tenant to which the caller is bound.
    tenant: Option<String>,
    /// The action: a verb, such as `hold_store`.
    action: String,
    /// The IP address of the caller.
    from: Option<String>,
    /// True to check the permission for a dry run.
    #[serde(default)]
    plans: bool,
}

async fn explain(
    State(app): State<SharedState>,
    QueryParams(question): QueryParams<ExplainParams>,
) -> Result<Json<Explained>, Problem> {
    let verb = verb(&question.action)?;
    let from = question.from.as_deref().map(address).transpose()?;
    let how = RequestContext { from, at: app.engine.clock().now(), plans: question.plans };
    let who = asked(&app, &question).await?.asking(how);
    let decision = who.decide(verb, who.place());
    Ok(Json(Explained {
        allows: decision.allows,
        why: decision.why(),
        policies: decision.by,
        policies_version: who.law().version().to_owned(),
        action: verb.name().to_owned(),
        roles: who.roles.clone(),
        tenant: who.tenant.clone(),
        may: if decision.allows { Vec::new() } else { who.law().roles(verb) },
    }))
}

async fn asked(app: &SharedState, question: &ExplainParams) -> Result<Caller, Problem> {
    let law = app.access.law();
    match (&question.user, &question.roles) {
        (Some(name), None) if question.tenant.is_none() => {
            let user = document::<User>(app, name).await?;
            let user = user.ok_or_else(|| Problem::not_found("user", name))?;
            Ok(Caller::of(user, law))
        }
        (None, Some(names)) => {
            let roles = names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(role);
            Ok(Caller::new("somebody", roles.collect::<Result<_, _>>()?, question.tenant.clone(), law))
        }
        (Some(_) | None, _) => {
            let detail = "user: send a user, or `roles` with an optional `tenant`";
            Err(Problem::new(ProblemCode::QueryInvalid, detail))
        }
    }
}

fn verb(name: &str) -> Result<Verb, Problem> {
    use strum::VariantArray as _;
    Verb::from_str(name).map_err(|_| {
        let near = engine::nearest(name, Verb::VARIANTS.iter().map(|verb| verb.name()));
        let remedy =
            near.map_or("`tenure access schema` lists them".into(), |near| format!("did you mean {near:?}?"));
        Problem::new(ProblemCode::QueryInvalid, format!("action: there is no action {name:?}; {remedy}"))
    })
}

fn role(name: &str) -> Result<Role, Problem> {
    use strum::VariantArray as _;
    Role::from_str(name).map_err(|_| {
        let known: Vec<_> = Role::VARIANTS.iter().map(|role| role.name()).collect();
        let detail = format!("roles: there is no role {name:?}; use one of {}", known.join(", "));
        Problem::new(ProblemCode::QueryInvalid, detail)
    })
}

fn address(text: &str) -> Result<IpAddr, Problem> {
    text.parse().map_err(|_| {
        Problem::new(
            ProblemCode::QueryInvalid,
            format!("from: {text:?} is not an IP address; write it like 10.0.0.7"),
        )
    })
}
