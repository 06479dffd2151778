//! `/v1/schedules`: schedules and their occurrences. Documented in `docs/schedules.md`.

pub(crate) mod commands;
pub(crate) mod definition;
pub(crate) mod startable;
pub(in crate::http) mod status;

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            QueryParams, TextBody,
            if_match::IfMatch,
            page::{ListPage, Page, Paging, documents},
            understood,
        },
        middleware::idempotency,
        problem::{Problem, code::ProblemCode},
        resources::workflow_start::document as read,
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types::{
        self, mapping,
        schedules::{self, Firing, Row},
    },
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use chrono::DateTime;
use definition::ScheduleDefinition;
use engine::{Occurrence, Origin, Schedule, ScheduleStatus, Target, View};
use program::encoding::rfc3339::format_time;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use startable::Startable;
use status::Status;
use std::future::Future;
use store::{CompositeKey, Timestamp};
use workflows::{policy::duration, sweeps};

/// The number of future occurrences to show.
const SHOWN: usize = 5;
/// The fields that are timestamps.
const TIMES: [&str; 8] = ["nominal", "at", "due", "from", "to", "done", "set_at", "utc"];

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, manage) = (Access::Staff(Verb::ReadSchedules), Access::Staff(Verb::ManageSchedules));
    vec![
        Route::get(
            "/v1/schedules",
            read,
            list,
            doc("listSchedules", "Lists all schedules, including built-in ones.").lists::<Row>(),
        ),
        Route::get(
            "/v1/schedules/{name}",
            read,
            show,
            doc("showSchedule", "Shows a schedule with its next occurrences, runs and waiting occurrences.")
                .says::<schedules::Schedule>(200)
                .tagged(),
        ),
        Route::get(
            "/v1/schedules/{name}/occurrences",
            read,
            occurrences,
            doc("listOccurrences", "Lists the occurrences of a schedule with their results.")
                .lists::<schedules::Occurrence>()
                .may(&[ProblemCode::DocumentInvalid]),
        ),
        Route::put(
            "/v1/schedules/{name}",
            manage,
            set,
            doc("setSchedule", "Sets a schedule; 201 for a new name.")
                .takes::<ScheduleDefinition>()
                .says::<schedules::Schedule>(201)
                .tagged()
                .says::<schedules::Schedule>(200)
                .tagged()
                .bound(ProblemCode::ScheduleChanged)
                .may(&[
                    ProblemCode::ScheduleBuiltIn,
                    ProblemCode::ScheduleRefused,
                    ProblemCode::QueryInvalid,
                ]),
        ),
        Route::delete(
            "/v1/schedules/{name}",
            manage,
            delete,
            doc("deleteSchedule", "Deletes a schedule. Its occurrences stay in the history.")
                .nothing()
                .bound(ProblemCode::ScheduleChanged)
                .may(&[
                    ProblemCode::ScheduleBuiltIn,
                    ProblemCode::ScheduleRefused,
                    ProblemCode::QueryInvalid,
                ]),
        ),
    ]
    .into_iter()
    .chain(crate::http::resources::schedules::commands::routes(manage))
    .collect()
}

/// Returns the built-in schedules, without the prefix of their stored names.
async fn built_in(app: &ServerState) -> Result<Vec<Schedule>, Problem> {
    let sweeps = sweeps::schedules(&app.engine).await?;
    let mut all: Vec<_> = sweeps.into_iter().map(|(_, schedule)| schedule).collect();
    all.push(idempotency::cleanup_schedule());
    all.sort_by(|a, b| label(&a.name).cmp(label(&b.name)));
    Ok(all)
}

/// Returns the public name of a schedule.
fn label(name: &str) -> &str {
    name.strip_prefix(sweeps::NAMED).unwrap_or(name)
}

/// Returns the schedule with this name, user-defined or built-in.
pub(in crate::http) async fn find(app: &ServerState, name: &str) -> Result<Schedule, Problem> {
    if let Some(built_in) = built_in(app).await?.into_iter().find(|one| label(&one.name) == name) {
        return Ok(built_in);
    }
    // Names have at most 128 bytes.
    let found = if name.len() > 128 { None } else { app.engine.schedule(name).await? };
    found.ok_or_else(|| Problem::not_found("schedule", name))
}

/// Rejects the name of a built-in schedule.
async fn own(app: &ServerState, name: &str) -> Result<(), Problem> {
    if built_in(app).await?.iter().any(|one| label(&one.name) == name || one.name == name) {
        return Err(Problem::new(
            ProblemCode::ScheduleBuiltIn,
            format!("{name} is built in and cannot be changed"),
        ));
    }
    Ok(())
}

