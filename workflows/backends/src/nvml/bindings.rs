//! Raw NVML calls for GPU instances and compute instances, for which the wrapper has no safe function.
//!
//! Handles never leave a function. Callers refer to an instance by its number, and each call looks up a fresh handle.
#![expect(unsafe_code, reason = "GPU and compute instances can only be had through the raw bindings")]

use crate::nvml::{
    error::Fault,
    layout::{ComputeInstance, GpuInstance, Placement, Profile},
};
use nvml_wrapper::{
    Device,
    error::{NvmlError, nvml_sym, nvml_try},
};
use nvml_wrapper_sys::bindings as sys;
use std::{ffi::CStr, ptr::null_mut};

/// An upper limit for the instances of one profile on a GPU.
const MOST: usize = 64;

/// Converts the return code of a call to a result.
fn checked(call: &str, code: sys::nvmlReturn_t) -> Result<(), Fault> {
    nvml_try(code).map_err(|error| Fault::of(call, &error))
}

/// Converts a return code to a result; `false` if the feature is not supported.
fn if_supported(call: &str, code: sys::nvmlReturn_t) -> Result<bool, Fault> {
    match nvml_try(code) {
        Ok(()) => Ok(true),
        Err(NvmlError::NotSupported | NvmlError::InvalidArg) => Ok(false),
        Err(error) => Err(Fault::of(call, &error)),
    }
}

/// Returns a function of the library. Fails if this driver does not export it.
fn symbol<F: Copy>(call: &str, loaded: Result<&F, &libloading::Error>) -> Result<F, Fault> {
    nvml_sym(loaded).copied().map_err(|error| Fault::of(call, &error))
}

fn handle(device: &Device<'_>) -> sys::nvmlDevice_t {
    // SAFETY: the handle is only passed to its own library, which outlives the device.
    unsafe { device.handle() }
}

/// Returns the GPU instance profiles of a GPU. While MIG is off, the driver reports no placements, so the profiles have
/// none.
pub(super) fn profiles(device: &Device<'_>) -> Result<Vec<Profile>, Fault> {
    const CALL: &str = "nvmlDeviceGetGpuInstanceProfileInfoV";
    let info_of = symbol(CALL, device.nvml().lib().nvmlDeviceGetGpuInstanceProfileInfoV.as_ref())?;
    let mut profiles = Vec::new();
    for number in 0..sys::NVML_GPU_INSTANCE_PROFILE_COUNT {
        // SAFETY: the struct consists of integers and a byte array, for which all zeros is a valid value.
        let mut info: sys::nvmlGpuInstanceProfileInfo_v2_t = unsafe { std::mem::zeroed() };
        info.version = u32::try_from(size_of_val(&info)).unwrap_or(0) | 2 << 24;
        // SAFETY: the handle belongs to this library, and the struct has the size that its version states.
        if !if_supported(CALL, unsafe { info_of(handle(device), number, &raw mut info) })? {
            continue;
        }
        // SAFETY: the driver ends the name with a nul within the array, which was all zeros.
        let name = unsafe { CStr::from_ptr(info.name.as_ptr()) }.to_string_lossy();
        profiles.push(Profile {
            id: info.id,
            name: name.strip_prefix("MIG ").unwrap_or(&name).to_owned(),
            slices: info.sliceCount,
            instances: info.instanceCount,
            placements: placements(device, info.id)?,
        });
    }
    Ok(profiles)
}

fn placements(device: &Device<'_>, profile: u32) -> Result<Vec<Placement>, Fault> {
    const CALL: &str = "nvmlDeviceGetGpuInstancePossiblePlacements_v2";
    let call = symbol(CALL, device.nvml().lib().nvmlDeviceGetGpuInstancePossiblePlacements_v2.as_ref())?;
    let mut count = 0;
    // SAFETY: the handle belongs to this library. Without an array, the call writes only the count.
    if !if_supported(CALL, unsafe { call(handle(device), profile, null_mut(), &raw mut count) })? {
        return Ok(Vec::new());
    }
    let mut places = vec![sys::nvmlGpuInstancePlacement_t { start: 0, size: 0 }; count as usize];
    // SAFETY: the array has `count` elements.
    checked(CALL, unsafe { call(handle(device), profile, places.as_mut_ptr(), &raw mut count) })?;
    places.truncate(count as usize);
    Ok(places.iter().map(|place| Placement { start: place.start, size: place.size }).collect())
}

