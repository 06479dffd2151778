//! `/v1/policies`: the platform policy, its versions, and publication of a new one.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            QueryParams, TextBody,
            if_match::{IfMatch, tagged},
            page::{ListPage, Paging, document, documents, scope::get_visible},
            understood,
        },
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types,
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    response::Response,
};
use engine::View;
use program::encoding::rfc3339::format_time;
use serde_json::{Value, json};
use store::Filter;
use workflows::{
    policy::{PlatformPolicy, PolicyChange, PublishedPolicy, Subject, explain, in_force, publish},
    tenancy::{Entitlement, Tenant},
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, put) = (Access::Staff(Verb::ReadPolicies), Access::Staff(Verb::PublishPolicy));
    vec![
        Route::get(
            "/v1/policies",
            read,
            list,
            doc("listPolicies", "Lists the publications of the policy.")
                .lists::<types::compliance::PolicyRow>(),
        ),
        Route::get(
            "/v1/policies/{id}",
            read,
            show,
            doc("showPolicy", "Shows the text of a policy version, by number or `current`.")
                .says::<types::compliance::Policy>(200)
                .tagged(),
        ),
        Route::post(
            "/v1/policies",
            put,
            submit,
            doc("publishPolicy", "Publishes a policy; with `If-Match`, only if that version is current.")
                .takes::<types::stored_documents::PolicyDocument>()
                .says::<types::stored_documents::PolicyPublished>(200)
                .tagged()
                .bound(ProblemCode::StaleTag),
        ),
        Route::post(
            "/v1/policies:plan",
            put,
            plan,
            doc("planPolicy", "Previews the effects of publishing a policy. Changes nothing.")
                .takes::<types::stored_documents::PolicyDocument>()
                .says::<types::stored_documents::PolicyPublished>(200),
        ),
        Route::get(
            "/v1/tenants/{id}/policy",
            Access::Tenant(Verb::ReadTenants),
            of_tenant,
            doc("showTenantPolicy", "Lists every rule for a tenant with its source.")
                .says::<types::stored_documents::TenantRules>(200),
        ),
    ]
}

/// Lists the publications of the policy, each with the version that it replaced, its author and time.
async fn list(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<Paging>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = wanted.page()?;
    let (changes, next) = documents::<PolicyChange>(&app, "", &page, |_| true).await?;
    let row = |change: &PolicyChange| {
        json!({
            "id": change.number,
            "version": change.to.version,
            "digest": change.to.digest,
            "before": change.from.version,
            "author": change.by,
            "effective_from": format_time(change.at),
        })
    };
    Ok(Json(ListPage::new(changes.iter().map(row).collect(), next)))
}

/// Returns a version by its number, or `current`, with its text.
async fn show(State(app): State<SharedState>, Path(id): Path<String>) -> Result<Response, Problem> {
    let ruling = app.engine.transact(false, in_force).await?;
    let findings: Vec<String> = ruling.broken_promises().iter().map(ToString::to_string).collect();
    let current = ruling.reference;
    let version = if id == "current" { Some(current.version) } else { id.parse::<u32>().ok() };
    let none = || Problem::not_found("policy", &id);
    let version = version.ok_or_else(none)?;
    let key = format!("{}@{version}", PlatformPolicy::NAME);
    let published = document::<PublishedPolicy>(&app, &key).await?;
    let in_force = current.version == version;
    let findings = Some(findings).filter(|found| in_force && !found.is_empty());
    let with_findings = |mut body: Value| {
        if let (Some(findings), Some(fields)) = (&findings, body.as_object_mut()) {
            fields.insert("findings".into(), json!(findings));
        }
        body
    };
    if let Some(published) = published {
        let body = json!({
            "id": version,
            "digest": published.reference.digest,
            "author": published.author,
            "published_at": format_time(published.at),
            "in_force": in_force,
            "text": published.text,
        });
        return Ok(tagged(tag_of(version), with_findings(body)));
    }
    let text = PlatformPolicy::built_in_text(version).ok_or_else(none)?;
    let body = json!({ "id": version, "author": "built in", "in_force": in_force, "text": text });
    Ok(tagged(tag_of(version), with_findings(body)))
}

/// Returns the tag of a version. The text of a version never changes; `If-Match` compares the current version.
fn tag_of(version: u32) -> String {
    format!("\"{version}\"")
}

async fn submit(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    bound: IfMatch,
    body: TextBody,
) -> Result<Response, Problem> {
    let stands = |view: &mut View| Ok(Some(tag_of(in_force(view)?.reference.version)));
    let put = put(&app, &caller, body, true);
    let answer = bound.bind_to("request.stale_tag", "the policy in force", stands, put).await?;
    let version = answer.pointer("/reference/version").and_then(Value::as_u64).unwrap_or_default();
    tracing::info!(by = caller.name, policy = version, "policy published");
    Ok(tagged(format!("\"{version}\""), answer))
}

/// Dry run of a publication.
async fn plan(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    body: TextBody,
) -> Result<Json<Value>, Problem> {
    put(&app, &caller, body, false).await.map(Json)
}

async fn put(app: &ServerState, caller: &Caller, body: TextBody, keep: bool) -> Result<Value, Problem> {
    let checked = |body: &TextBody| match PlatformPolicy::from_yaml(&body.text) {
        Ok(_) => Ok(body.text.clone()),
        Err(invalid) => Err(Problem::invalid(&invalid)),
    };
    let text = understood(app, caller, body, checked).await?;
    let published = app.engine.transact(keep, |view| publish(view, &text, &caller.name)).await?;
    let open = app.engine.list(&Filter { open: Some(true), ..Filter::default() }, None, 1_000).await?;
    let untouched: Vec<_> = open
        .items
        .iter()
        .map(|record| {
            json!({
                "id": record.id.to_string(),
                "workflow": record.workflow,
                "tenant": record.tenant,
                "state": record.state,
            })
        })
        .collect();
    let mut answer = json!(published);
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("published".into(), json!(keep));
        fields.insert("untouched".into(), json!(untouched));
        fields.insert("untouched_complete".into(), json!(open.next.is_none()));
    }
    Ok(answer)
}

/// Lists every rule for a tenant with its source.
async fn of_tenant(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let none = || Problem::not_found("tenant", &id);
    let tenant = get_visible::<Tenant>(&app, &caller, &id).await?.ok_or_else(none)?;
    let bought = get_visible::<Entitlement>(&app, &caller, &id).await?.ok_or_else(none)?;
    let policy = app.engine.transact(false, in_force).await?;
    let rules = explain(&Subject::from_tenant(&tenant, &bought), &policy);
    Ok(Json(
        json!({ "tenant": id, "policy": policy.reference, "decided_under": tenant.policy, "rules": rules }),
    ))
}