/// Returns a schedule for lists.
fn row(app: &ServerState, schedule: &Schedule, standing: &ScheduleStatus) -> Row {
    let (kind, start) = match &schedule.target {
        Target::BuiltIn => ("built_in", None),
        Target::Start { workflow, data } => {
            ("set", Some(schedules::Start { workflow: workflow.clone(), data: data.clone() }))
        }
    };
    let now = app.engine.clock().now();
    let status = Status::of(schedule, standing, now);
    let next = schedule.upcoming(standing.fires_after(now), 1).unwrap_or_default();
    let next = next.first().filter(|_| standing.paused.is_none()).map(|next| next.due);
    Row {
        name: label(&schedule.name).to_owned(),
        kind,
        version: schedule.version,
        cron: schedule.cron.clone(),
        zone: schedule.zone.clone(),
        skipped_hour: json!(schedule.skipped_hour),
        repeated_hour: json!(schedule.repeated_hour),
        overlap: json!(schedule.overlap),
        buffer: schedule.buffer,
        catch_up: json!(schedule.catch_up),
        window: schedule.window.map(duration::show),
        jitter: duration::show(schedule.jitter),
        exclude: json!(schedule.exclude),
        pause_on_failure: schedule.pause_on_failure,
        set_by: start.is_some().then(|| schedule.set_by.clone()),
        set_at: start.is_some().then(|| format_time(schedule.set_at)),
        start,
        note: schedule.note.clone(),
        paused: standing.paused.as_ref().map(|paused| mapping::readable(paused, &TIMES)),
        next: next.map(format_time),
        status: status.name(),
        status_reason: status.reason(),
    }
}

/// Returns a schedule in full, with its next occurrences, runs and waiting occurrences.
pub(in crate::http) async fn full(
    app: &ServerState,
    schedule: &Schedule,
    status: StatusCode,
) -> Result<Response, Problem> {
    let standing = app.engine.schedule_status(&schedule.name).await?.unwrap_or_default();
    let wrong = |e: engine::ScheduleError| Problem::new(ProblemCode::Unreadable, e.to_string());
    let times = schedule.times().map_err(wrong)?;
    let firing = schedule.upcoming(standing.fires_after(app.engine.clock().now()), SHOWN).map_err(wrong)?;
    let firing = firing.iter().map(|one| Firing {
        local: times.format_local(one.nominal),
        utc: format_time(one.nominal),
        due: format_time(one.due),
    });
    let body = schedules::Schedule {
        row: row(app, schedule, &standing),
        firing: firing.collect(),
        running: standing.running.iter().map(seen).collect(),
        waiting: standing.waiting.iter().map(seen).collect(),
        backfills: standing.backfills.iter().map(|span| mapping::readable(span, &TIMES)).collect(),
    };
    let tag = [(header::ETAG, tag_of(schedule.version))];
    Ok((status, tag, Json(body)).into_response())
}

/// Returns an occurrence with all its fields.
pub(in crate::http) fn seen(occurrence: &Occurrence) -> schedules::Occurrence {
    schedules::Occurrence {
        schedule: label(&occurrence.schedule).to_owned(),
        nominal: format_time(occurrence.nominal),
        due: format_time(occurrence.due()),
        fate: json!(occurrence.fate),
        at: format_time(occurrence.at),
        reason: (!occurrence.reason.is_empty()).then(|| occurrence.reason.clone()),
        origin: json!(occurrence.origin),
        by: occurrence.by.clone(),
        version: occurrence.version,
        execution: occurrence.execution.map(|id| id.to_string()),
        outcome: occurrence.outcome.clone(),
    }
}

async fn list(
    State(app): State<SharedState>,
    QueryParams(paging): QueryParams<Paging>,
) -> Result<Json<ListPage<Row>>, Problem> {
    let asked = paging.page()?;
    let all = status::all(&app).await?;
    // Built-in schedules come first.
    let place = |one: &Schedule| format!("{}/{}", u8::from(one.target != Target::BuiltIn), label(&one.name));
    let ListPage { items: part, next } = ListPage::part(all, &asked, place);
    let mut items = Vec::new();
    for schedule in &part {
        let standing = app.engine.schedule_status(&schedule.name).await?.unwrap_or_default();
        items.push(row(&app, schedule, &standing));
    }
    Ok(Json(ListPage { items, next }))
}

async fn show(State(app): State<SharedState>, Path(name): Path<String>) -> Result<Response, Problem> {
    full(&app, &find(&app, &name).await?, StatusCode::OK).await
}

