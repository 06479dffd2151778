//! The types at the C interface: codes, handles, structs, and output pointers.
//!
//! Invariant: no other module dereferences a pointer.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_uint, c_ulonglong, c_void};

/// An `nvmlReturn_t` or `CUresult`.
pub type Return = c_uint;
/// Codes of NVML.
pub const SUCCESS: Return = 0;
pub(crate) const UNINITIALIZED: Return = 1;
pub(crate) const INVALID_ARGUMENT: Return = 2;
pub(crate) const NOT_SUPPORTED: Return = 3;
pub(crate) const NOT_FOUND: Return = 6;
pub(crate) const INSUFFICIENT_SIZE: Return = 7;
pub(crate) const GPU_IS_LOST: Return = 15;
pub(crate) const RESET_REQUIRED: Return = 16;
pub(crate) const IN_USE: Return = 19;
pub(crate) const INSUFFICIENT_RESOURCES: Return = 23;
pub(crate) const ARGUMENT_VERSION_MISMATCH: Return = 25;
pub(crate) const UNKNOWN: Return = 999;

/// An opaque handle; a number instead of an address.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub usize);

/// A pointer for a result: null, or valid for writes, as the header requires of callers.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn put(self, value: T) -> Result<(), Return> {
        if self.0.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null, and the caller of an exported function passes pointers that are valid for writes.
        unsafe { self.0.write(value) };
        Ok(())
    }

    pub(crate) fn get(self) -> Result<T, Return>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null, and the caller has initialised the struct.
        Ok(unsafe { self.0.read() })
    }

    /// Returns the `number`th element of an array that the caller declares to be longer.
    pub(crate) fn at(self, number: usize) -> Self {
        Self(self.0.wrapping_add(number))
    }
}

impl Out<c_char> {
    /// Writes `text` and a nul into a buffer of `length`.
    pub(crate) fn text(self, text: &str, length: c_uint) -> Result<(), Return> {
        if text.len() >= length as usize {
            return Err(INSUFFICIENT_SIZE);
        }
        for (number, byte) in text.bytes().chain([0]).enumerate() {
            self.at(number).put(byte as c_char)?;
        }
        Ok(())
    }

    /// Reads a string of the caller.
    pub(crate) fn read(self) -> Result<String, Return> {
        if self.0.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null, and the caller passes a string that ends in a nul.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }
}

impl Out<u8> {
    /// Returns the buffer of `length` bytes.
    pub(crate) fn bytes<'a>(self, length: usize) -> Result<&'a mut [u8], Return> {
        if self.0.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null, and the caller passes a buffer of at least `length` bytes that no other code uses
        // meanwhile.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0, length) })
    }
}

/// Returns a list: at most as many items as fit, and always their total number.
pub(crate) fn list<T>(items: Vec<T>, count: Out<c_uint>, to: Out<T>) -> Result<(), Return> {
    let room = count.get()? as usize;
    count.put(u32::try_from(items.len()).map_err(|_| UNKNOWN)?)?;
    if room < items.len() {
        return Err(INSUFFICIENT_SIZE);
    }
    items.into_iter().enumerate().try_for_each(|(number, item)| to.at(number).put(item))
}

/// `nvmlMemory_v2_t`, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub(crate) version: c_uint,
    pub(crate) total: c_ulonglong,
    pub(crate) reserved: c_ulonglong,
    pub(crate) free: c_ulonglong,
    pub(crate) used: c_ulonglong,
}

/// `nvmlProcessInfo_v2_t`, which the `_v3` calls fill.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessInfo {
    pub(crate) pid: c_uint,
    pub(crate) used_memory: c_ulonglong,
    pub(crate) gpu_instance: c_uint,
    pub(crate) compute_instance: c_uint,
}

/// `nvmlFieldValue_t`; of its union only the unsigned members are ever used.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FieldValue {
    pub(crate) field: c_uint,
    pub(crate) scope: c_uint,
    pub(crate) timestamp: c_longlong,
    pub(crate) latency: c_longlong,
    pub(crate) value_type: c_uint,
    pub(crate) code: Return,
    pub(crate) value: c_ulonglong,
}

/// A placement of a GPU or compute instance.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    pub(crate) start: c_uint,
    pub(crate) size: c_uint,
}

/// `nvmlGpuInstanceProfileInfo_v2_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GpuProfile {
    pub(crate) version: c_uint,
    pub(crate) id: c_uint,
    pub(crate) is_p2p: c_uint,
    pub(crate) slices: c_uint,
    pub(crate) instances: c_uint,
    pub(crate) multiprocessors: c_uint,
    pub(crate) engines: [c_uint; 5],
    pub(crate) memory_mb: c_ulonglong,
    pub(crate) name: [c_char; 96],
}

/// `nvmlComputeInstanceProfileInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ComputeProfile {
    pub(crate) id: c_uint,
    pub(crate) slices: c_uint,
    pub(crate) instances: c_uint,
    pub(crate) multiprocessors: c_uint,
    pub(crate) engines: [c_uint; 5],
}

/// `nvmlGpuInstanceInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GpuInstanceInfo {
    pub(crate) device: Handle,
    pub(crate) id: c_uint,
    pub(crate) profile: c_uint,
    pub(crate) placement: Placement,
}

/// `nvmlComputeInstanceInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ComputeInstanceInfo {
    pub(crate) device: Handle,
    pub(crate) gpu_instance: Handle,
    pub(crate) id: c_uint,
    pub(crate) profile: c_uint,
    pub(crate) placement: Placement,
}

#[repr(C)]
struct Symbol {
    file: *const c_char,
    base: *const c_void,
    name: *const c_char,
    address: *const c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, info: *mut Symbol) -> c_int;
}

static WITHIN: u8 = 0;

/// Returns the path of this library, as the loader got it.
pub(crate) fn own_path() -> Option<String> {
    let nothing = std::ptr::null();
    let mut symbol = Symbol { file: nothing, base: nothing.cast(), name: nothing, address: nothing.cast() };
    // SAFETY: the address is in this library, and the struct is the `Dl_info` of dlfcn.h.
    let found = unsafe { dladdr((&raw const WITHIN).cast(), &raw mut symbol) };
    if found == 0 || symbol.file.is_null() {
        return None;
    }
    // SAFETY: dladdr succeeded, so this is a string that is valid while the library is loaded.
    let path = unsafe { CStr::from_ptr(symbol.file) };
    Some(path.to_string_lossy().into_owned())
}
