//! What serves the capabilities: today a simulated world, the GPU facts of this machine by NVML, and the keys of sealed records.

pub mod nvml;
pub mod records;
pub mod simulated;
