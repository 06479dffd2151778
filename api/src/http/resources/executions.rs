//! `/v1/executions/{id}`: show, journal, diagram, and what operators ask of one.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{JsonBody, QueryParams, dry_run::DryRun, if_match::IfMatch, page::ListPage},
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::{NAMED, ORDERED, doc},
    },
    state::{ServerState, SharedState},
    types::{self, mapping},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use engine::{Attribution, Event};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;
use store::{ExecutionId, Filter, Record, Revision};

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Tenant(Verb::ReadExecutions);
    vec![
        Route::get(
            "/v1/executions/{id}",
            read,
            show,
            doc("showExecution", "An execution in full.")
                .says::<types::executions::Execution>(200)
                .tagged()
                .may(NAMED),
        ),
        Route::get(
            "/v1/executions/{id}/journal",
            read,
            journal,
            doc("showJournal", "The history of an execution.").lists::<types::executions::Line>().may(NAMED),
        ),
        Route::get(
            "/v1/executions/{id}/diagram",
            read,
            diagram,
            doc("drawExecution", "The picture of its workflow, with its state lit.")
                .file(200, "text/plain")
                .says::<types::executions::Drawn>(200)
                .may(NAMED),
        ),
    ]
    .into_iter()
    .chain(orders())
    .collect()
}

/// What operators ask of one.
fn orders() -> Vec<Route> {
    vec![
        Route::post(
            "/v1/executions/{id}:cancel",
            Access::Tenant(Verb::Cancel),
            cancel,
            doc(
                "cancelExecution",
                "Turns an execution back, up to its point of no return; with `dry_run`, says what would be undone.",
            )
            .foreseen(),
        ),
        Route::post(
            "/v1/executions/{id}:pause",
            Access::Tenant(Verb::Repair),
            pause,
            doc("pauseExecution", "Holds an execution between two steps.").foreseen(),
        ),
        Route::post(
            "/v1/executions/{id}:resume",
            Access::Tenant(Verb::Repair),
            resume,
            doc("resumeExecution", "Lets an execution go on.").foreseen(),
        ),
        Route::post(
            "/v1/executions/{id}:retry",
            Access::Tenant(Verb::Repair),
            retry,
            doc("retryExecution", "Tries at once what is parked, or waits for its next attempt.").foreseen(),
        ),
        Route::post(
            "/v1/executions/{id}:signal",
            Access::Tenant(Verb::Signal),
            signal,
            doc("signalExecution", "Tells an execution that something it waits for now has happened.")
                .says::<types::executions::Execution>(200)
                .tagged()
                .bound(ProblemCode::StaleRevision)
                .may(ORDERED)
                .may(&[ProblemCode::SignalNotAwaited]),
        ),
        Route::post(
            "/v1/executions/{id}:terminate",
            Access::Tenant(Verb::Terminate),
            terminate,
            doc(
                "terminateExecution",
                "Closes an execution by force; needs a reason, and answers with what is left behind; with `dry_run`, what would be.",
            )
            .says::<types::executions::Execution>(200)
            .tagged()
            .says::<types::executions::OrderPreview>(200)
            .says::<types::executions::Proposal>(202)
            .bound(ProblemCode::StaleRevision)
            .may(ORDERED),
        ),
    ]
}

