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
            doc("listAudit", "Lists what was done, oldest first unless `order` says otherwise.")
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
        Route::get(
            "/v1/keys",
            read,
            keys,
            doc("listPublicKeys", "The public keys that verify this server's certificates and audit.")
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
    /// What happened, such as `access.denied`.
    event: Option<String>,
    /// Who did it, by name.
    actor: Option<String>,
    /// What the actor is: `person`, `service` or `engine`.
    kind: Option<String>,
    /// `oldest` first, which is the default, or `newest` first.
    order: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// Which entries are asked for.
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

/// The value of a parameter that takes only some words.
fn choice<T: FromStr>(name: &str, text: Option<&str>, words: &str) -> Result<Option<T>, Problem> {
    let wrong =
        |text: &str| Problem::new(ProblemCode::QueryInvalid, format!("{name}: {text:?} is none of {words}"));
    text.map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

/// In which order entries are listed.
#[derive(Clone, Copy, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "snake_case")]
enum Order {
    Oldest,
    Newest,
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
        // An entry of an earlier version does not say what its actor is; it is sealed as it stands.
        fields.insert("kind".into(), json!(entry.actor_kind()));
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
    let order = choice::<Order>("order", wanted.order.as_deref(), "oldest, newest")?;
    let kind = choice::<ActorKind>("kind", wanted.kind.as_deref(), "person, service, engine")?;
    let ListParams { tenant, from, to, event, actor, .. } = wanted;
    let wanted = Wanted { period: period(from, to)?, event, actor, kind };
    if let Some(chain) = &tenant {
        if !caller.sees(chain) {
            // As in every list, there is nothing of others.
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

/// A page from the oldest entry on, one chain after the other.
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

/// A page from the newest entry back, of all chains together.
async fn newest(
    app: &ServerState,
    chain: Option<&str>,
    page: Page,
    wanted: &Wanted,
) -> Result<Json<ListPage<Value>>, Problem> {
    let wrong =
        |_| Problem::new(ProblemCode::QueryInvalid, "cursor: use the `next` of an earlier page as it is");
    let before = page.after.map(|text| text.parse::<JournalPlace>().map_err(wrong)).transpose()?;
    let store = &**app.engine.store();
    let accepts = |entry: &Entry| wanted.accepts(entry);
    let (found, next) = audit::newest_first(store, chain, before, page.limit, accepts).await?;
    Ok(Json(ListPage::new(found.iter().map(seen).collect(), next.map(|next| next.to_string()))))
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

/// The public key that this server signs with. A verifier compares its id with what the operator says by another way.
async fn keys(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<CheckpointParams>,
) -> Result<Json<ListPage<Value>>, Problem> {
    Page::of(wanted.limit, wanted.cursor.as_deref())?;
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