/// Returns the GPU instances of a partitioned GPU.
pub(super) fn instances(device: &Device<'_>, profiles: &[Profile]) -> Result<Vec<GpuInstance>, Fault> {
    const CALL: &str = "nvmlDeviceGetGpuInstances";
    let lib = device.nvml().lib();
    let list = symbol(CALL, lib.nvmlDeviceGetGpuInstances.as_ref())?;
    let info_of = symbol("nvmlGpuInstanceGetInfo", lib.nvmlGpuInstanceGetInfo.as_ref())?;
    let mut all = Vec::new();
    for profile in profiles {
        let (mut handles, mut count) = ([null_mut(); MOST], 0);
        // SAFETY: the array is larger than the number of instances of a profile on any GPU.
        checked(CALL, unsafe { list(handle(device), profile.id, handles.as_mut_ptr(), &raw mut count) })?;
        for instance in handles.into_iter().take(count as usize) {
            // SAFETY: the struct consists of a pointer and integers, for which all zeros is a valid value.
            let mut info: sys::nvmlGpuInstanceInfo_t = unsafe { std::mem::zeroed() };
            // SAFETY: the library has just returned this handle.
            checked("nvmlGpuInstanceGetInfo", unsafe { info_of(instance, &raw mut info) })?;
            all.push(GpuInstance {
                id: info.id,
                profile: info.profileId,
                placement: Placement { start: info.placement.start, size: info.placement.size },
                compute: compute_instances(device, instance)?,
            });
        }
    }
    all.sort_by_key(|one| one.placement);
    Ok(all)
}

/// Returns the compute instance profiles of a GPU instance, as pairs of id and slices.
fn compute_profiles(device: &Device<'_>, instance: sys::nvmlGpuInstance_t) -> Result<Vec<(u32, u32)>, Fault> {
    const CALL: &str = "nvmlGpuInstanceGetComputeInstanceProfileInfo";
    let call = symbol(CALL, device.nvml().lib().nvmlGpuInstanceGetComputeInstanceProfileInfo.as_ref())?;
    let mut profiles = Vec::new();
    for number in 0..sys::NVML_COMPUTE_INSTANCE_PROFILE_COUNT {
        // SAFETY: the struct consists of integers, for which all zeros is a valid value.
        let mut info: sys::nvmlComputeInstanceProfileInfo_t = unsafe { std::mem::zeroed() };
        let engines = sys::NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED;
        // SAFETY: the library returned the handle for an instance that still exists.
        if if_supported(CALL, unsafe { call(instance, number, engines, &raw mut info) })? {
            profiles.push((info.id, info.sliceCount));
        }
    }
    Ok(profiles)
}

fn compute_instances(
    device: &Device<'_>,
    instance: sys::nvmlGpuInstance_t,
) -> Result<Vec<ComputeInstance>, Fault> {
    const CALL: &str = "nvmlGpuInstanceGetComputeInstances";
    let lib = device.nvml().lib();
    let list = symbol(CALL, lib.nvmlGpuInstanceGetComputeInstances.as_ref())?;
    let info_of = symbol("nvmlComputeInstanceGetInfo_v2", lib.nvmlComputeInstanceGetInfo_v2.as_ref())?;
    let mut all = Vec::new();
    for (profile, slices) in compute_profiles(device, instance)? {
        let (mut handles, mut count) = ([null_mut(); MOST], 0);
        // SAFETY: the array is larger than the number of compute instances in any GPU instance.
        checked(CALL, unsafe { list(instance, profile, handles.as_mut_ptr(), &raw mut count) })?;
        for compute in handles.into_iter().take(count as usize) {
            // SAFETY: the struct consists of pointers and integers, for which all zeros is a valid value.
            let mut info: sys::nvmlComputeInstanceInfo_t = unsafe { std::mem::zeroed() };
            // SAFETY: the library has just returned this handle.
            checked("nvmlComputeInstanceGetInfo_v2", unsafe { info_of(compute, &raw mut info) })?;
            all.push(ComputeInstance { id: info.id, slices });
        }
    }
    all.sort_by_key(|one| one.id);
    Ok(all)
}

/// Looks up a fresh handle of a GPU instance.
fn instance(device: &Device<'_>, id: u32) -> Result<sys::nvmlGpuInstance_t, Fault> {
    const CALL: &str = "nvmlDeviceGetGpuInstanceById";
    let call = symbol(CALL, device.nvml().lib().nvmlDeviceGetGpuInstanceById.as_ref())?;
    let mut found = null_mut();
    // SAFETY: the handle belongs to this library, and the output pointer is valid.
    checked(CALL, unsafe { call(handle(device), id, &raw mut found) })?;
    Ok(found)
}