/// The execution that `text` names: in full, or by as many leading digits as tell it apart.
pub(in crate::http) async fn resolve(
    app: &ServerState,
    caller: &Caller,
    text: &str,
) -> Result<Record, Problem> {
    let missing = || Problem::not_found("execution", text);
    if let Ok(id) = text.parse::<ExecutionId>() {
        let record = app.engine.store().load(id).await?.ok_or_else(missing)?;
        return Some(record).filter(|record| caller.sees(&record.tenant)).ok_or_else(missing);
    }
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok();
    if number.is_some() && digits.len() < 4 {
        let detail = format!("there is no execution {text}: a shortened id has at least four digits");
        return Err(Problem::new(ProblemCode::NotFound, detail));
    }
    let number = number.filter(|_| digits.len() < 32).ok_or_else(missing)?;
    let shift = 4 * u32::try_from(32 - digits.len()).unwrap_or(0);
    let first = number.checked_shl(shift).unwrap_or(0);
    let after = first.checked_sub(1).map(|before| ExecutionId::from_bytes(before.to_be_bytes()));
    let filter = Filter { tenant: caller.tenant.clone(), ..Filter::default() };
    let found = app.engine.list(&filter, after, 2).await?;
    let is_meant = |record: &&Record| u128::from_be_bytes(*record.id.as_bytes()) >> shift == number;
    let mut meant = found.items.iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(only), None) => Ok(only.clone()),
        (Some(one), Some(other)) => {
            let detail = format!("{text} could be {} or {}", one.id, other.id);
            Err(Problem::new(ProblemCode::IdAmbiguous, detail))
        }
        (None, _) => Err(missing()),
    }
}

async fn show(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id = resolve(&app, &caller, &id).await?.id;
    full(&app, id, StatusCode::OK).await
}

/// How often an execution is looked at again that moves while it is being shown.
const MOST_LOOKS: usize = 8;

/// The execution in full, with its revision as the `ETag`.
pub(in crate::http) async fn full(
    app: &ServerState,
    id: ExecutionId,
    status: StatusCode,
) -> Result<Response, Problem> {
    let (mut record, mut shown) = app.engine.execution(id).await?;
    let mut body = mapping::execution(&app.engine, &record, &shown).await?;
    // What it waits for is read after what it is; if it moved between, the two would not belong together.
    for _ in 0..MOST_LOOKS {
        let (now, anew) = app.engine.execution(id).await?;
        if now.revision == record.revision {
            break;
        }
        (record, shown) = (now, anew);
        body = mapping::execution(&app.engine, &record, &shown).await?;
    }
    body.row.progress = app.paces.told(&app.engine, std::slice::from_ref(&record)).await.remove(&id);
    Ok((status, [(header::ETAG, etag(record.revision))], Json(body)).into_response())
}

fn etag(revision: Revision) -> String {
    format!("\"{revision}\"")
}

