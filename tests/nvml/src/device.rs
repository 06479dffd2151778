//! Initialisation and shutdown, and the properties of a GPU.

use crate::{
    abi::{
        ARGUMENT_VERSION_MISMATCH, GPU_IS_LOST, Handle, INVALID_ARGUMENT, Memory, NOT_FOUND, Out, Return,
        SUCCESS, UNINITIALIZED,
    },
    state::{Gpu, Host, INITIALISED, answer, nvml},
};
use std::{
    ffi::{c_char, c_uint},
    sync::atomic::Ordering,
};

/// The target of a device handle: a GPU, or a MIG device by its GPU, GPU instance and compute instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    Gpu(usize),
    Mig(usize, u32, u32),
}

const GPUS: usize = 0x1000;
pub(crate) const MIGS: usize = 0x10_0000;

impl Device {
    pub(crate) fn handle(self) -> Handle {
        match self {
            Self::Gpu(gpu) => Handle(GPUS + gpu),
            Self::Mig(gpu, gi, ci) => Handle(MIGS + (gpu << 16) + ((gi as usize) << 8) + ci as usize),
        }
    }

    pub(crate) fn of(handle: Handle) -> Option<Self> {
        match handle.0 {
            at if (GPUS..GPUS + 64).contains(&at) => Some(Self::Gpu(at - GPUS)),
            at if (MIGS..2 * MIGS).contains(&at) => {
                let at = at - MIGS;
                let byte = |shift: usize| ((at >> shift) & 0xff) as u32;
                Some(Self::Mig(at >> 16, byte(8), byte(0)))
            }
            _ => None,
        }
    }

    pub(crate) fn gpu(self) -> usize {
        match self {
            Self::Gpu(gpu) | Self::Mig(gpu, _, _) => gpu,
        }
    }
}

impl Host {
    /// Returns the device of a handle and its GPU, unless that is lost.
    pub(crate) fn device(&mut self, handle: Handle) -> Result<(Device, &mut Gpu), Return> {
        let device = Device::of(handle).ok_or(INVALID_ARGUMENT)?;
        let gpu = self.gpus.get_mut(device.gpu()).ok_or(INVALID_ARGUMENT)?;
        if gpu.lost {
            return Err(GPU_IS_LOST);
        }
        if let Device::Mig(_, gi, ci) = device {
            let instance = gpu.instances.iter().find(|instance| instance.id == gi);
            let stands = instance.is_some_and(|instance| instance.compute.iter().any(|one| one.id == ci));
            return if stands { Ok((device, gpu)) } else { Err(INVALID_ARGUMENT) };
        }
        Ok((device, gpu))
    }

    /// Returns the GPU of a handle that must not be a MIG device.
    pub(crate) fn gpu(&mut self, handle: Handle) -> Result<(usize, &mut Gpu), Return> {
        match self.device(handle)? {
            (Device::Gpu(number), gpu) => Ok((number, gpu)),
            (Device::Mig(..), _) => Err(INVALID_ARGUMENT),
        }
    }
}

fn init(function: &str) -> Return {
    let code = answer(function, |host| if host.init == SUCCESS { Ok(()) } else { Err(host.init) });
    if code == SUCCESS {
        INITIALISED.fetch_add(1, Ordering::SeqCst);
    }
    code
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Return {
    init("nvmlInit_v2")
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> Return {
    init("nvmlInitWithFlags")
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Return {
    let left = INITIALISED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
    left.map_or(UNINITIALIZED, |_| SUCCESS)
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverVersion(to: Out<c_char>, length: c_uint) -> Return {
    nvml("nvmlSystemGetDriverVersion", |host| to.text(&host.driver, length))
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(count: Out<c_uint>) -> Return {
    nvml("nvmlDeviceGetCount_v2", |host| count.put(host.gpus.len() as c_uint))
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, to: Out<Handle>) -> Return {
    nvml("nvmlDeviceGetHandleByIndex_v2", |host| {
        let gpu = host.gpus.get(index as usize).ok_or(INVALID_ARGUMENT)?;
        if gpu.lost { Err(GPU_IS_LOST) } else { to.put(Device::Gpu(index as usize).handle()) }
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByUUID(uuid: Out<c_char>, to: Out<Handle>) -> Return {
    nvml("nvmlDeviceGetHandleByUUID", |host| {
        let uuid = uuid.read()?;
        let found = host.gpus.iter().position(|gpu| gpu.uuid == uuid).ok_or(NOT_FOUND)?;
        to.put(Device::Gpu(found).handle())
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUUID(device: Handle, to: Out<c_char>, length: c_uint) -> Return {
    nvml("nvmlDeviceGetUUID", |host| match host.device(device)? {
        (Device::Gpu(_), gpu) => to.text(&gpu.uuid, length),
        (Device::Mig(number, gi, ci), _) => {
            to.text(&format!("MIG-00000000-0000-4000-8000-{number:04x}{gi:04x}{ci:04x}"), length)
        }
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetName(device: Handle, to: Out<c_char>, length: c_uint) -> Return {
    nvml("nvmlDeviceGetName", |host| {
        let (_, gpu) = host.device(device)?;
        to.text(&gpu.name, length)
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Handle, to: Out<Memory>) -> Return {
    nvml("nvmlDeviceGetMemoryInfo_v2", |host| {
        let (_, gpu) = host.device(device)?;
        let version = to.get()?.version;
        if version != (size_of::<Memory>() as u32 | 2 << 24) {
            return Err(ARGUMENT_VERSION_MISMATCH);
        }
        let used = gpu.processes.iter().map(|process| process.memory_mib << 20).sum();
        let total = gpu.memory_mib << 20;
        to.put(Memory { version, total, reserved: 0, free: total.saturating_sub(used), used })
    })
}
