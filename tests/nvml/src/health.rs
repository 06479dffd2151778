//! The error counters of a GPU.

use crate::{
    abi::{FieldValue, Handle, INVALID_ARGUMENT, NOT_SUPPORTED, Out, Return, SUCCESS},
    state::{Gpu, nvml},
};
use std::ffi::{c_int, c_uint, c_ulonglong};

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetEccMode(device: Handle, current: Out<c_uint>, pending: Out<c_uint>) -> Return {
    nvml("nvmlDeviceGetEccMode", |host| {
        let (_, gpu) = host.gpu(device)?;
        current.put(gpu.ecc.into())?;
        pending.put(gpu.ecc.into())
    })
}

/// As in nvml.h. Kind 0 is corrected, counter 0 is since the last reset.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: Handle,
    kind: c_uint,
    counter: c_uint,
    to: Out<c_ulonglong>,
) -> Return {
    nvml("nvmlDeviceGetTotalEccErrors", |host| {
        let (_, gpu) = host.gpu(device)?;
        if !gpu.ecc {
            return Err(NOT_SUPPORTED);
        }
        to.put(match (kind, counter) {
            (0, 0 | 1) => gpu.corrected,
            (1, 0) => gpu.uncorrected,
            (1, 1) => gpu.uncorrected_total.max(gpu.uncorrected),
            _ => return Err(INVALID_ARGUMENT),
        })
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceClearEccErrorCounts(device: Handle, counter: c_uint) -> Return {
    nvml("nvmlDeviceClearEccErrorCounts", |host| {
        let (number, gpu) = host.gpu(device)?;
        gpu.corrected = 0;
        gpu.uncorrected = 0;
        if counter == 1 {
            gpu.uncorrected_total = 0;
        }
        host.log.push(format!("clear ecc {number}"));
        Ok(())
    })
}

/// As in nvml.h. Cause 0 is many single-bit errors, cause 1 a double-bit error.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetRetiredPages(
    device: Handle,
    cause: c_uint,
    count: Out<c_uint>,
    addresses: Out<c_ulonglong>,
) -> Return {
    nvml("nvmlDeviceGetRetiredPages", |host| {
        let (_, gpu) = host.gpu(device)?;
        let pages = if cause == 0 { gpu.retired_single } else { gpu.retired_double };
        crate::abi::list((0..pages.ok_or(NOT_SUPPORTED)?).collect(), count, addresses)
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetRetiredPages_v2(
    device: Handle,
    cause: c_uint,
    count: Out<c_uint>,
    addresses: Out<c_ulonglong>,
    timestamps: Out<c_ulonglong>,
) -> Return {
    nvml("nvmlDeviceGetRetiredPages_v2", |host| {
        let (_, gpu) = host.gpu(device)?;
        let pages = if cause == 0 { gpu.retired_single } else { gpu.retired_double };
        let pages: Vec<u64> = (0..pages.ok_or(NOT_SUPPORTED)?).collect();
        pages.iter().enumerate().try_for_each(|(number, _)| timestamps.at(number).put(0))?;
        crate::abi::list(pages, count, addresses)
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetRetiredPagesPendingStatus(device: Handle, to: Out<c_uint>) -> Return {
    nvml("nvmlDeviceGetRetiredPagesPendingStatus", |host| {
        let (_, gpu) = host.gpu(device)?;
        if gpu.retired_single.is_none() {
            return Err(NOT_SUPPORTED);
        }
        to.put(gpu.retired_pending.into())
    })
}

/// As in nvml.h.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetFieldValues(device: Handle, count: c_int, values: Out<FieldValue>) -> Return {
    nvml("nvmlDeviceGetFieldValues", |host| {
        let (_, gpu) = host.gpu(device)?;
        for number in 0..usize::try_from(count).map_err(|_| INVALID_ARGUMENT)? {
            let asked = values.at(number).get()?;
            let (code, value) = field(gpu, asked.field).map_or((NOT_SUPPORTED, 0), |value| (SUCCESS, value));
            // Type 1 is an unsigned int.
            values.at(number).put(FieldValue { code, value, value_type: 1, ..asked })?;
        }
        Ok(())
    })
}

/// 142 to 145 are `NVML_FI_DEV_REMAPPED_*`, 230 is `NVML_FI_DEV_GET_GPU_RECOVERY_ACTION`.
fn field(gpu: &Gpu, id: c_uint) -> Option<u64> {
    match id {
        142..=145 if gpu.retired_single.is_none() => gpu.remapped.get(id as usize - 142).copied(),
        230 => gpu.recovery,
        _ => None,
    }
}
