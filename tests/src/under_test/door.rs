//! Access to a server's platform, for tests: calls to the agents' backend, with any key, epoch and deadline.

use axum::{Json, Router, extract::State, routing::post};
use backends::agents::{Command, Output};
use engine::{ActionError, Engine, InvalidWorkflow};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};
use store::Epoch;
use workflows::platform::{CallMetadata, Platform};

/// A call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// The cluster.
    pub cluster: String,
    /// The node.
    pub node: String,
    /// The command.
    pub command: Command,
    /// The step.
    pub step: String,
    /// The idempotency key.
    pub key: String,
    /// The fencing token.
    pub epoch: u64,
    /// The time for an answer, in milliseconds.
    pub deadline_ms: u64,
    /// True if nothing may change.
    pub dry_run: bool,
}

/// The result of a call.
pub type Came = Result<Output, ActionError>;

/// Opens the access on a free port, and writes its address to the file that `UNDER_TEST_DOOR` names.
///
/// # Errors
/// Never: the engine is passed on as it is.
///
/// # Panics
/// If the variable is missing, or the file cannot be written.
pub fn open(engine: Engine<Platform>) -> Result<Engine<Platform>, InvalidWorkflow> {
    let file = std::env::var_os("UNDER_TEST_DOOR").expect("UNDER_TEST_DOOR names a file");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.set_nonblocking(true).expect("a listener can wait");
    let address = listener.local_addr().expect("a listener has an address");
    std::fs::write(file, address.to_string()).expect("the file can be written");
    let router = Router::new().route("/call", post(call)).with_state(engine.platform().clone());
    tokio::spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("the listener is sound");
        axum::serve(listener, router).await.expect("the door stays open");
    });
    Ok(engine)
}

async fn call(State(on): State<Arc<Platform>>, Json(asked): Json<Asked>) -> Json<Came> {
    let stamp = CallMetadata {
        action: "Test",
        step: asked.step,
        key: asked.key,
        epoch: Epoch(asked.epoch),
        undo: false,
        deadline: Duration::from_millis(asked.deadline_ms),
        dry_run: asked.dry_run,
    };
    let (cluster, node) = (asked.cluster.as_str(), asked.node.as_str());
    let done = |()| Output::Done;
    Json(match &asked.command {
        Command::Layout => on.gpus.layout(cluster, node, &stamp).await.map(Output::Layout),
        Command::SetLayout { profile } => on.gpus.set_layout(cluster, node, profile, &stamp).await.map(done),
        Command::Diagnose { level } => {
            on.gpus.diagnose(cluster, node, *level, &stamp).await.map(Output::Diagnosis)
        }
        Command::Health => on.gpus.health(cluster, node, &stamp).await.map(Output::Health),
        Command::Reset => on.gpus.reset(cluster, node, &stamp).await.map(done),
        Command::Reboot { boot } => on.gpus.reboot(cluster, node, boot, &stamp).await.map(done),
        Command::Clients { gpus } => {
            on.workloads.clients(cluster, node, gpus, &stamp).await.map(Output::Clients)
        }
        Command::Scrub { gpus, level } => {
            on.workloads.scrub(cluster, node, gpus, *level, &stamp).await.map(Output::Scrubbed)
        }
    })
}
