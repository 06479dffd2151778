//! A fake of `libnvidia-ml.so.1` and, under that name, of `libcuda.so.1`: the parts of their C interfaces that Tenure
//! calls, with GPUs that are stored in a file.
//!
//! The file is `gpus.json` in the folder of the library, or the file that `TENURE_STAND_IN_STATE` names. Every call reads
//! it under a lock, and writes it after a change, so that several processes see the same GPUs and a test can change them
//! while a process runs. Missing fields have defaults; `{}` is eight healthy GPUs of 80 GB that can be partitioned.
//! `state.rs` lists the fields. GPU memory is in separate files next to it, `gpu-N.memory`.
//!
//! It is simulated: return codes follow the header's documentation, and `nvidia-smi`'s known output where the header is
//! silent.

#![expect(unsafe_code, reason = "what is exported has a C interface; all pointers are touched in `abi`")]
#![allow(non_snake_case, reason = "the names are NVML's and CUDA's")]

pub mod abi;
pub mod cuda;
pub mod device;
pub mod health;
mod json;
pub mod mig;
pub mod processes;
mod profiles;
mod state;

pub use state::edit;
