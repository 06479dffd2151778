//! `/v1/workflows`: workflows and their diagrams.

use crate::{
    auth::Verb,
    http::{
        extract::{
            QueryParams,
            page::{ListPage, Paging},
        },
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types::{executions::Drawn, operations::Workflow},
};
use axum::{
    Json,
    extract::{Path, State},
    http::header,
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Tenant(Verb::ReadWorkflows);
    vec![
        Route::get("/v1/workflows", read, list, doc("listWorkflows", "Lists workflows.").lists::<Workflow>()),
        Route::get(
            "/v1/workflows/{name}/diagram",
            read,
            diagram,
            doc("drawWorkflow", "Draws the diagram of a workflow, as Mermaid or JSON.")
                .file(200, "text/plain")
                .says::<Drawn>(200),
        ),
    ]
}

async fn list(
    State(app): State<SharedState>,
    QueryParams(paging): QueryParams<Paging>,
) -> Result<Json<ListPage<Workflow>>, Problem> {
    let row = |drawn: engine::Diagram| Workflow {
        name: drawn.workflow,
        schema: drawn.schema,
        initial: drawn.initial,
        states: drawn.states.len(),
    };
    let page = paging.page()?;
    Ok(Json(ListPage::part(app.engine.diagrams(), &page, |drawn| drawn.workflow.clone()).each(row)))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Drawing")]
struct DiagramParams {
    format: Option<String>,
}

async fn diagram(
    State(app): State<SharedState>,
    Path(name): Path<String>,
    QueryParams(drawing): QueryParams<DiagramParams>,
) -> Result<Response, Problem> {
    drawn(&app, &name, drawing.format.as_deref(), None)
}

/// Draws a workflow as Mermaid (default) or JSON, with `current` highlighted.
pub(in crate::http) fn drawn(
    app: &ServerState,
    name: &str,
    format: Option<&str>,
    current: Option<&str>,
) -> Result<Response, Problem> {
    let mut all = app.engine.diagrams().into_iter();
    let diagram = all.find(|diagram| diagram.workflow == name);
    let diagram = diagram.ok_or_else(|| Problem::not_found("workflow", name))?;
    match format.unwrap_or("mermaid") {
        "mermaid" => {
            let plain = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
            Ok((plain, diagram.mermaid(current)).into_response())
        }
        "json" => Ok(Json(json!({ "diagram": diagram, "current": current })).into_response()),
        other => Err(Problem::new(
            ProblemCode::QueryInvalid,
            format!("format: {other:?} is neither mermaid nor json"),
        )),
    }
}
