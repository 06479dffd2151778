//! GPUs of this machine: NVML for facts and partitions, the CUDA driver for clearing memory.
//!
//! Both libraries belong to the driver and are loaded at run time. If one is missing, calls fail with an error that
//! names it; no GPU is reported as free, healthy or clean. [`LocalNode`] serves the machine on which it runs. NVML has
//! no epochs and no idempotency keys, so the node stores both in a state file. See `docs/backends/gpu.md` for the
//! settings.
//!
//! Raw calls are private to two modules: `bindings` for NVML instances and `scrub::cuda`.

#[cfg(feature = "nvml")]
mod bindings;
#[cfg(feature = "nvml")]
mod clients;
#[cfg(feature = "nvml")]
mod diagnosis;
#[cfg(feature = "nvml")]
mod error;
mod facts;
#[cfg(feature = "nvml")]
mod health;
#[cfg(feature = "nvml")]
pub mod layout;
#[cfg(feature = "nvml")]
mod layout_change;
#[cfg(feature = "nvml")]
pub mod layout_label;
#[cfg(feature = "nvml")]
mod node;
#[cfg(feature = "nvml")]
mod node_state;
#[cfg(feature = "nvml")]
mod scrub;
#[cfg(feature = "nvml")]
mod scrub_step;
#[cfg(feature = "nvml")]
mod settings;

#[cfg(feature = "nvml")]
pub use crate::nvml::{
    clients::Client,
    error::{Fault, Kind},
    node::LocalNode,
    scrub::Scrub,
    settings::{NvmlTarget, TargetError},
};
pub use facts::{GpuFact, GpuFacts, Mig, NotAvailable};
