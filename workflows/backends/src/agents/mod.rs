//! GPUs of machines that run an agent. Calls are queued, and the agent polls for them.
//!
//! The agent connects to the server, so nodes need not be reachable. Invariant: an order that was not delivered has
//! changed nothing and fails as *unavailable*; an order that was delivered but not answered in time is *unknown*.
//! Queues are only in memory: the engine retries a call with its key, and the node's state file records the keys that
//! took effect. See `docs/backends/gpu.md`.

mod capabilities;
#[cfg(feature = "nvml")]
mod executor;
mod protocol;
mod queue;
mod settings;

pub use crate::agents::capabilities::GpusByAgents;
#[cfg(feature = "nvml")]
pub use crate::agents::executor::Executor;
pub use crate::agents::protocol::{
    Answer, Command, IssuedCommand, NodeReport, Output, PullRequest, PullResponse,
};
pub use crate::agents::queue::{AgentEntry, Agents};
pub use crate::agents::settings::AgentsTarget;
