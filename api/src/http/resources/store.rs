//! `/v1/store`: the state of the store, and its hold.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            JsonBody, QueryParams,
            page::{ListPage, Paging},
        },
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types::{
        Time,
        operations::{ClockConfirmed, PendingWork, Store, StoreHeld},
    },
};
use axum::{Extension, Json, extract::State};
use engine::{Entity, PendingTask};
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
            doc("showStore", "Shows the state of the store and its hold.").says::<Store>(200),
        ),
        Route::get(
            "/v1/store/pending",
            Access::Staff(Verb::ReadFleet),
            pending,
            doc("listPending", "Lists the tasks that wait in the store.")
                .lists::<PendingWork>(),
        ),
        Route::post(
            "/v1/store:hold",
            Access::Staff(Verb::HoldStore),
            hold,
            doc("holdStore", "Holds the store: it performs no tasks.")
                .says::<Store>(200)
                .may(&[ProblemCode::ReasonMissing]),
        ),
        Route::post(
            "/v1/store:release",
            Access::Staff(Verb::HoldStore),
            release,
            doc("releaseStore", "Releases the hold of the store that the caller has read.")
                .says::<Store>(200)
                .may(&[ProblemCode::ReasonMissing, ProblemCode::StoreFree]),
        ),
        Route::post(
            "/v1/clock:confirm",
            Access::Staff(Verb::HoldStore),
            confirm_clock,
            doc(
                "confirmClock",
                "Confirms that the clock is right after a jump: retention, contract ends and approval deadlines continue.",
            )
            .says::<ClockConfirmed>(200)
            .may(&[ProblemCode::ReasonMissing]),
        ),
    ]
}

/// The start or end of a hold, with its author. Recorded before it takes effect.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoreHoldEvent {
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

impl Entity for StoreHoldEvent {
    const COLLECTION: &'static str = "store_holds";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        format!("{:020}", self.since.0)
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Begin")]
struct HoldBody {
    reason: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "End")]
struct ReleaseBody {
    /// The start of the hold from `GET /v1/store`, so that only a hold that the caller has read is released.
    #[schemars(with = "Time")]
    since: String,
    reason: String,
}

fn seen(hold: &Hold) -> StoreHeld {
    StoreHeld { since: format_time(hold.since), why: hold.why.clone() }
}

async fn show(State(app): State<SharedState>) -> Result<Json<Store>, Problem> {
    let health = app.engine.store().health().await;
    Ok(Json(Store {
        kind: if app.storage.is_shared() { "postgres" } else { "embedded" },
        sequence: health.sequence.0,
        tasks: health.tasks,
        disk_bytes: health.disk_bytes,
        held: app.engine.store().current_hold().await?.as_ref().map(seen),
    }))
}

fn awaited(one: &PendingTask) -> Value {
    let mut value = json!(one.work);
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

/// Lists waiting tasks, by execution. Changes nothing.
async fn pending(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<Paging>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = wanted.page()?;
    let after = page.after.as_deref().and_then(|text| text.parse().ok());
    let found = app.engine.pending_tasks(after, page.limit).await?;
    Ok(Json(ListPage::new(found.items.iter().map(awaited).collect(), found.next.map(|id| id.to_string()))))
}

fn reason(text: &str) -> Result<(), Problem> {
    if text.trim().is_empty() {
        return Err(Problem::new(ProblemCode::ReasonMissing, "reason: give a reason for the audit"));
    }
    Ok(())
}

/// Records the event, with the caller as its author.
async fn record(app: &ServerState, held: &StoreHoldEvent) -> Result<(), Problem> {
    Ok(app.engine.transact(true, |view| view.put(held)).await?)
}

async fn hold(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    JsonBody(begin): JsonBody<HoldBody>,
) -> Result<Json<Store>, Problem> {
    reason(&begin.reason)?;
    let store = app.engine.store();
    if store.current_hold().await?.is_none() {
        let hold =
            Hold { since: app.engine.clock().now(), why: format!("{}: {}", caller.name, begin.reason) };
        let held = StoreHoldEvent {
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

async fn confirm_clock(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    JsonBody(begin): JsonBody<HoldBody>,
) -> Result<Json<ClockConfirmed>, Problem> {
    reason(&begin.reason)?;
    let jump = app.engine.confirm_clock().await?;
    if let Some(jump) = jump {
        let (from, to) = (format_time(jump.from), format_time(jump.to));
        tracing::warn!(from, to, by = caller.name, reason = begin.reason, "the clock was confirmed");
        app.freed.notify_one();
    }
    Ok(Json(ClockConfirmed {
        confirmed: jump.is_some(),
        from: jump.map(|jump| format_time(jump.from)),
        to: jump.map(|jump| format_time(jump.to)),
    }))
}

async fn release(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    JsonBody(end): JsonBody<ReleaseBody>,
) -> Result<Json<Store>, Problem> {
    reason(&end.reason)?;
    if chrono::DateTime::parse_from_rfc3339(&end.since).is_err() {
        let detail = format!("since: {:?} is not a timestamp; send the one from GET /v1/store", end.since);
        return Err(Problem::new(ProblemCode::DocumentInvalid, detail));
    }
    let Some(hold) = app.engine.store().current_hold().await? else {
        return Err(Problem::new(ProblemCode::StoreFree, "the store is not on hold"));
    };
    if format_time(hold.since) != end.since {
        let detail = format!("since: the store is on hold since {}; check it again", format_time(hold.since));
        return Err(Problem::new(ProblemCode::StoreFree, detail));
    }
    let held = app
        .engine
        .store()
        .document(&store::Key::new(StoreHoldEvent::COLLECTION, format!("{:020}", hold.since.0)))
        .await?;
    let held_by =
        held.and_then(|document| serde_json::from_slice::<StoreHoldEvent>(&document.body).ok()?.held_by);
    let held = StoreHoldEvent {
        since: hold.since,
        why: hold.why,
        held_by,
        released_by: Some(caller.name),
        released_at: Some(app.engine.clock().now()),
        reason: Some(end.reason),
    };
    record(&app, &held).await?;
    app.engine.unhold(hold.since).await?;
    tracing::warn!(since = %format_time(hold.since), by = held.released_by, "the hold of the store was released");
    app.freed.notify_one();
    show(State(app)).await
}
