//! `/v1/workflow-versions`: schemas of open executions, obstacles to the removal of an old schema, and migration.

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
        mapping,
        operations::{self, Migrated},
    },
};
use axum::{Extension, Json, extract::State};
use engine::{Migration, MigrationAnswer, SchemaUsage};
use program::encoding::rfc3339::format_time;
use schemars::JsonSchema;
use serde::Deserialize;

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Staff(Verb::ReadWorkflows);
    vec![
        Route::get(
            "/v1/workflow-versions",
            read,
            list,
            doc("listVersions", "Counts open executions by workflow and schema.")
                .lists::<operations::Generation>(),
        ),
        Route::get(
            "/v1/workflow-versions/blockers",
            read,
            blockers,
            doc("listBlockers", "Lists open executions of other schemas, and what each waits for.")
                .lists::<operations::Migrated>()
                .may(&[ProblemCode::NotFound]),
        ),
        Route::post(
            "/v1/workflow-versions:migrate",
            Access::Staff(Verb::Migrate),
            migrate,
            doc("migrate", "Migrates executions to the current schema.")
                .lists::<operations::Migrated>()
                .may(&[ProblemCode::NotFound]),
        ),
    ]
}

async fn list(
    State(app): State<SharedState>,
    QueryParams(paging): QueryParams<Paging>,
) -> Result<Json<ListPage<operations::Generation>>, Problem> {
    let page = paging.page()?;
    let row = |one: SchemaUsage| operations::Generation {
        standing: one.status(),
        workflow: one.workflow,
        schema: one.schema,
        open: one.open,
        here: one.here,
    };
    let name = |one: &SchemaUsage| format!("{}/{:010}", one.workflow, one.schema);
    Ok(Json(ListPage::part(app.engine.schema_usage().await?, &page, name).each(row)))
}

/// The workflow to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wanted")]
struct ListParams {
    workflow: Option<String>,
}

/// Rejects an unknown workflow, so that a typo does not look like an empty list.
async fn known(app: &ServerState, workflow: Option<&str>) -> Result<(), Problem> {
    let Some(name) = workflow else { return Ok(()) };
    if app.engine.schema_usage().await?.iter().any(|one| one.workflow == name) {
        return Ok(());
    }
    Err(Problem::not_found("workflow", name))
}

async fn blockers(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<ListParams>,
) -> Result<Json<ListPage<Migrated>>, Problem> {
    known(&app, wanted.workflow.as_deref()).await?;
    let found = app.engine.outdated(wanted.workflow.as_deref()).await?;
    seen(&app, &found).await
}

/// The executions to migrate.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Order")]
struct MigrateBody {
    workflow: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

async fn migrate(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    JsonBody(order): JsonBody<MigrateBody>,
) -> Result<Json<ListPage<Migrated>>, Problem> {
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

async fn seen(app: &ServerState, found: &[Migration]) -> Result<Json<ListPage<Migrated>>, Problem> {
    let mut rows = Vec::new();
    for one in found {
        rows.push(row(app, one).await?);
    }
    Ok(Json(ListPage::new(rows, None)))
}

/// Returns an execution of another schema, with its options and what it waits for.
async fn row(app: &ServerState, one: &Migration) -> Result<Migrated, Problem> {
    let record = &one.record;
    let (answer, to, why) = match &one.answer {
        MigrationAnswer::Planned(to) => ("migratable", Some(*to), None),
        MigrationAnswer::Migrated(to) => ("migrated", Some(*to), None),
        MigrationAnswer::Refused(why) => ("refused", None, Some(why)),
    };
    let waits_for = match record.phase.as_str() {
        "paused" => "the user who paused it, to resume it".to_owned(),
        "parked" => format!("an operator: {}", record.reason.as_deref().unwrap_or("parked")),
        _ => match app.engine.approval(record.id).await? {
            Some(case) => format!("people: {}", mapping::wanted(&case.seats)),
            None => format!("the end of {}", record.state),
        },
    };
    Ok(Migrated {
        id: record.id.to_string(),
        workflow: record.workflow.clone(),
        subject: record.subject.clone(),
        schema: record.schema,
        state: record.state.clone(),
        phase: record.phase.clone(),
        answer,
        to,
        why: why.cloned(),
        waits_for,
        updated_at: format_time(record.updated_at),
    })
}
