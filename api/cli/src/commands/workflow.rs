//! `tenure workflow`: lists, draws and verifies workflows without a server, and migrates executions of earlier versions on a server.

use crate::{
    client::{Body, Client, escape},
    commands::lab,
    common::{Common, Format},
    dry_run::DryRun,
    output::{self, Column},
};
use backends::simulated::{LocalWorld, simulated_platform};
use clap::Subcommand;
use engine::{Diagram, Engine, SystemClock};
use program::exit::{Exit, Failure};
use serde_json::{Value, json};
use std::sync::Arc;
use store::Memory;

/// Workflow commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Workflow {
    /// List workflows.
    List,
    /// Print a workflow's state diagram (Mermaid).
    Diagram {
        /// Workflow name.
        name: String,
    },
    /// List the schema versions of open executions.
    Versions,
    /// List executions that need old schemas.
    Blockers {
        /// Only this workflow.
        #[arg(long)]
        workflow: Option<String>,
    },
    /// Migrate open executions to the current schema.
    Migrate {
        /// Only this workflow.
        #[arg(long)]
        workflow: Option<String>,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Verify workflows under injected faults.
    Verify {
        /// Workflow name [default: all].
        name: Option<String>,
    },
}

pub(crate) async fn run(common: &Common, command: Workflow) -> Result<Exit, Failure> {
    let diagrams = diagrams()?;
    match command {
        Workflow::Versions => {
            let items = Client::of(common)?.all("/v1/workflow-versions", "").await?;
            output::list(common.output, items, VERSIONS)?;
            Ok(Exit::Done)
        }
        Workflow::Blockers { workflow } => {
            let query = workflow.map(|name| format!("?workflow={}", escape(&name))).unwrap_or_default();
            let path = format!("/v1/workflow-versions/blockers{query}");
            let items = listed(Client::of(common)?.get(&path).await?.value()?);
            output::list(common.output, items, OUTDATED)?;
            Ok(Exit::Done)
        }
        Workflow::Migrate { workflow, dry_run } => {
            let (client, path) = (Client::of(common)?, "/v1/workflow-versions:migrate");
            let body = json!({ "workflow": workflow });
            let answer = match dry_run.is_wanted() {
                true => client.foresee_by_field(path, body).await?,
                false => client.post(path, Body::json(&body)).await?,
            };
            let items = listed(answer.value()?);
            let refused =
                items.iter().any(|item| item.get("answer").is_some_and(|answer| answer == "refused"));
            let changes = !items.is_empty();
            output::list(common.output, items, OUTDATED)?;
            Ok(if refused { Exit::Conflict } else { dry_run.exit(changes) })
        }
        Workflow::List => {
            let row = |drawn: &Diagram| json!({ "name": drawn.workflow, "schema": drawn.schema, "states": drawn.states.len() });
            let columns = [("name", "/name"), ("schema", "/schema"), ("states", "/states")];
            output::list(common.output, diagrams.iter().map(row).collect(), &columns)?;
            Ok(Exit::Done)
        }
        Workflow::Diagram { name } => {
            let drawn = named(&diagrams, &name)?;
            match common.output {
                format @ (Format::Json | Format::Yaml) => output::one(format, &json!(drawn))?,
                Format::Table => output::say(&drawn.mermaid(None))?,
            }
            Ok(Exit::Done)
        }
        Workflow::Verify { name: Some(name) } => {
            named(&diagrams, &name)?;
            lab::verify(common, &[name]).await
        }
        Workflow::Verify { name: None } => {
            let all: Vec<String> = diagrams.into_iter().map(|drawn| drawn.workflow).collect();
            lab::verify(common, &all).await
        }
    }
}

const VERSIONS: &[Column] = &[
    ("workflow", "/workflow"),
    ("schema", "/schema"),
    ("open", "/open"),
    ("this server", "/here"),
    ("standing", "/standing"),
];

const OUTDATED: &[Column] = &[
    ("id", "/id"),
    ("workflow", "/workflow"),
    ("schema", "/schema"),
    ("state", "/state"),
    ("answer", "/answer"),
    ("to", "/to"),
    ("waits for", "/waits_for"),
    ("reason", "/why"),
];

fn listed(mut answer: Value) -> Vec<Value> {
    match answer.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// Returns the diagrams of all workflows. A workflow with a flaw does not register, so each one has passed the static check.
pub(crate) fn diagrams() -> Result<Vec<Diagram>, Failure> {
    let platform = simulated_platform(Arc::new(LocalWorld::new()));
    let engine = Engine::new(Arc::new(Memory::new()), Arc::new(SystemClock), platform);
    Ok(workflows::registered(engine).map_err(Failure::other)?.diagrams())
}

fn named<'a>(diagrams: &'a [Diagram], name: &str) -> Result<&'a Diagram, Failure> {
    let known = || diagrams.iter().map(|d| d.workflow.as_str()).collect::<Vec<_>>().join(", ");
    let missing = || {
        Failure::new(Exit::NotFound, format!("workflow {name} does not exist; known workflows: {}", known()))
    };
    diagrams.iter().find(|drawn| drawn.workflow == name).ok_or_else(missing)
}
