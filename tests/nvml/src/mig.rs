//! Partitions: the mode, GPU instances, compute instances in them, and MIG devices, one per compute instance.

use crate::{
    abi::{
        ARGUMENT_VERSION_MISMATCH, ComputeInstanceInfo, ComputeProfile, GpuInstanceInfo, GpuProfile, Handle,
        IN_USE, INSUFFICIENT_RESOURCES, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, Out, Placement,
        RESET_REQUIRED, Return, SUCCESS, list,
    },
    device::Device,
    profiles::{self, COMPUTE_SLICES, Profile},
    state::{Gpu, Host, Instance, nvml},
};
use std::ffi::{c_char, c_uint};

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

    /// Where a further instance of a profile could be.
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

/// The smallest number that no instance has.
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

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuInstanceProfileInfoV(
    device: Handle,
    profile: c_uint,
    to: Out<GpuProfile>,
) -> Return {
    nvml("nvmlDeviceGetGpuInstanceProfileInfoV", |host| {
        let (_, gpu) = host.gpu(device)?;
        let asked = to.get()?;
        if asked.version != (size_of::<GpuProfile>() as u32 | 2 << 24) {
            return Err(ARGUMENT_VERSION_MISMATCH);
        }
        if profile > 16 {
            return Err(INVALID_ARGUMENT);
        }
        let found = profiles::ALL.iter().find(|one| one.index == profile && gpu.mig_capable);
        let found = found.ok_or(NOT_SUPPORTED)?;
        let mut name = [0; 96];
        for (to, from) in name.iter_mut().zip(found.name.bytes()) {
            *to = from as c_char;
        }
        to.put(GpuProfile {
            version: asked.version,
            id: found.id,
            is_p2p: 0,
            slices: found.slices,
            instances: found.instances,
            multiprocessors: found.multiprocessors,
            engines: [1, 1, 0, 1, 0],
            memory_mb: found.memory_mb,
            name,
        })
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    device: Handle,
    profile: c_uint,
    to: Out<Placement>,
    count: Out<c_uint>,
) -> Return {
    nvml("nvmlDeviceGetGpuInstancePossiblePlacements_v2", |host| {
        let (_, gpu) = host.gpu(device)?;
        gpu.partitioned()?;
        let placements = Profile::of(profile).ok_or(NOT_SUPPORTED)?.placements();
        if to.is_null() {
            return count.put(placements.len() as c_uint);
        }
        list(placements, count, to)
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuInstanceRemainingCapacity(
    device: Handle,
    profile: c_uint,
    count: Out<c_uint>,
) -> Return {
    nvml("nvmlDeviceGetGpuInstanceRemainingCapacity", |host| {
        let (_, gpu) = host.gpu(device)?;
        gpu.partitioned()?;
        count.put(gpu.room(Profile::of(profile).ok_or(NOT_SUPPORTED)?).len() as c_uint)
    })
}

fn create(function: &str, device: Handle, profile: c_uint, at: Option<Placement>, to: Out<Handle>) -> Return {
    nvml(function, |host| {
        let (number, gpu) = host.gpu(device)?;
        gpu.partitioned()?;
        let profile = Profile::of(profile).ok_or(NOT_SUPPORTED)?;
        if at.is_some_and(|at| !profile.placements().contains(&at)) {
            return Err(INVALID_ARGUMENT);
        }
        let room = gpu.room(profile).into_iter().find(|room| at.is_none_or(|at| *room == at));
        let Placement { start, size } = room.ok_or(INSUFFICIENT_RESOURCES)?;
        let id = unused(&gpu.instances, 1);
        gpu.instances.push(Instance { id, profile: profile.id, start, size, compute: Vec::new() });
        host.log.push(format!("create gi {number}/{id} {} at {start}", profile.name));
        to.put(numbered(GPU_INSTANCES, number, id, 0))
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceCreateGpuInstance(device: Handle, profile: c_uint, to: Out<Handle>) -> Return {
    create("nvmlDeviceCreateGpuInstance", device, profile, None, to)
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceCreateGpuInstanceWithPlacement(
    device: Handle,
    profile: c_uint,
    placement: Out<Placement>,
    to: Out<Handle>,
) -> Return {
    match placement.get() {
        Ok(at) => create("nvmlDeviceCreateGpuInstanceWithPlacement", device, profile, Some(at), to),
        Err(code) => code,
    }
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceDestroy(instance: Handle) -> Return {
    nvml("nvmlGpuInstanceDestroy", |host| {
        let (number, gpu, at) = host.instance(instance)?;
        let Some(one) = gpu.instances.get(at) else { return Err(INVALID_ARGUMENT) };
        let id = one.id;
        if !one.compute.is_empty() || gpu.processes.iter().any(|process| process.gi == Some(id)) {
            return Err(IN_USE);
        }
        gpu.instances.remove(at);
        host.log.push(format!("destroy gi {number}/{id}"));
        Ok(())
    })
}

/// As in nvml.h: those of one profile.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuInstances(
    device: Handle,
    profile: c_uint,
    to: Out<Handle>,
    count: Out<c_uint>,
) -> Return {
    nvml("nvmlDeviceGetGpuInstances", |host| {
        let (number, gpu) = host.gpu(device)?;
        gpu.partitioned()?;
        let all = gpu.instances.iter().filter(|instance| instance.profile == profile);
        let all: Vec<_> = all.map(|one| numbered(GPU_INSTANCES, number, one.id, 0)).collect();
        count.put(all.len() as c_uint)?;
        list(all, count, to)
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuInstanceById(device: Handle, id: c_uint, to: Out<Handle>) -> Return {
    nvml("nvmlDeviceGetGpuInstanceById", |host| {
        let (number, gpu) = host.gpu(device)?;
        gpu.partitioned()?;
        let found = gpu.instances.iter().any(|instance| instance.id == id);
        if found { to.put(numbered(GPU_INSTANCES, number, id, 0)) } else { Err(NOT_FOUND) }
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceGetInfo(instance: Handle, to: Out<GpuInstanceInfo>) -> Return {
    nvml("nvmlGpuInstanceGetInfo", |host| {
        let (number, gpu, at) = host.instance(instance)?;
        let one = gpu.instances.get(at).ok_or(INVALID_ARGUMENT)?;
        to.put(GpuInstanceInfo {
            device: Device::Gpu(number).handle(),
            id: one.id,
            profile: one.profile,
            placement: Placement { start: one.start, size: one.size },
        })
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
    instance: Handle,
    profile: c_uint,
    _engines: c_uint,
    to: Out<ComputeProfile>,
) -> Return {
    nvml("nvmlGpuInstanceGetComputeInstanceProfileInfo", |host| {
        let (_, gpu, at) = host.instance(instance)?;
        let whole = slices_of(gpu, at)?;
        let slices = *COMPUTE_SLICES.get(profile as usize).ok_or(INVALID_ARGUMENT)?;
        if slices > whole || profile == 7 {
            return Err(NOT_SUPPORTED);
        }
        let instances = whole / slices;
        to.put(ComputeProfile {
            id: profile,
            slices,
            instances,
            multiprocessors: 16 * slices,
            engines: [1; 5],
        })
    })
}

fn slices_of(gpu: &Gpu, at: usize) -> Result<u32, Return> {
    let profile = gpu.instances.get(at).ok_or(INVALID_ARGUMENT)?.profile;
    Profile::of(profile).map(|profile| profile.slices).ok_or(INVALID_ARGUMENT)
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceCreateComputeInstance(
    instance: Handle,
    profile: c_uint,
    to: Out<Handle>,
) -> Return {
    nvml("nvmlGpuInstanceCreateComputeInstance", |host| {
        let (number, gpu, at) = host.instance(instance)?;
        let whole = slices_of(gpu, at)?;
        let size = *COMPUTE_SLICES.get(profile as usize).ok_or(INVALID_ARGUMENT)?;
        let one = gpu.instances.get_mut(at).ok_or(INVALID_ARGUMENT)?;
        let start: u32 = one.compute.iter().map(|ci| ci.size).sum();
        if start + size > whole {
            return Err(INSUFFICIENT_RESOURCES);
        }
        let (gi, id) = (one.id, unused(&one.compute, 0));
        one.compute.push(Instance { id, profile, start, size, compute: Vec::new() });
        host.log.push(format!("create ci {number}/{gi}/{id}"));
        to.put(numbered(COMPUTE_INSTANCES, number, gi, id))
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlComputeInstanceDestroy(instance: Handle) -> Return {
    nvml("nvmlComputeInstanceDestroy", |host| {
        let (number, gi, ci) = parts(COMPUTE_INSTANCES, instance)?;
        let (_, gpu, at) = host.instance(numbered(GPU_INSTANCES, number, gi, 0))?;
        let busy = gpu.processes.iter().any(|one| one.gi == Some(gi) && one.ci.unwrap_or(0) == ci);
        let all = &mut gpu.instances.get_mut(at).ok_or(INVALID_ARGUMENT)?.compute;
        let found = all.iter().position(|one| one.id == ci).ok_or(INVALID_ARGUMENT)?;
        if busy {
            return Err(IN_USE);
        }
        all.remove(found);
        host.log.push(format!("destroy ci {number}/{gi}/{ci}"));
        Ok(())
    })
}

/// As in nvml.h: those of one profile.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceGetComputeInstances(
    instance: Handle,
    profile: c_uint,
    to: Out<Handle>,
    count: Out<c_uint>,
) -> Return {
    nvml("nvmlGpuInstanceGetComputeInstances", |host| {
        let (number, gpu, at) = host.instance(instance)?;
        let one = gpu.instances.get(at).ok_or(INVALID_ARGUMENT)?;
        let all = one.compute.iter().filter(|ci| ci.profile == profile);
        let all: Vec<_> = all.map(|ci| numbered(COMPUTE_INSTANCES, number, one.id, ci.id)).collect();
        count.put(all.len() as c_uint)?;
        list(all, count, to)
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpuInstanceGetComputeInstanceById(
    instance: Handle,
    id: c_uint,
    to: Out<Handle>,
) -> Return {
    nvml("nvmlGpuInstanceGetComputeInstanceById", |host| {
        let (number, gpu, at) = host.instance(instance)?;
        let one = gpu.instances.get(at).ok_or(INVALID_ARGUMENT)?;
        let found = one.compute.iter().any(|ci| ci.id == id);
        if found { to.put(numbered(COMPUTE_INSTANCES, number, one.id, id)) } else { Err(NOT_FOUND) }
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlComputeInstanceGetInfo_v2(instance: Handle, to: Out<ComputeInstanceInfo>) -> Return {
    nvml("nvmlComputeInstanceGetInfo_v2", |host| {
        let (number, gi, ci) = parts(COMPUTE_INSTANCES, instance)?;
        let gpu_instance = numbered(GPU_INSTANCES, number, gi, 0);
        let (_, gpu, at) = host.instance(gpu_instance)?;
        let one = gpu.instances.get(at).ok_or(INVALID_ARGUMENT)?;
        let found = one.compute.iter().find(|one| one.id == ci).ok_or(INVALID_ARGUMENT)?;
        to.put(ComputeInstanceInfo {
            device: Device::Gpu(number).handle(),
            gpu_instance,
            id: ci,
            profile: found.profile,
            placement: Placement { start: found.start, size: found.size },
        })
    })
}
