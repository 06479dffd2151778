//! `/v1/store`: how the store is, whether it is held, what it would perform, and letting it go.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            Asked, Sent,
            page::{Listed, Page},
        },
        problem::{Problem, code::Code},
        route::{Access, Route},
        route_doc::told,
    },
    state::{App, Shared},
    types::{
        Time,
        operations::{PendingWork, Store, StoreHeld},
    },
};
use axum::{Extension, Json, extract::State};
use engine::{Entity, Pending};
use program::encoding::rfc3339::format_time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Hold, Timestamp};

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/v1/store",
            Access::Staff(Verb::ReadFleet),
            show,
            told("showStore", "How the store is, and whether it is held.").says::<Store>(200),
        ),
        Route::get(
            "/v1/store/pending",
            Access::Staff(Verb::ReadFleet),
            pending,
            told("listPending", "Lists what waits in the store and would be performed.")
                .lists::<PendingWork>(),
        ),
        Route::post(
            "/v1/store:hold",
            Access::Staff(Verb::HoldStore),
            hold,
            told("holdStore", "Lets the store perform nothing.")
                .says::<Store>(200)
                .may(&[Code::ReasonMissing]),
        ),
        Route::post(
            "/v1/store:release",
            Access::Staff(Verb::HoldStore),
            release,
            told("releaseStore", "Lets the store go, from the hold that was looked at.")
                .says::<Store>(200)
                .may(&[Code::ReasonMissing, Code::StoreFree]),
        ),
    ]
}

/// A hold of the store, and who began or ended it. On record before it takes effect.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Held {
    since: Timestamp,
    why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    released_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    released_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Entity for Held {
    const COLLECTION: &'static str = "store_holds";

    fn id(&self) -> String {
        format!("{:020}", self.since.0)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Begin {
    reason: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct End {
    /// The moment the hold began, as `GET /v1/store` shows it: so that only a hold that was looked at is ended.
    #[schemars(with = "Time")]
    since: String,
    reason: String,
}

fn seen(hold: &Hold) -> StoreHeld {
    StoreHeld { since: format_time(hold.since), why: hold.why.clone() }
}

async fn show(State(app): State<Shared>) -> Result<Json<Store>, Problem> {
    let health = app.engine.store().health().await;
    Ok(Json(Store {
        kind: if app.storage.is_shared() { "postgres" } else { "embedded" },
        sequence: health.sequence.0,
        tasks: health.tasks,
        disk_bytes: health.disk_bytes,
        held: app.engine.store().held().await?.as_ref().map(seen),
    }))
}

fn awaited(one: &Pending) -> Value {
    let mut value = json!(one.what);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("execution".into(), json!(one.record.id.to_string()));
        fields.insert("workflow".into(), json!(one.record.workflow));
        fields.insert("tenant".into(), json!(one.record.tenant));
        fields.insert("subject".into(), json!(one.record.subject));
        fields.insert("state".into(), json!(one.record.state));
        fields.insert("slot".into(), json!(one.slot));
        fields.insert("due".into(), json!(format_time(one.due)));
    }
    value
}

/// What waits in the store and would be performed, by execution. Changes nothing.
async fn pending(
    State(app): State<Shared>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Listed<Value>>, Problem> {
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let after = page.after.as_deref().and_then(|text| text.parse().ok());
    let found = app.engine.pending(after, page.limit).await?;
    Ok(Json(Listed::new(found.items.iter().map(awaited).collect(), found.next.map(|id| id.to_string()))))
}

fn reason(text: &str) -> Result<(), Problem> {
    if text.trim().is_empty() {
        return Err(Problem::new(Code::ReasonMissing, "reason: say why, for the audit"));
    }
    Ok(())
}

/// Puts it on record, on behalf of whoever asked.
async fn record(app: &App, held: &Held) -> Result<(), Problem> {
    Ok(app.engine.ledger(true, |view| view.put(held)).await?)
}

async fn hold(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Sent(begin): Sent<Begin>,
) -> Result<Json<Store>, Problem> {
    reason(&begin.reason)?;
    let store = app.engine.store();
    if store.held().await?.is_none() {
        let hold =
            Hold { since: app.engine.clock().now(), why: format!("{}: {}", caller.name, begin.reason) };
        let held = Held {
            since: hold.since,
            why: begin.reason,
            held_by: Some(caller.name),
            released_by: None,
            released_at: None,
            reason: None,
        };
        record(&app, &held).await?;
        store.hold(hold).await?;
    }
    show(State(app)).await
}

async fn release(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Sent(end): Sent<End>,
) -> Result<Json<Store>, Problem> {
    reason(&end.reason)?;
    if chrono::DateTime::parse_from_rfc3339(&end.since).is_err() {
        let detail = format!("since: {:?} is no moment; send the one that GET /v1/store shows", end.since);
        return Err(Problem::new(Code::DocumentInvalid, detail));
    }
    let Some(hold) = app.engine.store().held().await? else {
        return Err(Problem::new(Code::StoreFree, "the store is not held"));
    };
    if format_time(hold.since) != end.since {
        let detail = format!("since: the store is held since {}; look at it again", format_time(hold.since));
        return Err(Problem::new(Code::StoreFree, detail));
    }
    let held = app
        .engine
        .store()
        .document(&store::Key::new(Held::COLLECTION, format!("{:020}", hold.since.0)))
        .await?;
    let held_by = held.and_then(|document| serde_json::from_slice::<Held>(&document.body).ok()?.held_by);
    let held = Held {
        since: hold.since,
        why: hold.why,
        held_by,
        released_by: Some(caller.name),
        released_at: Some(app.engine.clock().now()),
        reason: Some(end.reason),
    };
    record(&app, &held).await?;
    app.engine.unhold(hold.since).await?;
    tracing::warn!(since = %format_time(hold.since), by = held.released_by, "the store was let go");
    app.freed.notify_one();
    show(State(app)).await
}
