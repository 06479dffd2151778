//! `/v1/workflows`: what can run, and its picture.

use crate::{
    auth::Verb,
    http::{
        extract::{
            Asked,
            page::{Listed, Paging},
        },
        problem::{Problem, code::Code},
        route::{Access, Route},
        route_doc::told,
    },
    state::{App, Shared},
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
        Route::get(
            "/v1/workflows",
            read,
            list,
            told("listWorkflows", "Lists what can run.").lists::<Workflow>(),
        ),
        Route::get(
            "/v1/workflows/{name}/diagram",
            read,
            diagram,
            told("drawWorkflow", "The picture of a workflow, as Mermaid or JSON.")
                .file(200, "text/plain")
                .says::<Drawn>(200),
        ),
    ]
}

async fn list(
    State(app): State<Shared>,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Listed<Workflow>>, Problem> {
    let row = |drawn: engine::Diagram| Workflow {
        name: drawn.workflow,
        schema: drawn.schema,
        initial: drawn.initial,
        states: drawn.states.len(),
    };
    let page = paging.page()?;
    Ok(Json(Listed::part(app.engine.diagrams(), &page, |drawn| drawn.workflow.clone()).each(row)))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Drawing {
    format: Option<String>,
}

async fn diagram(
    State(app): State<Shared>,
    Path(name): Path<String>,
    Asked(drawing): Asked<Drawing>,
) -> Result<Response, Problem> {
    drawn(&app, &name, drawing.format.as_deref(), None)
}

/// The picture of a workflow as Mermaid (the default) or JSON, with `current` lit.
pub(in crate::http) fn drawn(
    app: &App,
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
        other => {
            Err(Problem::new(Code::QueryInvalid, format!("format: {other:?} is neither mermaid nor json")))
        }
    }
}
