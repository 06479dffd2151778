//! `/v1/executions/{id}`: shows an execution, its journal and diagram, and accepts operator commands.

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
            doc("showExecution", "Shows an execution in full.")
                .says::<types::executions::Execution>(200)
                .tagged()
                .may(NAMED),
        ),
        Route::get(
            "/v1/executions/{id}/journal",
            read,
            journal,
            doc("showJournal", "Lists the journal of an execution.")
                .lists::<types::executions::Line>()
                .may(NAMED),
        ),
        Route::get(
            "/v1/executions/{id}/diagram",
            read,
            diagram,
            doc("drawExecution", "Draws the diagram of its workflow, with the current state highlighted.")
                .file(200, "text/plain")
                .says::<types::executions::Drawn>(200)
                .may(NAMED),
        ),
    ]
    .into_iter()
    .chain(orders())
    .collect()
}

/// The commands of operators to one execution.
fn orders() -> Vec<Route> {
    vec![
        Route::post(
            "/v1/executions/{id}:cancel",
            Access::Tenant(Verb::Cancel),
            cancel,
            doc(
                "cancelExecution",
                "Cancels an execution and rolls it back, if it is before its point of no return. With `dry_run`, lists the undos.",
            )
            .foreseen(),
        ),
        Route::post(
            "/v1/executions/{id}:pause",
            Access::Tenant(Verb::Repair),
            pause,
            doc("pauseExecution", "Pauses an execution between two steps.").foreseen(),
        ),
        Route::post(
            "/v1/executions/{id}:resume",
            Access::Tenant(Verb::Repair),
            resume,
            doc("resumeExecution", "Resumes a paused execution.").foreseen(),
        ),
        Route::post(
            "/v1/executions/{id}:retry",
            Access::Tenant(Verb::Repair),
            retry,
            doc("retryExecution", "Retries a parked execution or a waiting attempt now.").foreseen(),
        ),
        Route::post(
            "/v1/executions/{id}:signal",
            Access::Tenant(Verb::Signal),
            signal,
            doc("signalExecution", "Signals an execution that an awaited event has happened.")
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
                "Terminates an execution by force; needs a reason. Returns the effects left behind; with `dry_run`, those that would be.",
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

/// Returns an execution by its full id, or by a unique prefix.
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
        let detail = format!("there is no execution {text}; a shortened id needs at least four digits");
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
            let detail = format!("{text} matches {} and {}", one.id, other.id);
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

/// The maximum number of reads of an execution that changes while it is read.
const MOST_LOOKS: usize = 8;

/// Returns the execution in full, with its revision as the `ETag`.
pub(in crate::http) async fn full(
    app: &ServerState,
    id: ExecutionId,
    status: StatusCode,
) -> Result<Response, Problem> {
    let (mut record, mut shown) = app.engine.execution(id).await?;
    let mut body = mapping::execution(&app.engine, &record, &shown).await?;
    // The record and its tasks are two reads. If the execution changed in between, both are read again.
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

/// The reason of a command.
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

/// Dry run of a command: lists the entries of the trail that would be undone, and those that would not. Nothing is stored.
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
        let detail = format!("terminating {} leaves effects behind: give a reason", record.id);
        return Err(Problem::new(ProblemCode::ReasonMissing, detail));
    }
    order(&app, &caller, &id, (&how, &bound), why, Event::TerminateRequested).await
}

/// A signal.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Happened")]
struct SignalBody {
    #[serde(default)]
    signal: String,
}

/// Returns every signal that a workflow waits for.
fn signals(app: &ServerState, workflow: &str) -> Vec<String> {
    let drawn = app.engine.diagrams().into_iter().find(|drawn| drawn.workflow == workflow);
    let edges = drawn.map(|drawn| drawn.edges).unwrap_or_default();
    let named = edges.iter().filter_map(|edge| edge.label.strip_prefix("signal "));
    named.map(ToOwned::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Sends a signal. The execution decides if it waits for it now.
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
            "signal: {:?} is not a signal of {}; it waits for: {said}",
            happened.signal, record.workflow
        );
        return Err(Problem::new(ProblemCode::DocumentInvalid, detail));
    }
    tracing::info!(execution = %record.id, trace_id = %record.id.trace_id(), signal = happened.signal, by = caller.name, "signalled");
    require_change(app.engine.signal_awaited(record.id, &happened.signal, bound).await)?;
    full(&app, record.id, StatusCode::OK).await
}

/// Runs a command, or its dry run.
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

/// Converts the result of a command that required a revision: the execution may have changed since.
pub(in crate::http) fn require_change<T>(taken: Result<T, engine::Error>) -> Result<T, Problem> {
    taken.map_err(|error| match error {
        engine::Error::Store(store::Error::Conflict { .. }) => {
            Problem::new(ProblemCode::StaleRevision, error.to_string())
        }
        other => other.into(),
    })
}
