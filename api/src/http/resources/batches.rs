//! `/v1/executions:batch` and `/v1/batches`: one command to many executions.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            JsonBody, QueryParams,
            if_match::{IfMatch, tag, tagged},
            page::{ListPage, Paging},
        },
        middleware::guard::require,
        problem::{Problem, code::ProblemCode},
        resources::search::invalid_query,
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types::{mapping, operations::Previewed},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use engine::{
    BATCH_CAP, BATCH_LIMIT, BATCH_RATE, BATCH_RATE_LIMIT, Batch, BatchError, BatchItem, BatchPreview,
    BatchRequest, BatchVerb,
};
use program::encoding::rfc3339::format_time;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use store::{Sequence, Timestamp};

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Tenant(Verb::ReadExecutions);
    // Cancel is the verb with the most roles. The other verbs are checked below.
    let change = Access::Tenant(Verb::Cancel);
    vec![
        Route::post(
            "/v1/executions:batch",
            change,
            begin,
            doc(
                "beginBatch",
                "Sends a command to all executions that match a filter. Requires a preview with dry_run first (200).",
            )
            .says::<crate::types::operations::Batch>(202)
            .located()
            .says::<crate::types::operations::BatchPreview>(200)
            .may(&[
                ProblemCode::FilterMisread,
                ProblemCode::BatchEmpty,
                ProblemCode::BatchTooMany,
                ProblemCode::BatchUnseen,
                ProblemCode::BatchChanged,
                ProblemCode::ReasonMissing,
            ]),
        ),
        Route::get(
            "/v1/batches",
            read,
            list,
            doc("listBatches", "Lists batches.").lists::<crate::types::operations::Batch>(),
        ),
        Route::get(
            "/v1/batches/{id}",
            read,
            show,
            doc("showBatch", "Shows a batch and its progress.")
                .says::<crate::types::operations::Batch>(200)
                .tagged(),
        ),
        Route::get(
            "/v1/batches/{id}/items",
            read,
            items,
            doc("listBatchItems", "Lists the result of each execution of a batch.")
                .lists::<crate::types::operations::BatchItem>(),
        ),
        Route::post(
            "/v1/batches/{id}:stop",
            change,
            stop,
            doc("stopBatch", "Stops a batch; remaining executions get no command.")
                .says::<crate::types::operations::Batch>(200)
                .tagged()
                .bound(ProblemCode::StaleTag),
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Asking")]
struct BatchBody {
    /// `cancel`, `pause`, `resume` or `retry`.
    #[schemars(with = "String")]
    verb: BatchVerb,
    /// The filter of the executions, in the language of docs/search.md.
    filter: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    dry_run: bool,
    cap: Option<usize>,
    rate: Option<u32>,
    digest: Option<String>,
}

/// Returns the permission that a verb requires, the same as for a single execution.
fn right(verb: BatchVerb) -> Verb {
    match verb {
        BatchVerb::Cancel => Verb::Cancel,
        BatchVerb::Pause | BatchVerb::Resume | BatchVerb::Retry => Verb::Repair,
    }
}

fn may(caller: &Caller, verb: BatchVerb) -> Result<(), Problem> {
    require(caller, right(verb), caller.place(), &format!("{} executions", verb.name()))
}

fn refused(error: BatchError) -> Problem {
    let detail = error.to_string();
    match error {
        BatchError::InvalidFilter(error) => invalid_query(&error),
        BatchError::EmptyFilter | BatchError::NoExecutions => Problem::new(ProblemCode::BatchEmpty, detail),
        BatchError::TooMany { cap } => Problem::new(ProblemCode::BatchTooMany, detail).with("cap", cap),
        BatchError::Changed(now) => {
            Problem::new(ProblemCode::BatchChanged, detail).with("preview", json!(preview(&now)))
        }
        BatchError::Engine(error) => error.into(),
    }
}

fn preview(seen: &BatchPreview) -> crate::types::operations::BatchPreview {
    let first = seen
        .first
        .iter()
        .map(|(record, refuses)| Previewed { row: mapping::row(record), refuses: refuses.clone() });
    crate::types::operations::BatchPreview {
        count: seen.count,
        refusing: seen.rejecting,
        digest: seen.digest.clone(),
        first: first.collect(),
    }
}

async fn begin(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    JsonBody(asking): JsonBody<BatchBody>,
) -> Result<Response, Problem> {
    may(&caller, asking.verb)?;
    let cap = asking.cap.unwrap_or(BATCH_CAP);
    if cap == 0 || cap > BATCH_LIMIT {
        return Err(Problem::new(ProblemCode::DocumentInvalid, format!("cap: use 1 to {BATCH_LIMIT}")));
    }
    let rate = asking.rate.unwrap_or(BATCH_RATE);
    if rate == 0 || rate > BATCH_RATE_LIMIT {
        return Err(Problem::new(
            ProblemCode::DocumentInvalid,
            format!("rate: use 1 to {BATCH_RATE_LIMIT} a second"),
        ));
    }
    let ask = BatchRequest { verb: asking.verb, filter: asking.filter, tenant: caller.tenant.clone(), cap };
    if asking.dry_run {
        let seen = app.engine.preview_batch(&ask).await.map_err(refused)?;
        return Ok(Json(preview(&seen)).into_response());
    }
    let Some(digest) = asking.digest else {
        let detail = "digest: send a dry_run first, then the digest of its answer";
        return Err(Problem::new(ProblemCode::BatchUnseen, detail));
    };
    if asking.reason.trim().is_empty() {
        return Err(Problem::new(
            ProblemCode::ReasonMissing,
            "reason: give a reason; the journal of each execution records it",
        ));
    }
    let begun = app.engine.begin_batch(&ask, &digest, &caller.name, &asking.reason, rate).await;
    let batch = begun.map_err(refused)?;
    app.batched.notify_one();
    let location = format!("/v1/batches/{}", batch.id);
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(shown(&batch, app.engine.clock().now())))
        .into_response())
}

