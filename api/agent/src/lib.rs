//! The node agent: runs on a node with GPUs, pulls commands from servers, and executes them.
//!
//! The agent only opens connections. It has one link per server, because a server puts the commands of its own steps into its own queue.
//! Invariant: a command that must not run twice is recorded in the node's file before it starts.

mod command_line;
#[cfg(feature = "nvml")]
mod link;
mod options;
#[cfg(feature = "nvml")]
mod serve;

pub use command_line::main;
pub use options::Options;

use program::{
    exit::{Exit, Failure},
    logs::{self, Log},
};
use std::path::Path;

/// Runs an agent for `servers` and trusts the authorities in `ca_file` in addition to the system's. `coloured` is true if text log lines
/// have colours.
///
/// # Errors
/// The options are not valid, or another agent is running.
pub fn run(
    options: &Options,
    servers: Option<&str>,
    ca_file: Option<&Path>,
    coloured: bool,
) -> Result<Exit, Failure> {
    let format = options.log_format.unwrap_or_default();
    logs::begin(&Log { format, ..Log::default() }, coloured).map_err(Failure::other)?;
    run_on(options, servers, ca_file)
}

#[cfg(feature = "nvml")]
fn run_on(options: &Options, servers: Option<&str>, ca_file: Option<&Path>) -> Result<Exit, Failure> {
    let settings = options.settings(servers, ca_file)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(Failure::other)?;
    let ended = runtime.block_on(serve::serve(settings));
    // A driver that hangs blocks its thread, but not the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    ended
}

#[cfg(not(feature = "nvml"))]
fn run_on(_: &Options, _: Option<&str>, _: Option<&Path>) -> Result<Exit, Failure> {
    Err(Failure::new(
        Exit::Usage,
        "this program was built without GPU support; build it with `--features nvml`",
    ))
}
