//! `/v1/workflow-versions`: which schemas the open executions rest at, which stand in the way of removing an old one, and
//! bringing them up to date.

use super::{
    page::Listed,
    problem::Problem,
    read::{Asked, Sent},
    route::{Access, Route},
    view,
};
use crate::{
    app::{App, Shared},
    auth::{Caller, Verb},
};
use axum::{Extension, Json, extract::State};
use engine::{Generation, Migration, MigrationAnswer};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) fn routes() -> Vec<Route> {
    let read = Access::Staff(Verb::ReadWorkflows);
    vec![
        Route::get("/v1/workflow-versions", read, list),
        Route::get("/v1/workflow-versions/blockers", read, blockers),
        Route::post("/v1/workflow-versions:migrate", Access::Staff(Verb::Migrate), migrate),
    ]
}

async fn list(State(app): State<Shared>) -> Result<Json<Listed<Value>>, Problem> {
    let row = |one: &Generation| {
        json!({
            "workflow": one.workflow,
            "schema": one.schema,
            "open": one.open,
            "here": one.here,
            "standing": one.standing(),
        })
    };
    Ok(Json(Listed::new(app.engine.generations().await?.iter().map(row).collect(), None)))
}

/// Of which workflow.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    workflow: Option<String>,
}

/// Refuses a workflow that there is not, so that a slip of the pen is not taken for all being well.
async fn known(app: &App, workflow: Option<&str>) -> Result<(), Problem> {
    let Some(name) = workflow else { return Ok(()) };
    if app.engine.generations().await?.iter().any(|one| one.workflow == name) {
        return Ok(());
    }
    Err(Problem::not_found("workflow", name))
}

async fn blockers(
    State(app): State<Shared>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Listed<Value>>, Problem> {
    known(&app, wanted.workflow.as_deref()).await?;
    let found = app.engine.outdated(wanted.workflow.as_deref()).await?;
    seen(&app, &found).await
}

/// What is to be brought up to date.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    workflow: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

async fn migrate(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Sent(order): Sent<Order>,
) -> Result<Json<Listed<Value>>, Problem> {
    let workflow = order.workflow.as_deref();
    known(&app, workflow).await?;
    let found = if order.dry_run {
        app.engine.outdated(workflow).await?
    } else {
        tracing::info!(workflow, by = caller.name, "migrating");
        app.engine.migrate(workflow, &caller.name).await?
    };
    seen(&app, &found).await
}

async fn seen(app: &App, found: &[Migration]) -> Result<Json<Listed<Value>>, Problem> {
    let mut rows = Vec::new();
    for one in found {
        rows.push(row(app, one).await?);
    }
    Ok(Json(Listed::new(rows, None)))
}

/// An execution of another version: what can be done about it, and whom it waits for.
async fn row(app: &App, one: &Migration) -> Result<Value, Problem> {
    let record = &one.record;
    let (answer, to, why) = match &one.answer {
        MigrationAnswer::Would(to) => ("migratable", Some(*to), None),
        MigrationAnswer::Did(to) => ("migrated", Some(*to), None),
        MigrationAnswer::Refused(why) => ("refused", None, Some(why)),
    };
    let waits_for = match record.phase.as_str() {
        "paused" => "whoever paused it, to resume it".to_owned(),
        "parked" => format!("an operator: {}", record.reason.as_deref().unwrap_or("parked")),
        _ => match app.engine.approval(record.id).await? {
            Some(case) => format!("people: {}", view::wanted(&case.seats)),
            None => format!("the end of {}", record.state),
        },
    };
    Ok(json!({
        "id": record.id.to_string(),
        "workflow": record.workflow,
        "subject": record.subject,
        "schema": record.schema,
        "state": record.state,
        "phase": record.phase,
        "answer": answer,
        "to": to,
        "why": why,
        "waits_for": waits_for,
        "updated_at": view::time(record.updated_at),
    }))
}