fn shown(batch: &Batch, now: Timestamp) -> Value {
    let mut value = mapping::thing(batch, &["created_at", "ended_at"]);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("state".into(), json!(batch.state()));
        fields.insert("eta".into(), json!(eta(batch, now).map(format_time)));
    }
    value
}

/// Estimates the end of the batch at its present rate.
fn eta(batch: &Batch, now: Timestamp) -> Option<Timestamp> {
    let left = batch.total.checked_sub(batch.next).filter(|_| batch.ended_at.is_none() && batch.next > 0)?;
    let each = now.since(batch.created_at).checked_div(batch.next)?;
    Some(now.after(each.saturating_mul(left)))
}

/// Returns the batch and its version, if the caller may see it.
async fn seen(app: &ServerState, caller: &Caller, id: &str) -> Result<(Batch, Sequence), Problem> {
    let missing = || Problem::not_found("batch", id);
    if id.is_empty() || id.len() > 64 || id.contains('\0') {
        return Err(missing());
    }
    let found = app.engine.batch_as_read(id).await?;
    let own = |batch: &Batch| caller.sees(batch.tenant.as_deref().unwrap_or_default());
    found.filter(|(batch, _)| own(batch)).ok_or_else(missing)
}

async fn list(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(paging): QueryParams<Paging>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = paging.page()?;
    let (mut items, mut after) = (Vec::new(), page.after);
    loop {
        let room = page.limit.saturating_sub(items.len());
        let found = app.engine.batches(after.as_deref(), room).await?;
        let own = found.items.iter().filter(|batch| caller.sees(batch.tenant.as_deref().unwrap_or_default()));
        items.extend(own.map(|batch| shown(batch, app.engine.clock().now())));
        after = found.next;
        if after.is_none() || items.len() >= page.limit {
            return Ok(Json(ListPage::new(items, after)));
        }
    }
}

async fn show(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (batch, version) = seen(&app, &caller, &id).await?;
    Ok(tagged(tag(version), shown(&batch, app.engine.clock().now())))
}

async fn items(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    QueryParams(paging): QueryParams<Paging>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let (batch, _) = seen(&app, &caller, &id).await?;
    let page = paging.page()?;
    let found = app.engine.batch_items(&batch.id, page.after.as_deref(), page.limit).await?;
    let item = |item: &BatchItem| mapping::thing(item, &["at"]);
    Ok(Json(ListPage::new(found.items.iter().map(item).collect(), found.next)))
}

async fn stop(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    bound: IfMatch,
) -> Result<Response, Problem> {
    let (batch, version) = seen(&app, &caller, &id).await?;
    may(&caller, batch.verb)?;
    let expected = bound.version("the batch", version)?;
    app.engine.stop_batch(&batch.id, &caller.name, expected).await.map_err(|error| match error {
        engine::Error::Store(store::Error::Conflict { .. }) => {
            Problem::new(ProblemCode::StaleTag, error.to_string())
        }
        other => other.into(),
    })?;
    let (batch, version) = seen(&app, &caller, &id).await?;
    Ok(tagged(tag(version), shown(&batch, app.engine.clock().now())))
}
