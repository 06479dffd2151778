//! GPUs of machines on which an agent runs: calls are laid into a mailbox, and the agent comes for them.
//!
//! The agent calls, the server never does: no node needs to be reachable. Invariant: an order that was not handed over has changed
//! nothing, and is *unavailable*; one that was handed over and not answered in time is *unknown*. Mailboxes are in memory alone: the
//! engine repeats a call with its key, and the node's own file knows which keys have acted. `docs/backends/gpu.md` has the agent.

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
