//! The processes that have a GPU open.

use crate::{
    abi::{Handle, Out, ProcessInfo, Return, list},
    device::Device,
    state::nvml,
};
use std::ffi::c_uint;

fn processes(function: &str, kind: &str, device: Handle, count: Out<c_uint>, to: Out<ProcessInfo>) -> Return {
    nvml(function, |host| {
        let (device, gpu) = host.device(device)?;
        let here = gpu.processes.iter().filter(|process| match device {
            Device::Gpu(_) => true,
            Device::Mig(_, gi, ci) => process.gi == Some(gi) && process.ci.unwrap_or(0) == ci,
        });
        let here = here.filter(|process| process.kind == kind).map(|process| ProcessInfo {
            pid: process.pid,
            used_memory: process.memory_mib << 20,
            gpu_instance: process.gi.unwrap_or(u32::MAX),
            compute_instance: process.ci.unwrap_or(u32::MAX),
        });
        list(here.collect(), count, to)
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Handle,
    count: Out<c_uint>,
    to: Out<ProcessInfo>,
) -> Return {
    processes("nvmlDeviceGetComputeRunningProcesses_v3", "compute", device, count, to)
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: Handle,
    count: Out<c_uint>,
    to: Out<ProcessInfo>,
) -> Return {
    processes("nvmlDeviceGetGraphicsRunningProcesses_v3", "graphics", device, count, to)
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
    device: Handle,
    count: Out<c_uint>,
    to: Out<ProcessInfo>,
) -> Return {
    processes("nvmlDeviceGetMPSComputeRunningProcesses_v3", "mps", device, count, to)
}
