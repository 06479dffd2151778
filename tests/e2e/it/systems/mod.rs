//! External systems behind the shipped hook recipes, each with a real server: groups of users in a SCIM service, repositories
//! in a container registry, records in a name server.

mod conformance;
mod life;
mod looks;
mod servers;

use backends::{
    exec::{ExecTarget, Program},
    hooks::{HookBackend, System},
};
use serde_json::{Value, json};
use std::{path::PathBuf, sync::Arc, time::Duration};
use store::Epoch;
use workflows::platform::CallMetadata;

fn stamp(step: &str) -> CallMetadata {
    CallMetadata {
        action: "test",
        step: step.into(),
        key: step.into(),
        epoch: Epoch(1),
        undo: false,
        deadline: Duration::from_secs(30),
        dry_run: false,
    }
}

/// Returns the path of a shipped recipe.
fn recipe(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/recipes"))
        .join(name)
        .join("hook.sh")
}

/// The settings of a recipe with these arguments.
fn exec(name: &str, arguments: &[&str]) -> Value {
    json!({ "exec": { "program": recipe(name), "arguments": arguments, "environment": ["PATH"] } })
}

fn program(name: &str, arguments: &[&str]) -> Arc<dyn HookBackend> {
    let mut target = ExecTarget::new(recipe(name));
    target.arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    target.environment = vec!["PATH".into()];
    Arc::new(Program::connect(&target).unwrap())
}

/// A system behind a recipe, with different arguments for changes and for the verifier's observations.
fn system(system: &'static str, name: &str, hook: &[&str], verifier: &[&str]) -> System {
    System::new(system, program(name, hook), program(name, verifier))
}
