//! The GPUs of this machine: NVML for what they are and how they are partitioned, the CUDA driver for clearing their memory.
//!
//! Both libraries come with the driver and are loaded at run time. Where they are absent, nothing reads as free, healthy or
//! clean: it is an error that says what is missing. [`LocalNode`] serves one machine; it must run on it. NVML compares no
//! epoch and knows no key, so the node keeps both in a file of its own. `docs/backends/gpu.md` has the settings.
//!
//! Raw calls are in two modules, `raw` for NVML's instances and `scrub::cuda`, which nothing outside sees.

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
