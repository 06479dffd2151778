//! `/v1/audit`: the sealed audit, its signed checkpoints, and an export that verifies offline.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            QueryParams,
            page::{ListPage, Page, Paging},
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
use std::str::FromStr;
use workflows::{
    audit::{self, ActorKind, Entry, JournalPlace, PLATFORM, Period},
    signing::{KeyFile, Moment},
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Tenant(Verb::ReadAudit);
    vec![
        Route::get(
            "/v1/audit",
            read,
            list,
            doc("listAudit", "Lists audit entries, oldest first unless `order` is `newest`.")
                .lists::<types::compliance::AuditEntry>()
                .may(&[ProblemCode::NotFound]),
        ),
        Route::get(
            "/v1/audit/checkpoints",
            read,
            checkpoints,
            doc("listCheckpoints", "Lists the signed checkpoints of the audit, to be stored elsewhere.")
                .lists::<types::compliance::SignedCheckpoint>(),
        ),
        Route::get(
            "/v1/audit/export",
            read,
            export,
            doc("exportAudit", "Exports the audit of a tenant as a file that verifies offline.")
                .file(200, "application/jsonl")
                .may(&[ProblemCode::NotFound, ProblemCode::DocumentInvalid]),
        ),
        Route::get(
            "/v1/keys",
            read,
            keys,
            doc(
                "listPublicKeys",
                "Lists the public keys that verify the certificates and audit of this server.",
            )
            .lists::<types::compliance::PublicKeyRow>(),
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
    /// The event, such as `access.denied`.
    event: Option<String>,
    /// The name of the actor.
    actor: Option<String>,
    /// The type of the actor: `person`, `service` or `engine`.
    kind: Option<String>,
    /// `oldest` (default) or `newest` first.
    order: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// The requested entries.
struct Wanted {
    period: Period,
    event: Option<String>,
    actor: Option<String>,
    kind: Option<ActorKind>,
}

impl Wanted {
    fn accepts(&self, entry: &Entry) -> bool {
        self.period.contains(entry.at)
            && self.event.as_ref().is_none_or(|event| *event == entry.event)
            && self.actor.as_ref().is_none_or(|actor| *actor == entry.actor)
            && self.kind.is_none_or(|kind| entry.actor_kind() == Some(kind))
    }
}

/// Parses a parameter with a fixed set of values.
fn choice<T: FromStr>(name: &str, text: Option<&str>, words: &str) -> Result<Option<T>, Problem> {
    let wrong = |text: &str| {
        Problem::new(ProblemCode::QueryInvalid, format!("{name}: {text:?} is not allowed; use {words}"))
    };
    text.map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

/// The order of a list of entries.
#[derive(Clone, Copy, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "snake_case")]
enum Order {
    Oldest,
    Newest,
}

/// Parses the requested period.
fn period(from: Option<String>, to: Option<String>) -> Result<Period, Problem> {
    let moment = |name: &str, text: Option<String>| {
        let wrong = |why: String| Problem::new(ProblemCode::QueryInvalid, format!("{name}: {why}"));
        text.map(|text| text.parse::<Moment>().map_err(wrong)).transpose()
    };
    Ok(Period { from: moment("from", from)?, to: moment("to", to)? })
}

/// Returns the entry as shown.
fn seen(entry: &Entry) -> Value {
    let mut value = json!(entry);
    if let Some(fields) = value.as_object_mut() {
        let chain = if entry.tenant.is_empty() { PLATFORM } else { &entry.tenant };
        fields.insert("id".into(), json!(format!("{chain}/{}", entry.number)));
        fields.insert("digest".into(), json!(entry.digest()));
        // Entries of earlier versions have no type of actor. The sealed entry is not changed.
        fields.insert("kind".into(), json!(entry.actor_kind()));
    }
    value
}

/// Lists the tenant's entries in order; without a tenant those of all tenants, one after the other.
async fn list(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(wanted): QueryParams<ListParams>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let order = choice::<Order>("order", wanted.order.as_deref(), "oldest, newest")?;
    let kind = choice::<ActorKind>("kind", wanted.kind.as_deref(), "person, service, engine")?;
    let ListParams { tenant, from, to, event, actor, .. } = wanted;
    let wanted = Wanted { period: period(from, to)?, event, actor, kind };
    if let Some(chain) = &tenant {
        if !caller.sees(chain) {
            // Like every list, this one has no entries of other tenants.
            return Ok(Json(ListPage::new(Vec::new(), None)));
        }
        known(&app, chain).await?;
    }
    let chain = caller.tenant.or(tenant);
    match order.unwrap_or(Order::Oldest) {
        Order::Oldest => oldest(&app, chain.as_deref(), page, &wanted).await,
        Order::Newest => newest(&app, chain.as_deref(), page, &wanted).await,
    }
}

/// Returns a page in ascending order, one chain after the other.
async fn oldest(
    app: &ServerState,
    chain: Option<&str>,
    page: Page,
    wanted: &Wanted,
) -> Result<Json<ListPage<Value>>, Problem> {
    let (mut items, mut after) = (Vec::new(), page.after);
    loop {
        let store = app.engine.store();
        let found = audit::entries(&**store, chain, after.as_deref(), page.limit).await?;
        let is_last = found.next.is_none();
        let last = found.items.len();
        for (place, entry) in (1..).zip(found.items) {
            after = Some(engine::Entity::id(&entry));
            if wanted.accepts(&entry) {
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

/// Returns a page in descending order, all chains merged.
async fn newest(
    app: &ServerState,
    chain: Option<&str>,
    page: Page,
    wanted: &Wanted,
) -> Result<Json<ListPage<Value>>, Problem> {
    let wrong =
        |_| Problem::new(ProblemCode::QueryInvalid, "cursor: use the unchanged `next` of a previous page");
    let before = page.after.map(|text| text.parse::<JournalPlace>().map_err(wrong)).transpose()?;
    let store = &**app.engine.store();
    let accepts = |entry: &Entry| wanted.accepts(entry);
    let (found, next) = audit::newest_first(store, chain, before, page.limit, accepts).await?;
    Ok(Json(ListPage::new(found.iter().map(seen).collect(), next.map(|next| next.to_string()))))
}

/// Lists the signed checkpoints in order. They contain no tenant names.
async fn checkpoints(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<Paging>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = wanted.page()?;
    let wrong =
        |_| Problem::new(ProblemCode::QueryInvalid, "cursor: use the unchanged `next` of a previous page");
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

/// Exports the audit of a tenant, or of the platform without a tenant.
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

/// Rejects a tenant without sealed entries.
async fn known(app: &ServerState, chain: &str) -> Result<(), Problem> {
    app.auditor.catch_up().await?;
    let head = audit::head(&**app.engine.store(), chain).await?;
    match head {
        None if chain != PLATFORM => Err(Problem::not_found("audit of tenant", chain)),
        Some(_) | None => Ok(()),
    }
}

/// Returns the public key of this server. Verifiers compare its id with one that they got from the operator in another way.
async fn keys(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<Paging>,
) -> Result<Json<ListPage<Value>>, Problem> {
    wanted.page()?;
    let path = app.config.data.join(KeyFile::NAME);
    let read = tokio::task::spawn_blocking(move || KeyFile::new(path).load_or_create()).await;
    let unreadable = |why: String| Problem::new(ProblemCode::Unreadable, format!("the signing key: {why}"));
    let key =
        read.map_err(|died| unreadable(died.to_string()))?.map_err(|why| unreadable(why.to_string()))?;
    let key = key.public_key();
    let item = json!({
        "id": key.id(), "algorithm": "ed25519", "pem": key.to_pem(), "signs": ["audit", "certificates"],
    });
    Ok(Json(ListPage::new(vec![item], None)))
}