async fn journal(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<ListPage<types::executions::Line>>, Problem> {
    let id = resolve(&app, &caller, &id).await?.id;
    let entries = app.engine.journal(id).await?;
    Ok(Json(ListPage::new(entries.iter().map(mapping::entry).collect(), None)))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Drawing")]
struct DiagramParams {
    format: Option<String>,
}

async fn diagram(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    QueryParams(drawing): QueryParams<DiagramParams>,
) -> Result<Response, Problem> {
    let record = resolve(&app, &caller, &id).await?;
    super::workflows::drawn(&app, &record.workflow, drawing.format.as_deref(), Some(&record.state))
}

/// Why an operator acts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Why")]
pub(in crate::http) struct ReasonBody {
    #[serde(default)]
    pub(in crate::http) reason: String,
}

async fn cancel(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    how: DryRun,
    bound: IfMatch,
    JsonBody(why): JsonBody<ReasonBody>,
) -> Result<Response, Problem> {
    order(&app, &caller, &id, (&how, &bound), why, Event::CancelRequested).await
}

/// What an order would lead to: what of the trail would be taken back, and what would not. Nothing is kept of it.
async fn foresee(app: &SharedState, id: ExecutionId, event: Event) -> Result<Response, Problem> {
    let turns_back = matches!(
        event,
        Event::CancelRequested(_) | Event::TerminateRequested(_) | Event::LeftoversReleased(_)
    );
    let preview = app.engine.preview(id, event).await?;
    let undoes = preview.phase != "finished" && (turns_back || preview.unwinds);
    let standing = |mark: &types::executions::Mark| {
        ["begun", "done", "failed"].iter().any(|fate| mark.fate.as_str() == Some(*fate))
    };
    let mut would_undo = mapping::trail(Some(&preview.trail));
    would_undo.retain(|mark| undoes && standing(mark));
    would_undo.reverse();
    let seen = types::executions::OrderPreview {
        state: preview.state,
        phase: preview.phase,
        would_undo,
        would_leave: mapping::trail(Some(&preview.left)),
        needs_second: preview.needs_second,
    };
    Ok(Json(seen).into_response())
}

async fn pause(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    how: DryRun,
    bound: IfMatch,
    JsonBody(why): JsonBody<ReasonBody>,
) -> Result<Response, Problem> {
    order(&app, &caller, &id, (&how, &bound), why, Event::PauseRequested).await
}

async fn resume(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    how: DryRun,
    bound: IfMatch,
    JsonBody(why): JsonBody<ReasonBody>,
) -> Result<Response, Problem> {
    order(&app, &caller, &id, (&how, &bound), why, Event::ResumeRequested).await
}

async fn retry(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    how: DryRun,
    bound: IfMatch,
    JsonBody(why): JsonBody<ReasonBody>,
) -> Result<Response, Problem> {
    order(&app, &caller, &id, (&how, &bound), why, Event::RetryRequested).await
}

async fn terminate(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    how: DryRun,
    bound: IfMatch,
    JsonBody(why): JsonBody<ReasonBody>,
) -> Result<Response, Problem> {
    let record = resolve(&app, &caller, &id).await?;
    if why.reason.trim().is_empty() {
        let detail = format!("closing {} by force leaves things behind: say why", record.id);
        return Err(Problem::new(ProblemCode::ReasonMissing, detail));
    }
    order(&app, &caller, &id, (&how, &bound), why, Event::TerminateRequested).await
}

/// What has happened.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Happened")]
struct SignalBody {
    #[serde(default)]
    signal: String,
}

/// Every signal that a workflow waits for.
fn signals(app: &ServerState, workflow: &str) -> Vec<String> {
    let drawn = app.engine.diagrams().into_iter().find(|drawn| drawn.workflow == workflow);
    let edges = drawn.map(|drawn| drawn.edges).unwrap_or_default();
    let named = edges.iter().filter_map(|edge| edge.label.strip_prefix("signal "));
    named.map(ToOwned::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Tells an execution that something it waits for now has happened; it looks for itself whether that is so.
async fn signal(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    bound: IfMatch,
    JsonBody(happened): JsonBody<SignalBody>,
) -> Result<Response, Problem> {
    let record = resolve(&app, &caller, &id).await?;
    let bound = bound.revision(record.revision)?;
    let known = signals(&app, &record.workflow);
    if !known.contains(&happened.signal) {
        let said = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let detail = format!(
            "signal: {:?} is nothing that {} waits for; it waits for: {said}",
            happened.signal, record.workflow
        );
        return Err(Problem::new(ProblemCode::DocumentInvalid, detail));
    }
    tracing::info!(execution = %record.id, trace_id = %record.id.trace_id(), signal = happened.signal, by = caller.name, "signalled");
    require_change(app.engine.signal_awaited(record.id, &happened.signal, bound).await)?;
    full(&app, record.id, StatusCode::OK).await
}

/// Gives an order, or as a dry run says what it would lead to.
pub(in crate::http) async fn order(
    app: &SharedState,
    caller: &Caller,
    id: &str,
    (how, bound): (&DryRun, &IfMatch),
    why: ReasonBody,
    event: impl FnOnce(Attribution) -> Event,
) -> Result<Response, Problem> {
    let record = resolve(app, caller, id).await?;
    let bound = bound.revision(record.revision)?;
    let event = event(Attribution { by: caller.name.clone(), reason: why.reason });
    if how.is_wanted() {
        return foresee(app, record.id, event).await;
    }
    super::repairs::command(app, record.id, event, bound).await
}

/// What came of an order that was bound to a revision, which may have moved on while the order was on its way.
pub(in crate::http) fn require_change<T>(taken: Result<T, engine::Error>) -> Result<T, Problem> {
    taken.map_err(|error| match error {
        engine::Error::Store(store::Error::Conflict { .. }) => {
            Problem::new(ProblemCode::StaleRevision, error.to_string())
        }
        other => other.into(),
    })
}
