//! Bindings to the 15 functions of the CUDA driver API that a scrub needs, loaded at run time.
//!
//! Signatures follow `cuda.h`; names are those of the library since CUDA 4, with `_v2` where it exists.
#![expect(unsafe_code, reason = "the CUDA driver can only be had through its C interface")]

use crate::nvml::error::{Fault, Kind};
use libloading::Library;
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    mem::ManuallyDrop,
    path::Path,
    ptr::{NonNull, null, null_mut},
    slice,
};

const SUCCESS: c_uint = 0;
const OUT_OF_MEMORY: c_uint = 2;

type CudaResult<T> = Result<T, Fault>;

/// The driver's library, initialised.
pub(super) struct Cuda {
    /// Never unloaded, because the driver runs threads in it.
    library: ManuallyDrop<Library>,
}

/// A GPU with a context of this process, until this is dropped. Bound to the thread that created it.
pub(super) struct Context<'a> {
    cuda: &'a Cuda,
    device: c_int,
    _not_send: std::marker::PhantomData<*const ()>,
}

/// GPU memory, freed on drop.
pub(super) struct Memory<'a> {
    cuda: &'a Cuda,
    pub(super) address: u64,
    pub(super) bytes: usize,
}

/// Host memory to which a GPU copies, freed on drop.
pub(super) enum Window<'a> {
    /// Page-locked, so that the GPU writes to it directly: on an H200, 44 GiB/s instead of 8.
    Pinned(&'a Cuda, NonNull<u8>, usize),
    /// Used if no memory can be page-locked.
    Plain(Vec<u8>),
}

impl Cuda {
    /// Loads and initialises the library.
    pub(super) fn load(path: &Path) -> CudaResult<Self> {
        // SAFETY: this is the driver's library; every CUDA program runs the same initialisers.
        let library = unsafe { Library::new(path) };
        let library = library.map_err(|error| {
            Fault::new(
                "libcuda.so.1",
                Kind::NotSupported,
                format!("cannot be loaded, so GPU memory cannot be scrubbed: {error}"),
            )
        })?;
        let cuda = Self { library: ManuallyDrop::new(library) };
        let init: unsafe extern "C" fn(c_uint) -> c_uint = cuda.symbol("cuInit")?;
        // SAFETY: `cuInit` takes flags that must be 0.
        let code = unsafe { init(0) };
        if code == SUCCESS {
            return Ok(cuda);
        }
        Err(Fault { kind: Kind::NotSupported, ..cuda.fault("cuInit", code) })
    }

    fn symbol<F: Copy>(&self, name: &str) -> CudaResult<F> {
        // SAFETY: every caller passes the function's type as `cuda.h` declares it.
        let found = unsafe { self.library.get::<F>(name.as_bytes()) };
        found.map(|symbol| *symbol).map_err(|error| Fault::new(name, Kind::NotSupported, error))
    }

    /// Describes a failed call.
    fn fault(&self, call: &str, code: c_uint) -> Fault {
        let mut name = null::<c_char>();
        let named =
            self.symbol::<unsafe extern "C" fn(c_uint, *mut *const c_char) -> c_uint>("cuGetErrorName");
        // SAFETY: the output pointer is valid.
        let known = named.is_ok_and(|named| unsafe { named(code, &raw mut name) } == SUCCESS);
        let words = if known && !name.is_null() {
            // SAFETY: the driver returns a static string that ends with a nul.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        } else {
            "an error without a name".to_owned()
        };
        let kind = if code == OUT_OF_MEMORY { Kind::NoRoom } else { Kind::Failed };
        Fault::new(call, kind, format!("{words} ({code})"))
    }

    fn told(&self, call: &str, code: c_uint) -> CudaResult<()> {
        if code == SUCCESS { Ok(()) } else { Err(self.fault(call, code)) }
    }

