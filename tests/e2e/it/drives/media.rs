//! The data that remains on a drive, read from the image file of qemu.

use super::{
    stamp,
    vm::{CLUSTER, NODE, Vm},
};
use engine::Class;
use workflows::platform::{DriveTechnique, Machines, SanitiseStatus, codes};

const SECRET: &str = "the weights of acme, 7";

#[tokio::test]
async fn an_independent_scan_finds_no_secret_after_the_format() {
    let Some(vm) = Vm::from_drive() else { return };
    let (machine, _state) = vm.machine();
    vm.fill(&vm.device("WIPE0001"), SECRET, 64);
    assert!(vm.scan("WIPE0001", SECRET) > 1_000_000, "the secret is on the drive");
    let before = machine.sample_sectors(CLUSTER, NODE, "WIPE0001", "before", &stamp("sample")).await.unwrap();
    assert!(before.mismatches == before.read && before.read > 100, "every sample shows it: {before:?}");

    let (format, dry) = (DriveTechnique::Format, stamp("format").as_dry_run());
    machine.sanitise(CLUSTER, NODE, "WIPE0001", format, &dry).await.unwrap();
    assert!(vm.scan("WIPE0001", SECRET) > 1_000_000, "a dry run erases nothing");
    machine.sanitise(CLUSTER, NODE, "WIPE0001", format, &stamp("format")).await.unwrap();

    assert_eq!(vm.scan("WIPE0001", SECRET), 0);
    let log = machine.sanitize_log(CLUSTER, NODE, "WIPE0001", &stamp("log")).await.unwrap();
    assert_eq!((log.status, log.begun), (SanitiseStatus::Completed, 1));
    let after = machine.sample_sectors(CLUSTER, NODE, "WIPE0001", "after", &stamp("sample")).await.unwrap();
    assert_eq!((after.read, after.mismatches, after.unreadable), (before.read, 0, 0));
    vm.fill(&vm.device("WIPE0001"), SECRET, 1);
    machine.sanitise(CLUSTER, NODE, "WIPE0001", format, &stamp("format")).await.unwrap();
    assert!(vm.scan("WIPE0001", SECRET) > 0, "a repeated key does nothing");
}

#[tokio::test]
async fn a_drive_without_sanitisation_is_reported_and_never_counted_as_sanitised() {
    let Some(vm) = Vm::from_drive() else { return };
    let (machine, _state) = vm.machine();
    let device = vm.device("KEEP0001");
    vm.fill(&device, SECRET, 1);
    let (code, said) = vm.tries(&["nvme", "sanitize", device.trim_end_matches("n1"), "--sanact=2"]);
    assert!(code != 0 && said.contains("Invalid Command Opcode"), "an error of the drive itself: {said}");

    let drives = machine.drives(&stamp("look")).await.unwrap();
    let drive = drives.iter().find(|drive| drive.serial == "KEEP0001").unwrap();
    assert_eq!(drive.can, [DriveTechnique::Format]);
    assert_eq!((drive.model.as_str(), drive.capacity_bytes), ("QEMU NVMe Ctrl", 16 << 20));
    for technique in [DriveTechnique::BlockErase, DriveTechnique::CryptoErase, DriveTechnique::Overwrite] {
        let step = stamp(technique.into());
        let refused = machine.sanitise(CLUSTER, NODE, "KEEP0001", technique, &step).await.unwrap_err();
        assert_eq!((refused.class, refused.code.as_str()), (Class::Permanent, codes::DRIVE_UNSUITABLE));
    }

    let log = machine.sanitize_log(CLUSTER, NODE, "KEEP0001", &stamp("log")).await.unwrap();
    assert_eq!((log.status, log.begun), (SanitiseStatus::Never, 0));
    assert!(vm.scan("KEEP0001", SECRET) > 0, "nothing was erased");
    let absent = machine.sanitize_log(CLUSTER, NODE, "GONE0001", &stamp("log")).await.unwrap_err();
    assert_eq!(absent.code, codes::OBJECT_MISSING, "a missing drive never counts as erased");
}

#[tokio::test]
async fn the_drive_of_the_running_system_is_refused() {
    let Some(vm) = Vm::from_drive() else { return };
    let (machine, _state) = vm.machine();
    let system = machine.drives(&stamp("look")).await.unwrap().into_iter().find(|d| d.serial == "SYS0001");
    assert_eq!(system.unwrap().can, [DriveTechnique::Format], "its controller supports it");

    let format = DriveTechnique::Format;
    let refused = machine.sanitise(CLUSTER, NODE, "SYS0001", format, &stamp("system")).await.unwrap_err();

    assert_eq!((refused.class, refused.code.as_str()), (Class::Permanent, codes::REFUSED));
    assert!(refused.message.contains("is mounted at /"), "{refused}");
    let log = machine.sanitize_log(CLUSTER, NODE, "SYS0001", &stamp("log")).await.unwrap();
    assert_eq!((log.status, log.begun), (SanitiseStatus::Never, 0));
    vm.says(&["ls", "/bin/nvme"]);
}
