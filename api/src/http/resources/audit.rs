//! `/v1/audit`: who did what, sealed; its signed checkpoints, and a file of it that verifies without a server.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            QueryParams,
            page::{ListPage, Page},
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
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use workflows::{
    audit::{self, Entry, PLATFORM, Period},
    signing::Moment,
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Tenant(Verb::ReadAudit);
    vec![
        Route::get(
            "/v1/audit",
            read,
            list,
            doc("listAudit", "Lists what was done, oldest first.")
                .lists::<types::compliance::AuditEntry>()
                .may(&[ProblemCode::NotFound]),
        ),
        Route::get(
            "/v1/audit/checkpoints",
            read,
            checkpoints,
            doc("listCheckpoints", "Lists the signed heads of the audit, to be kept elsewhere.")
                .lists::<types::compliance::SignedCheckpoint>(),
        ),
        Route::get(
            "/v1/audit/export",
            read,
            export,
            doc("exportAudit", "A file of one tenant's audit that verifies offline.")
                .file(200, "application/jsonl")
                .may(&[ProblemCode::NotFound, ProblemCode::DocumentInvalid]),
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wanted")]
struct ListParams {
    tenant: Option<String>,
    from: Option<String>,
    to: Option<String>,
    /// What happened, such as `access.denied`.
    event: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// The part of an audit that a request names.
fn period(from: Option<String>, to: Option<String>) -> Result<Period, Problem> {
    let moment = |name: &str, text: Option<String>| {
        let wrong = |why: String| Problem::new(ProblemCode::QueryInvalid, format!("{name}: {why}"));
        text.map(|text| text.parse::<Moment>().map_err(wrong)).transpose()
    };
    Ok(Period { from: moment("from", from)?, to: moment("to", to)? })
}

/// The entry for reading.
fn seen(entry: &Entry) -> Value {
    let mut value = json!(entry);
    if let Some(fields) = value.as_object_mut() {
        let chain = if entry.tenant.is_empty() { PLATFORM } else { &entry.tenant };
        fields.insert("id".into(), json!(format!("{chain}/{}", entry.number)));
        fields.insert("digest".into(), json!(entry.digest()));
    }
    value
}

/// The tenant's entries in order; without a tenant those of all, one tenant after the other.
async fn list(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(wanted): QueryParams<ListParams>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let period = period(wanted.from, wanted.to)?;
    if let Some(chain) = &wanted.tenant {
        if !caller.sees(chain) {
            // As in every list, there is nothing of others.
            return Ok(Json(ListPage::new(Vec::new(), None)));
        }
        known(&app, chain).await?;
    }
    let chain = caller.tenant.or(wanted.tenant);
    let (mut items, mut after) = (Vec::new(), page.after);
    loop {
        let store = app.engine.store();
        let found = audit::entries(&**store, chain.as_deref(), after.as_deref(), page.limit).await?;
        let is_last = found.next.is_none();
        let last = found.items.len();
        for (place, entry) in (1..).zip(found.items) {
            after = Some(engine::Entity::id(&entry));
            if period.contains(entry.at) && wanted.event.as_ref().is_none_or(|event| *event == entry.event) {
                items.push(seen(&entry));
                if items.len() == page.limit {
                    return Ok(Json(ListPage::new(items, after.filter(|_| !is_last || place < last))));
                }
            }
        }
        if is_last {
            return Ok(Json(ListPage::new(items, None)));
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Numbered")]
struct CheckpointParams {
    limit: Option<usize>,
    cursor: Option<String>,
}

/// The signed checkpoints in order: to be kept elsewhere. They name no tenant.
async fn checkpoints(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<CheckpointParams>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let wrong =
        |_| Problem::new(ProblemCode::QueryInvalid, "cursor: use the `next` of an earlier page as it is");
    let after = page.after.map(|text| text.parse().map_err(wrong)).transpose()?;
    let found = audit::checkpoints(&**app.engine.store(), after, page.limit).await?;
    let seen = |signed: &audit::SealedCheckpoint| {
        let mut value = json!(signed);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("digest".into(), json!(signed.checkpoint.digest()));
        }
        value
    };
    Ok(Json(ListPage::new(found.items.iter().map(seen).collect(), found.next.map(|next| next.to_string()))))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Part")]
struct ExportParams {
    tenant: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

/// The file of one tenant's audit; without a tenant that of the platform's own.
async fn export(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(part): QueryParams<ExportParams>,
) -> Result<Response, Problem> {
    let period = period(part.from, part.to)?;
    let chain = part.tenant.or_else(|| caller.tenant.clone()).unwrap_or_else(|| PLATFORM.into());
    if !caller.sees(&chain) {
        return Err(Problem::not_found("audit of tenant", &chain));
    }
    known(&app, &chain).await?;
    let file = audit::export(&app.auditor, &chain, period).await?;
    Ok(([(header::CONTENT_TYPE, "application/jsonl")], file).into_response())
}

/// Whether anything was ever sealed of a tenant.
async fn known(app: &ServerState, chain: &str) -> Result<(), Problem> {
    app.auditor.catch_up().await?;
    let head = audit::head(&**app.engine.store(), chain).await?;
    match head {
        None if chain != PLATFORM => Err(Problem::not_found("audit of tenant", chain)),
        Some(_) | None => Ok(()),
    }
}
