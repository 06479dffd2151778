//! Partitions: the mode, and MIG devices, one per compute instance.

pub mod compute_instances;
pub mod gpu_instances;

use crate::{
    abi::{
        Handle, IN_USE, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, Out, Placement, RESET_REQUIRED, Return,
        SUCCESS,
    },
    device::Device,
    profiles::Profile,
    state::{Gpu, Host, Instance, nvml},
};
use std::ffi::c_uint;

const GPU_INSTANCES: usize = 0x100_0000;
const COMPUTE_INSTANCES: usize = 0x200_0000;

fn numbered(base: usize, gpu: usize, gi: u32, ci: u32) -> Handle {
    Handle(base + (gpu << 16) + ((gi as usize) << 8) + ci as usize)
}

fn parts(base: usize, handle: Handle) -> Result<(usize, u32, u32), Return> {
    let at = handle.0.checked_sub(base).filter(|at| *at < GPU_INSTANCES).ok_or(INVALID_ARGUMENT)?;
    let byte = |shift: usize| ((at >> shift) & 0xff) as u32;
    Ok((at >> 16, byte(8), byte(0)))
}

impl Host {
    fn instance(&mut self, handle: Handle) -> Result<(usize, &mut Gpu, usize), Return> {
        let (number, gi, _) = parts(GPU_INSTANCES, handle)?;
        let (_, gpu) = self.gpu(Device::Gpu(number).handle())?;
        let at = gpu.instances.iter().position(|instance| instance.id == gi).ok_or(INVALID_ARGUMENT)?;
        Ok((number, gpu, at))
    }
}

impl Gpu {
    fn partitioned(&self) -> Result<(), Return> {
        if self.mig_capable && self.mig_current == 1 { Ok(()) } else { Err(NOT_SUPPORTED) }
    }

    /// Returns the possible placements of another instance of a profile.
    fn room(&self, profile: &Profile) -> Vec<Placement> {
        let same = self.instances.iter().filter(|instance| instance.profile == profile.id).count();
        if same as u32 >= profile.instances {
            return Vec::new();
        }
        let free = |at: &Placement| {
            !self
                .instances
                .iter()
                .any(|one| at.start < one.start + one.size && one.start < at.start + at.size)
        };
        let slices: u32 =
            self.instances.iter().filter_map(|one| Profile::of(one.profile)).map(|one| one.slices).sum();
        if slices + profile.slices > 7 {
            return Vec::new();
        }
        profile.placements().into_iter().filter(free).collect()
    }
}

/// Returns the smallest number that no instance has.
fn unused(instances: &[Instance], from: u32) -> u32 {
    (from..).find(|id| instances.iter().all(|one| one.id != *id)).unwrap_or(from)
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigMode(device: Handle, current: Out<c_uint>, pending: Out<c_uint>) -> Return {
    nvml("nvmlDeviceGetMigMode", |host| {
        let (_, gpu) = host.gpu(device)?;
        if !gpu.mig_capable {
            return Err(NOT_SUPPORTED);
        }
        current.put(gpu.mig_current)?;
        pending.put(gpu.mig_pending)
    })
}

/// As in nvml.h: with clients on the GPU, or where it must be reset, the mode is only pending afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceSetMigMode(device: Handle, mode: c_uint, status: Out<Return>) -> Return {
    nvml("nvmlDeviceSetMigMode", |host| {
        let (number, gpu) = host.gpu(device)?;
        if !gpu.mig_capable {
            return Err(NOT_SUPPORTED);
        }
        if mode == 0 && !gpu.instances.is_empty() {
            status.put(IN_USE)?;
            return Err(IN_USE);
        }
        gpu.mig_pending = mode;
        let activation = if mode == gpu.mig_current {
            SUCCESS
        } else if !gpu.processes.is_empty() {
            IN_USE
        } else if gpu.mig_needs_reset {
            RESET_REQUIRED
        } else {
            gpu.mig_current = mode;
            SUCCESS
        };
        host.log.push(format!("mig {number} {mode}"));
        status.put(activation)
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: Handle, count: Out<c_uint>) -> Return {
    nvml("nvmlDeviceGetMaxMigDeviceCount", |host| {
        let (_, gpu) = host.gpu(device)?;
        count.put(if gpu.mig_capable { 7 } else { 0 })
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: Handle,
    index: c_uint,
    to: Out<Handle>,
) -> Return {
    nvml("nvmlDeviceGetMigDeviceHandleByIndex", |host| {
        let (number, gpu) = host.gpu(device)?;
        if index >= 7 {
            return Err(INVALID_ARGUMENT);
        }
        let mut all = gpu.instances.iter().flat_map(|one| one.compute.iter().map(|ci| (one.id, ci.id)));
        let (gi, ci) = all.nth(index as usize).ok_or(NOT_FOUND)?;
        to.put(Device::Mig(number, gi, ci).handle())
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device: Handle, to: Out<Handle>) -> Return {
    nvml("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", |host| match host.device(device)? {
        (Device::Mig(number, _, _), _) => to.put(Device::Gpu(number).handle()),
        (Device::Gpu(_), _) => Err(INVALID_ARGUMENT),
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceIsMigDeviceHandle(device: Handle, to: Out<c_uint>) -> Return {
    nvml("nvmlDeviceIsMigDeviceHandle", |host| {
        let (device, _) = host.device(device)?;
        to.put(matches!(device, Device::Mig(..)).into())
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuInstanceId(device: Handle, to: Out<c_uint>) -> Return {
    nvml("nvmlDeviceGetGpuInstanceId", |host| match host.device(device)? {
        (Device::Mig(_, gi, _), _) => to.put(gi),
        (Device::Gpu(_), _) => Err(NOT_SUPPORTED),
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeInstanceId(device: Handle, to: Out<c_uint>) -> Return {
    nvml("nvmlDeviceGetComputeInstanceId", |host| match host.device(device)? {
        (Device::Mig(_, _, ci), _) => to.put(ci),
        (Device::Gpu(_), _) => Err(NOT_SUPPORTED),
    })
}