    /// Finds the GPU by the UUID that NVML reports, and makes it current on this thread.
    pub(super) fn context(&self, uuid: &str) -> CudaResult<Context<'_>> {
        let count_of: unsafe extern "C" fn(*mut c_int) -> c_uint = self.symbol("cuDeviceGetCount")?;
        let get: unsafe extern "C" fn(*mut c_int, c_int) -> c_uint = self.symbol("cuDeviceGet")?;
        let uuid_of: unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_uint =
            self.symbol("cuDeviceGetUuid_v2")?;
        let digits: String =
            uuid.trim_start_matches("GPU-").chars().filter(|letter| *letter != '-').collect();
        let mut count = 0;
        // SAFETY: the output pointer is valid.
        self.told("cuDeviceGetCount", unsafe { count_of(&raw mut count) })?;
        for number in 0..count {
            let (mut device, mut bytes) = (0, [0_u8; 16]);
            // SAFETY: the output pointer is valid, and the number is below the count.
            self.told("cuDeviceGet", unsafe { get(&raw mut device, number) })?;
            // SAFETY: a `CUuuid` has 16 bytes.
            self.told("cuDeviceGetUuid_v2", unsafe { uuid_of(&raw mut bytes, device) })?;
            if format!("{:032x}", u128::from_be_bytes(bytes)) == digits.to_lowercase() {
                return self.retain(device);
            }
        }
        let why = format!("{uuid} is not one of the {count} GPUs that CUDA shows to this process");
        Err(Fault::new("cuDeviceGetUuid_v2", Kind::NotSupported, why))
    }

    fn retain(&self, device: c_int) -> CudaResult<Context<'_>> {
        let retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_uint =
            self.symbol("cuDevicePrimaryCtxRetain")?;
        let set: unsafe extern "C" fn(*mut c_void) -> c_uint = self.symbol("cuCtxSetCurrent")?;
        let mut context = null_mut();
        // SAFETY: the output pointer is valid, and the driver returned the device.
        self.told("cuDevicePrimaryCtxRetain", unsafe { retain(&raw mut context, device) })?;
        let held = Context { cuda: self, device, _not_send: std::marker::PhantomData };
        // SAFETY: the context is retained, and released only when `held` is dropped.
        self.told("cuCtxSetCurrent", unsafe { set(context) })?;
        Ok(held)
    }

    /// Returns the CUDA version of the driver: 12080 is 12.8.
    pub(super) fn version(&self) -> CudaResult<i32> {
        let call: unsafe extern "C" fn(*mut c_int) -> c_uint = self.symbol("cuDriverGetVersion")?;
        let mut version = 0;
        // SAFETY: the output pointer is valid.
        self.told("cuDriverGetVersion", unsafe { call(&raw mut version) })?;
        Ok(version)
    }
}

impl<'a> Context<'a> {
    /// Returns free and total bytes, as CUDA counts them.
    pub(super) fn memory(&self) -> CudaResult<(usize, usize)> {
        let call: unsafe extern "C" fn(*mut usize, *mut usize) -> c_uint =
            self.cuda.symbol("cuMemGetInfo_v2")?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both output pointers are valid, and this thread has a context.
        self.cuda.told("cuMemGetInfo_v2", unsafe { call(&raw mut free, &raw mut total) })?;
        Ok((free, total))
    }

