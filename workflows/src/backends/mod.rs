//! What serves the capabilities: today a simulated world, and the GPU facts of this machine by NVML.

pub mod nvml;
pub mod simulated;
