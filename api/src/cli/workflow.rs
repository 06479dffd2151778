//! `tenure workflow`: what can run, its picture, and the proof that it survives. Needs no server.

use super::{
    args::{Common, Format, Workflow},
    output,
};
use crate::{
    exit::{Exit, Failure},
    server,
};
use engine::{Diagram, Engine, SystemClock};
use serde_json::{Value, json};
use std::sync::Arc;
use store::Memory;
use workflows::{backends::simulated::LocalWorld, platform::Platform};

pub(super) fn run(common: &Common, command: Workflow) -> Result<Exit, Failure> {
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
            let wanted = diagrams.iter().filter(|d| name.as_ref().is_none_or(|name| *name == d.workflow));
            let verified = wanted.map(verified).collect();
            let columns =
                [("name", "/name"), ("states", "/states"), ("ways", "/ways"), ("static check", "/check")];
            output::list(common.output, verified, &columns)?;
            Ok(Exit::Done)
        }
    }
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

fn verified(drawn: &Diagram) -> Value {
    json!({
        "name": drawn.workflow,
        "states": drawn.states.len(),
        "ways": drawn.edges.len(),
        "check": "passed",
    })
}
