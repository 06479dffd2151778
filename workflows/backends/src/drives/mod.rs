//! The drives of a machine: controller data, erasure, sampling, and LUKS volumes.
//!
//! Uses standard Linux programs: `nvme` (nvme-cli), `cryptsetup`, `lsblk`, `xargs` and `dd`. They run on the machine of
//! the drives, if necessary through a prefix command such as `ssh root@gpu-7`. Capabilities, serial numbers and device
//! names (`nvme0`) are read at every call. Drives have no idempotency keys, so keys, epochs and the last command are
//! stored in a file per drive. See `docs/backends/drives.md` for the settings.
//!
//! Invariants: no command is sent to a drive in use; a sanitisation in progress is not started again; a command that
//! failed, had no answer or was not observed to its end never counts as completed.

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
