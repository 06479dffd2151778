//! Drives that really forget: emulated NVMe drives of a machine in qemu, with the very nvme-cli, cryptsetup, lsblk and dd that
//! stand on a node. qemu's drives format and do not sanitise; what sanitises is a stand-in of a program, which says so.

mod conformance;
mod leaving;
mod media;
mod stand_in;
pub mod vm;
mod volumes;

use std::time::Duration;
use store::Epoch;
use workflows::platform::CallMetadata;

fn stamp(step: &str) -> CallMetadata {
    CallMetadata {
        action: "test",
        step: step.into(),
        key: step.into(),
        epoch: Epoch(1),
        undo: false,
        deadline: Duration::from_secs(120),
        dry_run: false,
    }
}