    /// Allocates memory. Returns `None` if there is no free range of this size.
    pub(super) fn take(&self, bytes: usize) -> CudaResult<Option<Memory<'a>>> {
        let call: unsafe extern "C" fn(*mut u64, usize) -> c_uint = self.cuda.symbol("cuMemAlloc_v2")?;
        let mut address = 0;
        // SAFETY: the output pointer is valid, and this thread has a context.
        match unsafe { call(&raw mut address, bytes) } {
            SUCCESS => Ok(Some(Memory { cuda: self.cuda, address, bytes })),
            OUT_OF_MEMORY => Ok(None),
            code => Err(self.cuda.fault("cuMemAlloc_v2", code)),
        }
    }

    /// Allocates zeroed host memory.
    pub(super) fn window(&self, bytes: usize) -> CudaResult<Window<'a>> {
        let call: unsafe extern "C" fn(*mut *mut c_void, usize) -> c_uint =
            self.cuda.symbol("cuMemAllocHost_v2")?;
        let mut at = null_mut();
        // SAFETY: the output pointer is valid, and this thread has a context.
        let code = unsafe { call(&raw mut at, bytes) };
        match NonNull::new(at.cast::<u8>()).filter(|_| code == SUCCESS) {
            Some(at) => {
                // SAFETY: the driver has just allocated `bytes` bytes, and no other reference exists.
                unsafe { at.write_bytes(0, bytes) };
                Ok(Window::Pinned(self.cuda, at, bytes))
            }
            None => Ok(Window::Plain(vec![0; bytes])),
        }
    }

    /// Waits until all submitted work is done.
    pub(super) fn settle(&self) -> CudaResult<()> {
        let call: unsafe extern "C" fn() -> c_uint = self.cuda.symbol("cuCtxSynchronize")?;
        // SAFETY: this thread has a context.
        self.cuda.told("cuCtxSynchronize", unsafe { call() })
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        let release =
            self.cuda.symbol::<unsafe extern "C" fn(c_int) -> c_uint>("cuDevicePrimaryCtxRelease_v2");
        // SAFETY: this value retained the context once and releases it once.
        let code = release.map(|release| unsafe { release(self.device) });
        if code.as_ref().ok() != Some(&SUCCESS) {
            tracing::warn!(
                ?code,
                "a CUDA context could not be released, and stays open until this process ends"
            );
        }
    }
}

impl Memory<'_> {
    /// Fills `bytes` bytes from `offset` with `word`. Both must be multiples of 4 and within the allocation.
    pub(super) fn fill(&self, offset: usize, bytes: usize, word: u32) -> CudaResult<()> {
        self.within(offset, bytes)?;
        let call: unsafe extern "C" fn(u64, c_uint, usize) -> c_uint = self.cuda.symbol("cuMemsetD32_v2")?;
        // SAFETY: the check above ensures that the range is within this allocation.
        let code = unsafe { call(self.address + offset as u64, word, bytes / 4) };
        self.cuda.told("cuMemsetD32_v2", code)
    }

    /// Reads `to.len()` bytes from `offset`.
    pub(super) fn read(&self, offset: usize, to: &mut [u8]) -> CudaResult<()> {
        self.within(offset, to.len())?;
        let call: unsafe extern "C" fn(*mut u8, u64, usize) -> c_uint =
            self.cuda.symbol("cuMemcpyDtoH_v2")?;
        // SAFETY: the range is within this allocation, and `to` has the passed length.
        let code = unsafe { call(to.as_mut_ptr(), self.address + offset as u64, to.len()) };
        self.cuda.told("cuMemcpyDtoH_v2", code)
    }

    fn within(&self, offset: usize, bytes: usize) -> CudaResult<()> {
        if offset.checked_add(bytes).is_some_and(|end| end <= self.bytes) {
            return Ok(());
        }
        Err(Fault::new("memory", Kind::Failed, "a range outside the allocated memory"))
    }
}

impl Window<'_> {
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        match self {
            // SAFETY: this value allocated and initialised the bytes and is borrowed mutably.
            Self::Pinned(_, at, bytes) => unsafe { slice::from_raw_parts_mut(at.as_ptr(), *bytes) },
            Self::Plain(bytes) => bytes,
        }
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        let Self::Pinned(cuda, at, _) = self else { return };
        let free = cuda.symbol::<unsafe extern "C" fn(*mut c_void) -> c_uint>("cuMemFreeHost");
        // SAFETY: this value allocated the memory once and frees it once.
        let code = free.map(|free| unsafe { free(at.as_ptr().cast()) });
        if code.as_ref().ok() != Some(&SUCCESS) {
            tracing::warn!(?code, "host memory of a GPU could not be freed; it is freed with its context");
        }
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        let free = self.cuda.symbol::<unsafe extern "C" fn(u64) -> c_uint>("cuMemFree_v2");
        // SAFETY: this value allocated the memory once and frees it once.
        let code = free.map(|free| unsafe { free(self.address) });
        if code.as_ref().ok() != Some(&SUCCESS) {
            tracing::warn!(?code, "GPU memory could not be freed; it is freed with its context");
        }
    }
}
