//! `/v1/schedules/{name}:pause` and what else is asked of a schedule that there is. Told in `docs/schedules.md`.

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

/// What is asked of a schedule that there is.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(in crate::http) fn routes(manage: Access) -> Vec<Route> {
    vec![
        Route::post(
            "/v1/schedules/{name}:pause",
            manage,
            pause,
            doc("pauseSchedule", "Lets a schedule start nothing.")
                .says::<schedules::Schedule>(200)
                .tagged()
                .bound(ProblemCode::ScheduleChanged)
                .may(&[ProblemCode::ReasonMissing, ProblemCode::ScheduleRefused]),
        ),
        Route::post(
            "/v1/schedules/{name}:resume",
            manage,
            resume,
            doc("resumeSchedule", "Lets a schedule start things again.")
                .says::<schedules::Schedule>(200)
                .tagged()
                .bound(ProblemCode::ScheduleChanged)
                .may(&[ProblemCode::ScheduleRefused]),
        ),
        Route::post(
            "/v1/schedules/{name}:trigger",
            manage,
            trigger,
            doc("triggerSchedule", "One occurrence at once; answered with what became of it.")
                .says::<schedules::Occurrence>(202)
                .bound(ProblemCode::ScheduleChanged)
                .may(&[ProblemCode::ScheduleRefused]),
        ),
        Route::post(
            "/v1/schedules/{name}:backfill",
            manage,
            backfill,
            doc("backfillSchedule", "Makes up for the moments of a span; with `dry_run`, counts them.")
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
                "Gives up the rest of all backfills of a schedule; a run that was started goes on.",
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
            doc("skipOccurrence", "Drops an occurrence that waits.")
                .says::<schedules::Occurrence>(200)
                .bound(ProblemCode::ScheduleChanged)
                .may(&[ProblemCode::ScheduleRefused]),
        ),
    ]
}

/// Does `work`, which changes what becomes of a schedule, if its definition is the one that was read. Of one that is built in that
/// is the program's.
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

/// Why somebody acts.
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
        let detail = format!("{name} starts nothing while it is paused: say why");
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

/// Lets whoever keeps the schedule look at it now.
fn wake(app: &ServerState, schedule: &Schedule) {
    match schedule.target {
        Target::BuiltIn => app.freed.notify_one(),
        Target::Start { .. } => app.told.notify_one(),
    }
}

/// One occurrence at once; answered with what became of it.
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

/// A span of moments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Of")]
struct BackfillBody {
    from: String,
    to: String,
    /// How many moments the span may have; 1000 if absent, at most 20000.
    most: Option<u64>,
    /// Only count the moments.
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
        let detail = format!("{name} is built in: one run sees to all there is, so `:trigger` it");
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
    tracing::info!(schedule = name, by = caller.name, from = of.from, to = of.to, "backfill asked for");
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

/// An occurrence that is not to be started.
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
