//! `/v1/leftovers`: effects that terminated executions left behind, and their release.
//!
//! An execution stays on this list and on `/v1/stuck` until all its effects are released.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            JsonBody, QueryParams,
            dry_run::DryRun,
            if_match::IfMatch,
            page::{ListPage, Paging},
        },
        problem::{Problem, code::ProblemCode},
        resources::{
            executions::{ReasonBody, order, resolve},
            search::scope,
        },
        route::{Access, Route},
        route_doc::{NAMED, doc},
    },
    state::SharedState,
    types::{executions::Leftovers, mapping},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    response::Response,
};
use engine::Event;
use serde_json::Value;
use store::{ExecutionId, Record};

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Tenant(Verb::ReadExecutions);
    vec![
        Route::get(
            "/v1/leftovers",
            read,
            list,
            doc("listLeftovers", "Lists terminated executions with the effects that each left behind.")
                .lists::<Leftovers>(),
        ),
        Route::get(
            "/v1/leftovers/{id}",
            read,
            show,
            doc("showLeftovers", "Shows the effects that a terminated execution left behind.")
                .says::<Leftovers>(200)
                .may(NAMED),
        ),
        Route::post(
            "/v1/leftovers/{id}:release",
            Access::Tenant(Verb::Terminate),
            release,
            doc(
                "releaseLeftovers",
                "Undoes the effects that a terminated execution left behind. Past its point of no return, records that an operator handled them.",
            )
            .foreseen(),
        ),
    ]
}

async fn list(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    QueryParams(wanted): QueryParams<Paging>,
) -> Result<Json<ListPage<Leftovers>>, Problem> {
    let page = wanted.page()?;
    let named = |text: &str| text.parse::<ExecutionId>().map_err(|_| Problem::not_found("execution", text));
    let after = page.after.as_deref().map(named).transpose()?;
    let query = scope(&caller).and(engine::leftovers());
    let found = app.engine.search(&query, after, page.limit).await?;
    let items = found.items.iter().map(left_by).collect();
    Ok(Json(ListPage::new(items, found.next.map(|id| id.to_string()))))
}

async fn show(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Leftovers>, Problem> {
    let record = resolve(&app, &caller, &id).await?;
    if !engine::leftovers().accepts(&record) {
        let detail = format!("execution {} has left no effects behind", record.id);
        return Err(Problem::new(ProblemCode::NotFound, detail));
    }
    Ok(Json(left_by(&record)))
}

async fn release(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    how: DryRun,
    bound: IfMatch,
    JsonBody(why): JsonBody<ReasonBody>,
) -> Result<Response, Problem> {
    let record = resolve(&app, &caller, &id).await?;
    if why.reason.trim().is_empty() {
        let detail = format!("reason: say why the effects that {} left behind are released", record.id);
        return Err(Problem::new(ProblemCode::ReasonMissing, detail));
    }
    order(&app, &caller, &id, (&how, &bound), why, Event::LeftoversReleased).await
}

/// Returns the effects that the execution of `record` left behind, the latest first.
fn left_by(record: &Record) -> Leftovers {
    let body: Value = serde_json::from_slice(&record.body).unwrap_or_default();
    let mut left = mapping::trail(body.get("trail"));
    left.retain(|mark| ["begun", "done", "failed"].iter().any(|fate| mark.fate.as_str() == Some(*fate)));
    left.reverse();
    let undoable = body.get("pivot").is_none_or(Value::is_null);
    Leftovers { row: mapping::row(record), undoable, left }
}
