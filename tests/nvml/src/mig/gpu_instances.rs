//! GPU instances: profiles, placements, creation and removal.

use super::{GPU_INSTANCES, numbered, unused};
use crate::{
    abi::{
        ARGUMENT_VERSION_MISMATCH, GpuInstanceInfo, GpuProfile, Handle, IN_USE, INSUFFICIENT_RESOURCES,
        INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, Out, Placement, Return, list,
    },
    device::Device,
    profiles::{self, Profile},
    state::{Instance, nvml},
};
use std::ffi::{c_char, c_uint};

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

/// As in nvml.h: the instances of one profile.
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
