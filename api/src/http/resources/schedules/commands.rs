//! `/v1/schedules/{name}:pause` and the other commands on an existing schedule. Documented in `docs/schedules.md`.

use crate::{
    auth::Caller,
    http::{
        extract::{JsonBody, if_match::IfMatch, page::document},
        middleware::idempotency::RequestKey,
        problem::{Problem, code::ProblemCode},
        resources::schedules::{bind, find, full, moment, seen, startable::ScheduleStarter, tag_of},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types::schedules,
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use engine::{BACKFILL_MOST, BACKFILL_USUAL, Occurrence, Schedule, Target};
use schemars::JsonSchema;
use serde::Deserialize;
use std::future::Future;

/// The commands on an existing schedule.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(in crate::http) fn routes(manage: Access) -> Vec<Route> {
    vec![
        Route::post(
            "/v1/schedules/{name}:pause",
            manage,
            pause,
            doc("pauseSchedule", "Pauses a schedule.")
                .says::<schedules::Schedule>(200)
                .tagged()
                .bound(ProblemCode::ScheduleChanged)
                .may(&[ProblemCode::ReasonMissing, ProblemCode::ScheduleRefused]),
        ),
        Route::post(
            "/v1/schedules/{name}:resume",
            manage,
            resume,
            doc("resumeSchedule", "Resumes a schedule.")
                .says::<schedules::Schedule>(200)
                .tagged()
                .bound(ProblemCode::ScheduleChanged)
                .may(&[ProblemCode::ScheduleRefused]),
        ),
        Route::post(
            "/v1/schedules/{name}:trigger",
            manage,
            trigger,
            doc("triggerSchedule", "Triggers one occurrence now, and returns its result.")
                .says::<schedules::Occurrence>(202)
                .bound(ProblemCode::ScheduleChanged)
                .may(&[ProblemCode::ScheduleRefused]),
        ),
        Route::post(
            "/v1/schedules/{name}:backfill",
            manage,
            backfill,
            doc("backfillSchedule", "Backfills the occurrences of a period; with `dry_run`, counts them.")
                .says::<schedules::BackfillPreview>(200)
                .says::<schedules::Schedule>(202)
                .tagged()
                .bound(ProblemCode::ScheduleChanged)
                .may(&[ProblemCode::ScheduleBuiltIn, ProblemCode::ScheduleRefused]),
        ),
        Route::post(
            "/v1/schedules/{name}:cancel-backfill",
            manage,
            cancel_backfill,
            doc(
                "cancelBackfill",
                "Cancels the remaining backfills of a schedule; runs that have started continue.",
            )
            .says::<schedules::Schedule>(200)
            .tagged()
            .bound(ProblemCode::ScheduleChanged)
            .may(&[ProblemCode::ScheduleRefused]),
        ),
        Route::post(
            "/v1/schedules/{name}:skip",
            manage,
            skip,
            doc("skipOccurrence", "Drops a waiting occurrence.")
                .says::<schedules::Occurrence>(200)
                .bound(ProblemCode::ScheduleChanged)
                .may(&[ProblemCode::ScheduleRefused]),
        ),
    ]
}

/// Runs `work`, which changes the state of a schedule, if its definition has the required version. The definition of a built-in schedule is that of the
/// program.
async fn bind_any<T>(
    bound: IfMatch,
    schedule: &Schedule,
    work: impl Future<Output = Result<T, engine::Error>>,
) -> Result<T, Problem> {
    match schedule.target {
        Target::BuiltIn => {
            bound.check(ProblemCode::ScheduleChanged, "the schedule", &tag_of(schedule.version))?;
            Ok(work.await?)
        }
        Target::Start { .. } => bind(bound, &schedule.name, work).await,
    }
}

/// The reason of a command.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Why")]
struct ReasonBody {
    #[serde(default)]
    reason: String,
}

async fn pause(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    bound: IfMatch,
    JsonBody(why): JsonBody<ReasonBody>,
) -> Result<Response, Problem> {
    let schedule = find(&app, &name).await?;
    if why.reason.trim().is_empty() {
        let detail = format!("a paused schedule {name} starts nothing: give a reason");
        return Err(Problem::new(ProblemCode::ReasonMissing, detail));
    }
    let pause = app.engine.pause_schedule(&schedule, &caller.name, &why.reason);
    bind_any(bound, &schedule, pause).await?;
    tracing::info!(schedule = name, by = caller.name, reason = why.reason, "schedule paused");
    full(&app, &schedule, StatusCode::OK).await
}

async fn resume(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    bound: IfMatch,
    JsonBody(ReasonBody { .. }): JsonBody<ReasonBody>,
) -> Result<Response, Problem> {
    let schedule = find(&app, &name).await?;
    bind_any(bound, &schedule, app.engine.resume_schedule(&schedule)).await?;
    tracing::info!(schedule = name, by = caller.name, "schedule resumed");
    wake(&app, &schedule);
    full(&app, &schedule, StatusCode::OK).await
}

/// Wakes the job that runs the schedule.
fn wake(app: &ServerState, schedule: &Schedule) {
    match schedule.target {
        Target::BuiltIn => app.freed.notify_one(),
        Target::Start { .. } => app.told.notify_one(),
    }
}

/// Triggers one occurrence now, and returns its result.
async fn trigger(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Extension(RequestKey(once)): Extension<RequestKey>,
    Path(name): Path<String>,
    bound: IfMatch,
    JsonBody(ReasonBody { .. }): JsonBody<ReasonBody>,
) -> Result<Response, Problem> {
    let schedule = find(&app, &name).await?;
    let trigger = app.engine.trigger_schedule(&schedule, &caller.name, once.as_ref());
    let asked = bind_any(bound, &schedule, trigger).await?;
    tracing::info!(schedule = name, by = caller.name, "schedule triggered");
    if schedule.target != Target::BuiltIn {
        app.engine.run_schedule(&schedule.name, &ScheduleStarter(app.clone())).await?;
    }
    wake(&app, &schedule);
    let key = Occurrence::key(&asked.schedule, asked.nominal);
    let stands = document::<Occurrence>(&app, &key).await?.unwrap_or(asked);
    Ok((StatusCode::ACCEPTED, Json(seen(&stands))).into_response())
}

/// The period of a backfill.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Of")]
struct BackfillBody {
    from: String,
    to: String,
    /// The maximum number of occurrences in the period; default 1000, at most 20000.
    most: Option<u64>,
    /// True to only count the occurrences.
    #[serde(default)]
    dry_run: bool,
}

async fn backfill(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    bound: IfMatch,
    JsonBody(of): JsonBody<BackfillBody>,
) -> Result<Response, Problem> {
    let schedule = find(&app, &name).await?;
    if schedule.target == Target::BuiltIn {
        let detail =
            format!("{name} is built in, and one run covers the whole period: use `:trigger` instead");
        return Err(Problem::new(ProblemCode::ScheduleBuiltIn, detail));
    }
    let span = (moment("from", &of.from)?, moment("to", &of.to)?);
    let most = of.most.unwrap_or(BACKFILL_USUAL);
    if of.dry_run {
        let unreadable =
            |error: engine::ScheduleError| Problem::new(ProblemCode::Unreadable, error.to_string());
        let found = schedule.span(span, BACKFILL_MOST).map_err(unreadable)?;
        return Ok(Json(schedules::BackfillPreview::of(&found, most)).into_response());
    }
    bind_any(bound, &schedule, app.engine.backfill_schedule(&schedule, span, most, &caller.name)).await?;
    tracing::info!(schedule = name, by = caller.name, from = of.from, to = of.to, "backfill requested");
    wake(&app, &schedule);
    full(&app, &schedule, StatusCode::ACCEPTED).await
}

async fn cancel_backfill(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    bound: IfMatch,
    JsonBody(why): JsonBody<ReasonBody>,
) -> Result<Response, Problem> {
    let schedule = find(&app, &name).await?;
    let cancel = app.engine.cancel_backfills(&schedule, &caller.name, &why.reason);
    let given_up = bind_any(bound, &schedule, cancel).await?.len();
    tracing::info!(schedule = name, by = caller.name, reason = why.reason, given_up, "backfills cancelled");
    full(&app, &schedule, StatusCode::OK).await
}

/// The occurrence to drop.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Leave")]
struct SkipBody {
    nominal: String,
    #[serde(default)]
    reason: String,
}

async fn skip(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    bound: IfMatch,
    JsonBody(leave): JsonBody<SkipBody>,
) -> Result<Json<schedules::Occurrence>, Problem> {
    let schedule = find(&app, &name).await?;
    let nominal = moment("nominal", &leave.nominal)?;
    let skip = app.engine.skip_occurrence(&schedule, nominal, &caller.name, &leave.reason);
    let skipped = bind_any(bound, &schedule, skip).await?;
    Ok(Json(seen(&skipped)))
}
