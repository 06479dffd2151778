//! The part of the CUDA driver interface that a scrub needs. Memory of GPU `N` is the file `gpu-N.memory`, so that tests
//! can plant and read its content.

use crate::{
    abi::{Handle, Out, Return, SUCCESS, UNKNOWN},
    state::{Host, Process, answer, path},
};
use std::{
    collections::BTreeMap,
    ffi::{c_char, c_int, c_uint},
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    sync::{Mutex, MutexGuard, PoisonError},
};

const INVALID_VALUE: Return = 1;
const OUT_OF_MEMORY: Return = 2;
const NO_DEVICE: Return = 100;
const INVALID_DEVICE: Return = 101;
const INVALID_CONTEXT: Return = 201;
/// Memory that the driver reserves for itself.
const RESERVED: u64 = 1 << 20;
const CONTEXTS: usize = 0x5000;

/// This process's GPU resources: its current GPU, and its allocations by address.
#[derive(Default)]
struct Own {
    current: Option<usize>,
    allocations: BTreeMap<u64, (usize, u64)>,
}

static OWN: Mutex<Own> = Mutex::new(Own { current: None, allocations: BTreeMap::new() });

/// Allocated memory of this machine, by address.
static PINNED: Mutex<BTreeMap<usize, Vec<u8>>> = Mutex::new(BTreeMap::new());

fn pinned() -> MutexGuard<'static, BTreeMap<usize, Vec<u8>>> {
    PINNED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn own() -> MutexGuard<'static, Own> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Splits an address: the upper bits are the GPU, the lower ones the position in its memory.
fn place(address: u64) -> (usize, u64) {
    ((address >> 44) as usize, address & ((1 << 44) - 1))
}

fn memory(gpu: usize) -> Result<File, Return> {
    let path = path().with_file_name(format!("gpu-{gpu}.memory"));
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(|_| UNKNOWN)
}

/// Returns the allocation that contains `length` bytes from `address`.
fn allocated(address: u64, length: u64) -> Result<(usize, u64), Return> {
    let own = own();
    let (begin, (_, size)) = own.allocations.range(..=address).next_back().ok_or(INVALID_VALUE)?;
    let end = address.checked_add(length).ok_or(INVALID_VALUE)?;
    if end > begin + size { Err(INVALID_VALUE) } else { Ok(place(address)) }
}

fn current(host: &Host) -> Result<(usize, u64), Return> {
    let gpu = own().current.ok_or(INVALID_CONTEXT)?;
    let total = host.gpus.get(gpu).ok_or(INVALID_DEVICE)?.memory_mib << 20;
    Ok((gpu, total))
}