/// Returns the required version for `If-None-Match: *`: none.
fn new_only(headers: &HeaderMap) -> Option<u32> {
    let said = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    (said.map(str::trim) == Some("*")).then_some(0)
}

pub(in crate::http) fn tag_of(version: u32) -> String {
    format!("\"{version}\"")
}

/// Runs `work`, which changes a schedule or its state, if its definition has the required version.
pub(in crate::http) async fn bind<T>(
    bound: IfMatch,
    name: &str,
    work: impl Future<Output = Result<T, engine::Error>>,
) -> Result<T, Problem> {
    let name = name.to_owned();
    let stands = move |view: &mut View| Ok(view.get::<Schedule>(&name)?.map(|stands| tag_of(stands.version)));
    Ok(bound.bind_to("schedule.changed", "the schedule", stands, work).await?)
}

async fn set(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    bound: IfMatch,
    headers: HeaderMap,
    body: TextBody,
) -> Result<Response, Problem> {
    own(&app, &name).await?;
    let wanted: ScheduleDefinition = understood(&app, &caller, body, read).await?;
    Startable::named(&wanted.start.workflow)?.check(&wanted.start.data, &caller)?;
    let schedule = wanted.named(&name)?;
    definition::check_rate(&schedule, app.engine.clock().now())?;
    let set = app.engine.set_schedule(schedule, &caller.name, new_only(&headers));
    let set = bind(bound, &name, set).await?;
    tracing::info!(schedule = name, version = set.version, by = caller.name, "schedule set");
    app.told.notify_one();
    full(&app, &set, if set.version == 1 { StatusCode::CREATED } else { StatusCode::OK }).await
}

async fn delete(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    bound: IfMatch,
) -> Result<StatusCode, Problem> {
    own(&app, &name).await?;
    find(&app, &name).await?;
    bind(bound, &name, app.engine.delete_schedule(&name, &caller.name, None)).await?;
    tracing::info!(schedule = name, by = caller.name, "schedule deleted");
    Ok(StatusCode::NO_CONTENT)
}

/// Parses the timestamp of a field.
pub(in crate::http) fn moment(field: &str, text: &str) -> Result<Timestamp, Problem> {
    let read = DateTime::parse_from_rfc3339(text).ok();
    let read = read.and_then(|at| u64::try_from(at.timestamp_millis()).ok()).map(Timestamp);
    read.ok_or_else(|| {
        let detail = format!("{field}: {text:?} is not a timestamp: write it like 2026-11-21T06:00:00Z");
        Problem::new(ProblemCode::DocumentInvalid, detail)
    })
}

/// The occurrences to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Which")]
struct OccurrenceParams {
    /// The result, such as `fired`, `missed`, `skipped`.
    #[schemars(with = "Option<String>")]
    fate: Option<engine::OccurrenceFate>,
    /// `clock`, `trigger` or `backfill`.
    #[schemars(with = "Option<String>")]
    origin: Option<Origin>,
    #[schemars(with = "Option<types::Time>")]
    from: Option<String>,
    #[schemars(with = "Option<types::Time>")]
    to: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

async fn occurrences(
    State(app): State<SharedState>,
    Path(name): Path<String>,
    QueryParams(which): QueryParams<OccurrenceParams>,
) -> Result<Json<ListPage<schedules::Occurrence>>, Problem> {
    // Occurrences of a deleted schedule stay in the history.
    let stored = match find(&app, &name).await {
        Ok(schedule) => schedule.name,
        Err(missing) if name.len() > 128 => return Err(missing),
        Err(missing) => app.engine.schedule_status(&name).await?.map(|_| name).ok_or(missing)?,
    };
    let mut page = Page::of(which.limit, which.cursor.as_deref())?;
    let from = which.from.as_deref().map(|text| moment("from", text)).transpose()?;
    let to = which.to.as_deref().map(|text| moment("to", text)).transpose()?;
    if let (Some(from), None) = (from, &page.after) {
        page.after = Some(Occurrence::key(&stored, Timestamp(from.0.saturating_sub(1))));
    }
    let wanted = |row: &Occurrence| {
        which.fate.is_none_or(|fate| fate == row.fate)
            && which.origin.is_none_or(|origin| origin == row.origin)
            && to.is_none_or(|to| row.nominal <= to)
    };
    let prefix = CompositeKey::of(&[&stored]).prefix();
    let (found, next) = documents::<Occurrence>(&app, &prefix, &page, wanted).await?;
    Ok(Json(ListPage::new(found.iter().map(seen).collect(), next)))
}
