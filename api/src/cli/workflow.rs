//! `tenure workflow`: what can run, its picture, and the proof that it survives. Needs no server.

use super::{
    args::{Common, Format, Workflow},
    output,
};
use crate::{
    exit::{Exit, Failure},
    server,
};
use engine::{Diagram, Engine, SystemClock, Workflow as _};
use serde_json::json;
use std::sync::Arc;
use store::Memory;
use workflows::{
    backends::simulated::LocalWorld, offboarding::Offboarding, onboarding::Onboarding, platform::Platform,
    proof, sanitisation::NodeSanitisation,
};

pub(super) async fn run(common: &Common, command: Workflow) -> Result<Exit, Failure> {
    let diagrams = diagrams()?;
    match command {
        Workflow::List => {
            let row = |drawn: &Diagram| json!({ "name": drawn.workflow, "schema": drawn.schema, "states": drawn.states.len() });
            let columns = [("name", "/name"), ("schema", "/schema"), ("states", "/states")];
            output::list(common.output, diagrams.iter().map(row).collect(), &columns)?;
            Ok(Exit::Done)
        }
        Workflow::Diagram { name } => {
            let drawn = named(&diagrams, &name)?;
            match common.output {
                Format::Json => output::one(Format::Json, &json!(drawn))?,
                Format::Table => output::say(&drawn.mermaid(None))?,
            }
            Ok(Exit::Done)
        }
        Workflow::Verify { name } => {
            if let Some(name) = &name {
                named(&diagrams, name)?;
            }
            proved(common, name.as_deref().unwrap_or(Onboarding::NAME)).await
        }
    }
}

/// Runs the sweep; the numbers are the answer.
async fn proved(common: &Common, name: &str) -> Result<Exit, Failure> {
    output::note(
        "every action is made to go wrong in every way, with a crash at every commit; this takes a minute",
    );
    let report = match name {
        Offboarding::NAME => proof::offboarding().await?,
        NodeSanitisation::NAME => proof::node_sanitisation().await?,
        _ => proof::onboarding().await?,
    };
    match common.output {
        Format::Table => output::say(&format!("{report}\n"))?,
        Format::Json => output::one(
            Format::Json,
            &json!({
                "workflow": report.workflow,
                "runs": report.runs,
                "by_kind": report.by_kind,
                "actions": report.actions,
                "edges": report.edges.len(),
                "edges_taken": report.edges.intersection(&report.taken).count(),
                "uncovered": report.uncovered(),
                "complaints": report.complaints,
                "sound": report.passed(),
            }),
        )?,
    }
    Ok(if report.passed() { Exit::Done } else { Exit::Failed })
}

/// Every workflow of the product. One with a flaw does not register, so each drawn here has passed the static check.
fn diagrams() -> Result<Vec<Diagram>, Failure> {
    let platform = Platform::simulated(Arc::new(LocalWorld::new()));
    let engine = Engine::new(Arc::new(Memory::new()), Arc::new(SystemClock), platform);
    Ok(server::registered(engine)?.diagrams())
}

fn named<'a>(diagrams: &'a [Diagram], name: &str) -> Result<&'a Diagram, Failure> {
    let known = || diagrams.iter().map(|d| d.workflow.as_str()).collect::<Vec<_>>().join(", ");
    let missing =
        || Failure::new(Exit::NotFound, format!("there is no workflow {name}; there are: {}", known()));
    diagrams.iter().find(|drawn| drawn.workflow == name).ok_or_else(missing)
}