/// Returns the number of free bytes and their start: allocations of other processes are assumed to be first.
fn free(host: &Host, gpu: usize, total: u64) -> (u64, u64) {
    let others = host
        .gpus
        .get(gpu)
        .map_or(0, |gpu| gpu.processes.iter().map(|process| process.memory_mib << 20).sum());
    let own = own();
    let mine = own.allocations.iter().filter(|(_, (of, _))| *of == gpu);
    let end = mine.map(|(address, (_, size))| place(*address).1 + size).max();
    let begin = end.unwrap_or(RESERVED + others);
    (total.saturating_sub(begin), begin)
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: c_uint) -> Return {
    answer("cuInit", |host| if host.gpus.is_empty() { Err(NO_DEVICE) } else { Ok(()) })
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuDriverGetVersion(to: Out<c_int>) -> Return {
    answer("cuDriverGetVersion", |_| to.put(12_080))
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetCount(to: Out<c_int>) -> Return {
    answer("cuDeviceGetCount", |host| to.put(host.gpus.len() as c_int))
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGet(to: Out<c_int>, number: c_int) -> Return {
    answer("cuDeviceGet", |host| {
        let there = usize::try_from(number).is_ok_and(|number| number < host.gpus.len());
        if there { to.put(number) } else { Err(INVALID_DEVICE) }
    })
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetUuid_v2(to: Out<[u8; 16]>, device: c_int) -> Return {
    answer("cuDeviceGetUuid_v2", |host| {
        let gpu =
            usize::try_from(device).ok().and_then(|device| host.gpus.get(device)).ok_or(INVALID_DEVICE)?;
        let digits: String = gpu.uuid.chars().skip(4).filter(|letter| *letter != '-').collect();
        let number = u128::from_str_radix(&digits, 16).map_err(|_| UNKNOWN)?;
        to.put(number.to_be_bytes())
    })
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceTotalMem_v2(to: Out<usize>, device: c_int) -> Return {
    answer("cuDeviceTotalMem_v2", |host| {
        let gpu =
            usize::try_from(device).ok().and_then(|device| host.gpus.get(device)).ok_or(INVALID_DEVICE)?;
        to.put((gpu.memory_mib << 20) as usize)
    })
}

/// As in cuda.h. From here on the process is on the GPU.
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRetain(to: Out<Handle>, device: c_int) -> Return {
    answer("cuDevicePrimaryCtxRetain", |host| {
        let number = usize::try_from(device).map_err(|_| INVALID_DEVICE)?;
        let gpu = host.gpus.get_mut(number).ok_or(INVALID_DEVICE)?;
        let kind = "compute".to_owned();
        gpu.processes.push(Process { pid: std::process::id(), kind, memory_mib: 0, gi: None, ci: None });
        to.put(Handle(CONTEXTS + number))
    })
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Return {
    answer("cuDevicePrimaryCtxRelease_v2", |host| {
        let number = usize::try_from(device).map_err(|_| INVALID_DEVICE)?;
        let gpu = host.gpus.get_mut(number).ok_or(INVALID_DEVICE)?;
        let mine = gpu.processes.iter().position(|process| process.pid == std::process::id());
        gpu.processes.remove(mine.ok_or(INVALID_CONTEXT)?);
        own().allocations.retain(|_, (of, _)| *of != number);
        Ok(())
    })
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: Handle) -> Return {
    answer("cuCtxSetCurrent", |_| {
        own().current = context.0.checked_sub(CONTEXTS);
        Ok(())
    })
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> Return {
    answer("cuCtxSynchronize", |_| Ok(()))
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetInfo_v2(to_free: Out<usize>, to_total: Out<usize>) -> Return {
    answer("cuMemGetInfo_v2", |host| {
        let (gpu, total) = current(host)?;
        to_free.put(free(host, gpu, total).0 as usize)?;
        to_total.put(total as usize)
    })
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemAlloc_v2(to: Out<u64>, size: usize) -> Return {
    answer("cuMemAlloc_v2", |host| {
        let (gpu, total) = current(host)?;
        let (room, begin) = free(host, gpu, total);
        if size == 0 || size as u64 > room {
            return Err(if size == 0 { INVALID_VALUE } else { OUT_OF_MEMORY });
        }
        let address = ((gpu as u64) << 44) + begin;
        own().allocations.insert(address, (gpu, size as u64));
        to.put(address)
    })
}

/// As in cuda.h. Memory is not cleared: the next owner finds the old content.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> Return {
    answer("cuMemFree_v2", |_| own().allocations.remove(&address).map(drop).ok_or(INVALID_VALUE))
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD32_v2(address: u64, value: c_uint, count: usize) -> Return {
    answer("cuMemsetD32_v2", |_| {
        let (gpu, at) = allocated(address, count as u64 * 4)?;
        let words = value.to_le_bytes().repeat(count);
        memory(gpu)?.write_all_at(&words, at).map_err(|_| UNKNOWN)
    })
}

/// As in cuda.h. A bad byte reads with a flipped bit.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoH_v2(to: Out<u8>, address: u64, length: usize) -> Return {
    answer("cuMemcpyDtoH_v2", |host| {
        let (gpu, at) = allocated(address, length as u64)?;
        let to = to.bytes(length)?;
        to.fill(0);
        let file = memory(gpu)?;
        let there = file.metadata().map_err(|_| UNKNOWN)?.len().saturating_sub(at).min(length as u64);
        if let Some(part) = to.get_mut(..there as usize) {
            file.read_exact_at(part, at).map_err(|_| UNKNOWN)?;
        }
        let bad = host.gpus.get(gpu).and_then(|gpu| gpu.flip_at).and_then(|bad| bad.checked_sub(at));
        if let Some(byte) = bad.and_then(|bad| to.get_mut(usize::try_from(bad).ok()?)) {
            *byte ^= 1;
        }
        Ok(())
    })
}

/// As in cuda.h. The initial content is undefined, and here all ones.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemAllocHost_v2(to: Out<*mut u8>, size: usize) -> Return {
    answer("cuMemAllocHost_v2", |host| {
        current(host)?;
        let mut memory = vec![1; size];
        let at = memory.as_mut_ptr();
        pinned().insert(at as usize, memory);
        to.put(at)
    })
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(at: *mut u8) -> Return {
    answer("cuMemFreeHost", |_| pinned().remove(&(at as usize)).map(drop).ok_or(INVALID_VALUE))
}

/// As in cuda.h.
#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorName(code: Return, to: Out<*const c_char>) -> Return {
    let name = match code {
        SUCCESS => c"CUDA_SUCCESS",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
        _ => c"CUDA_ERROR_UNKNOWN",
    };
    to.put(name.as_ptr()).err().unwrap_or(SUCCESS)
}
