//! Compute instances in a GPU instance.

use super::{COMPUTE_INSTANCES, GPU_INSTANCES, numbered, parts, unused};
use crate::{
    abi::{
        ComputeInstanceInfo, ComputeProfile, Handle, IN_USE, INSUFFICIENT_RESOURCES, INVALID_ARGUMENT,
        NOT_FOUND, NOT_SUPPORTED, Out, Placement, Return, list,
    },
    device::Device,
    profiles::{COMPUTE_SLICES, Profile},
    state::{Gpu, Instance, nvml},
};
use std::ffi::c_uint;

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

/// As in nvml.h: the instances of one profile.
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
