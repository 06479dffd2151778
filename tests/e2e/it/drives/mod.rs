//! Real erasures: emulated NVMe drives of a qemu machine, with the nvme-cli, cryptsetup, lsblk and dd of a real node. qemu's
//! drives support format and not sanitise; a fake program sanitises and reports itself as fake.

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