/// Creates a GPU instance at a placement and returns its id.
pub(super) fn create_instance(device: &Device<'_>, profile: u32, at: Placement) -> Result<u32, Fault> {
    const CALL: &str = "nvmlDeviceCreateGpuInstanceWithPlacement";
    let lib = device.nvml().lib();
    let call = symbol(CALL, lib.nvmlDeviceCreateGpuInstanceWithPlacement.as_ref())?;
    let info_of = symbol("nvmlGpuInstanceGetInfo", lib.nvmlGpuInstanceGetInfo.as_ref())?;
    let place = sys::nvmlGpuInstancePlacement_t { start: at.start, size: at.size };
    let mut created = null_mut();
    // SAFETY: the handle belongs to this library, and placement and output outlive the call.
    checked(CALL, unsafe { call(handle(device), profile, &raw const place, &raw mut created) })?;
    // SAFETY: the struct consists of a pointer and integers, for which all zeros is a valid value.
    let mut info: sys::nvmlGpuInstanceInfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the library has just returned this handle.
    checked("nvmlGpuInstanceGetInfo", unsafe { info_of(created, &raw mut info) })?;
    Ok(info.id)
}

/// Destroys an empty GPU instance.
pub(super) fn destroy_instance(device: &Device<'_>, id: u32) -> Result<(), Fault> {
    const CALL: &str = "nvmlGpuInstanceDestroy";
    let call = symbol(CALL, device.nvml().lib().nvmlGpuInstanceDestroy.as_ref())?;
    // SAFETY: the handle was just looked up, and is not used afterwards.
    checked(CALL, unsafe { call(instance(device, id)?) })
}

/// Creates a compute instance with `slices` slices in a GPU instance.
pub(super) fn create_compute(device: &Device<'_>, id: u32, slices: u32) -> Result<(), Fault> {
    const CALL: &str = "nvmlGpuInstanceCreateComputeInstance";
    let within = instance(device, id)?;
    let profiles = compute_profiles(device, within)?;
    let profile = profiles.iter().find(|(_, has)| *has == slices).map(|(profile, _)| *profile);
    let profile = profile.ok_or_else(|| {
        Fault::new(
            CALL,
            super::Kind::NotSupported,
            format!("this GPU has no compute instance profile with {slices} slices"),
        )
    })?;
    let call = symbol(CALL, device.nvml().lib().nvmlGpuInstanceCreateComputeInstance.as_ref())?;
    let mut created = null_mut();
    // SAFETY: the handle was just looked up, and the output pointer is valid.
    checked(CALL, unsafe { call(within, profile, &raw mut created) })
}

/// Destroys a compute instance that no process uses.
pub(super) fn destroy_compute(device: &Device<'_>, id: u32, compute: u32) -> Result<(), Fault> {
    const CALL: &str = "nvmlComputeInstanceDestroy";
    let lib = device.nvml().lib();
    let find = symbol(CALL, lib.nvmlGpuInstanceGetComputeInstanceById.as_ref())?;
    let call = symbol(CALL, lib.nvmlComputeInstanceDestroy.as_ref())?;
    let mut found = null_mut();
    // SAFETY: the handle of the GPU instance was just looked up, and the output pointer is valid.
    checked("nvmlGpuInstanceGetComputeInstanceById", unsafe {
        find(instance(device, id)?, compute, &raw mut found)
    })?;
    // SAFETY: the handle was just looked up, and is not used afterwards.
    checked(CALL, unsafe { call(found) })
}

/// Returns the ids of the GPU instance and the compute instance of a MIG device.
pub(super) fn numbers(mig: &Device<'_>) -> Result<(u32, u32), Fault> {
    let lib = mig.nvml().lib();
    let of_gpu = symbol("nvmlDeviceGetGpuInstanceId", lib.nvmlDeviceGetGpuInstanceId.as_ref())?;
    let of_compute = symbol("nvmlDeviceGetComputeInstanceId", lib.nvmlDeviceGetComputeInstanceId.as_ref())?;
    let (mut gpu, mut compute) = (0, 0);
    // SAFETY: the handle belongs to this library, and the output pointer is valid.
    checked("nvmlDeviceGetGpuInstanceId", unsafe { of_gpu(handle(mig), &raw mut gpu) })?;
    // SAFETY: as above.
    checked("nvmlDeviceGetComputeInstanceId", unsafe { of_compute(handle(mig), &raw mut compute) })?;
    Ok((gpu, compute))
}
