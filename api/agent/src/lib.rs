//! The agent: runs on a node with GPUs, comes to servers for orders, and carries them out there.
//!
//! It only calls, and is never called. One link a server: whichever of them runs a step lays the order into its own mailbox, so the
//! agent comes to each. Invariant: what must not be done twice is in the node's file before it is begun.

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

/// Runs an agent for `servers`, trusting the authorities in `ca_file` beside the system's. `coloured` is whether log lines stand out by
/// colour.
///
/// # Errors
/// Options that cannot be worked with, and an agent that runs already.
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
    // A driver that hangs keeps its thread for ever, and not the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    ended
}

#[cfg(not(feature = "nvml"))]
fn run_on(_: &Options, _: Option<&str>, _: Option<&Path>) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::Usage, "this tenure was built without GPUs: build it with `--features nvml`"))
}
