//! The drives of a machine: what their controllers say of themselves, their own erasure, sampling afterwards, and LUKS volumes.
//!
//! All of it by programs that stand on every Linux machine: `nvme` (nvme-cli), `cryptsetup`, `lsblk`, `xargs` and `dd`, run where
//! the drives are; by a command before them, such as `ssh root@gpu-7`, on another machine. What a controller can is read from it
//! at every call, and so is its serial number; the kernel's names (`nvme0`) are looked up anew each time. A drive knows no request
//! key, so keys and epochs, and what was told to it last, are in a file per drive. `docs/backends/drives.md` has the settings.
//!
//! Invariants: nothing is told to a drive that is in use; a sanitisation in progress is never begun again; what did not answer, was
//! refused or was not seen to its end never reads as done.

mod command_log;
mod discovery;
mod erase;
mod luks;
mod machine;
mod nvme_pages;
mod sampling;
mod settings;
mod tools;

pub use crate::drives::settings::{DrivesTarget, VerifierTarget};
pub use machine::LocalMachine;
