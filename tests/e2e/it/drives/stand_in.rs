//! Sanitising, which qemu's drives do not support: `nvme` and `lsblk` are shell scripts that simulate one drive in files. They
//! prove nothing about real controllers; the tests check how the backend reads the log pages.

use super::stamp;
use backends::{
    drives::{DrivesTarget, LocalMachine},
    simulated::{LocalWorld, simulated_platform},
    targets::Targets,
};
use engine::Class;
use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration};
use store::Epoch;
use tempfile::TempDir;
use workflows::platform::{CallMetadata, DriveTechnique, Machines, SanitiseStatus, codes};

const BLOCK_ERASE: DriveTechnique = DriveTechnique::BlockErase;

const NVME: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
case $1 in
version) echo "nvme version 0.0 (a stand-in)" ;;
list-subsys) echo '[{"Subsystems":[{"Paths":[{"Name":"nvme0","Transport":"pcie"}]}]}]' ;;
id-ctrl) cat identify ;;
list-ns) echo '{"nsid_list":[{"nsid":1}]}' ;;
sanitize-log) cat log ;;
sanitize)
    echo "$*" >>told
    [ -e refuses ] && { echo "NVMe status: Invalid Field" >&2; exit 1; }
    cp begun log
    [ -e hangs ] && { echo $$ >hanging; sleep 600; }
    echo "$*" >>answered ;;
*) exit 2 ;;
esac
"#;
const LSBLK: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo '{"blockdevices":[{"name":"nvme0n1","path":"/dev/nvme0n1","type":"disk","size":1048576,"serial":"'"$(cat serial)"'","mountpoints":[null]}]}'
"#;

/// A simulated drive in a folder.
pub struct Drive(TempDir);

impl Drive {
    fn new() -> Self {
        Self::called("SAN0001")
    }

    /// With this serial number, of at most 20 characters.
    pub fn called(serial: &str) -> Self {
        let drive = Self(tempfile::tempdir().unwrap());
        for (name, text) in [("nvme", NVME), ("lsblk", LSBLK)] {
            fs::write(drive.file(name), text).unwrap();
            fs::set_permissions(drive.file(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut identify = vec![0; 4_096];
        identify[4..24].copy_from_slice(format!("{serial:20}").as_bytes());
        fs::write(drive.file("serial"), serial).unwrap();
        // SANICAP: crypto and block erase.
        identify[328] = 0b011;
        fs::write(drive.file("identify"), identify).unwrap();
        drive.log("log", 0, 0);
        drive.log("begun", 2, 2);
        fs::create_dir(drive.file("state")).unwrap();
        drive
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Writes its sanitize log: SSTAT and the last requested action.
    fn log(&self, name: &str, sstat: u16, action: u8) {
        let mut page = vec![0; 512];
        page[2..4].copy_from_slice(&sstat.to_le_bytes());
        page[4] = action;
        page[12..16].copy_from_slice(&90_u32.to_le_bytes());
        fs::write(self.file(name), page).unwrap();
    }

    /// Makes it answer sanitise commands as unsupported.
    pub fn refuses(&self) {
        fs::write(self.file("refuses"), "").unwrap();
    }

    /// Returns the sanitise commands that the drive received.
    pub fn words(&self) -> Vec<String> {
        let told = fs::read_to_string(self.file("told")).unwrap_or_default();
        told.lines().map(str::to_owned).collect()
    }

    /// Returns the number of sanitise commands.
    fn told(&self) -> usize {
        self.words().len()
    }

    fn machine(&self) -> LocalMachine {
        LocalMachine::connect("eu-1", "gpu-7", self.target()).unwrap()
    }

    /// Returns the settings of a machine with this drive.
    pub fn target(&self) -> DrivesTarget {
        let (nvme, lsblk) = (self.file("nvme"), self.file("lsblk"));
        DrivesTarget { nvme, lsblk, ..DrivesTarget::new(self.file("state")) }
    }

    async fn begin(&self, stamp: &CallMetadata) -> Result<(), engine::ActionError> {
        self.machine().sanitise("eu-1", "gpu-7", "SAN0001", BLOCK_ERASE, stamp).await
    }

    async fn status(&self) -> (SanitiseStatus, u64) {
        let log = self.machine().sanitize_log("eu-1", "gpu-7", "SAN0001", &stamp("log")).await.unwrap();
        (log.status, log.begun)
    }
}

#[tokio::test]
async fn a_running_sanitisation_is_not_started_again() {
    let drive = Drive::new();
    let drives = drive.machine().drives(&stamp("look")).await.unwrap();
    assert_eq!((drives[0].can[0], drives[0].estimate_s), (BLOCK_ERASE, Some(90)));

    drive.begin(&stamp("first")).await.unwrap();
    drive.begin(&stamp("first")).await.unwrap();
    let second = drive.begin(&stamp("second")).await.unwrap_err();

    assert_eq!((second.class, second.code.as_str()), (Class::Permanent, codes::DRIVE_BUSY));
    assert_eq!(drive.status().await, (SanitiseStatus::InProgress, 1));
    assert_eq!(drive.told(), 1);
    drive.log("log", 0x101, 2);
    assert_eq!(drive.status().await, (SanitiseStatus::Completed, 1));
    drive.log("log", 0x001, 2);
    assert_eq!(drive.status().await, (SanitiseStatus::Failed, 1), "data was written since");
}

#[tokio::test]
async fn a_command_with_a_lost_answer_is_found_in_the_log_and_leaves_no_process() {
    let drive = Drive::new();
    fs::write(drive.file("hangs"), "").unwrap();

    let hurried = CallMetadata { deadline: Duration::from_secs(3), ..stamp("first") };
    let lost = drive.begin(&hurried).await.unwrap_err();

    assert_eq!(lost.class, Class::Unknown, "{lost}");
    let process = fs::read_to_string(drive.file("hanging")).unwrap();
    assert!(!Path::new("/proc").join(process.trim()).exists(), "it was killed");
    assert_eq!(drive.status().await, (SanitiseStatus::InProgress, 1));
    drive.begin(&stamp("first")).await.unwrap();
    assert_eq!(drive.told(), 1, "the log shows that the command arrived");
}

#[tokio::test]
async fn a_refused_drive_command_counts_as_not_done_and_a_stale_caller_cannot_send_one() {
    let drive = Drive::new();
    drive.refuses();
    let refused = drive.begin(&stamp("first")).await.unwrap_err();
    assert_eq!((refused.class, refused.code.as_str()), (Class::Permanent, codes::REFUSED));
    assert!(refused.message.contains("Invalid Field"), "{refused}");
    assert_eq!(drive.status().await, (SanitiseStatus::Never, 0));

    fs::remove_file(drive.file("refuses")).unwrap();
    drive.begin(&CallMetadata { epoch: Epoch(7), ..stamp("first") }).await.unwrap();
    drive.log("log", 0x101, 2);
    let late = CallMetadata { key: "first/again".into(), ..stamp("first") };
    assert_eq!(drive.begin(&late).await.unwrap_err().code, codes::FENCED);
    assert_eq!(drive.told(), 2);
}

/// A kernel name may refer to another drive by now: the serial number that the drive itself reports counts.
#[tokio::test]
async fn a_drive_is_erased_by_its_serial_number_and_never_by_its_name() {
    let drive = Drive::new();
    let mut identify = fs::read(drive.file("identify")).unwrap();
    identify[4..24].copy_from_slice(format!("{:20}", "OTHER").as_bytes());
    fs::write(drive.file("identify"), identify).unwrap();

    let refused = drive.begin(&stamp("first")).await.unwrap_err();

    assert!(refused.message.contains("no drive of this machine says"), "{refused}");
    assert_eq!(drive.told(), 0);
}

#[tokio::test]
async fn two_drives_with_one_serial_number_are_an_error_and_neither_is_erased() {
    let drive = Drive::new();
    let disk = |name: &str| {
        format!(
            r#"{{"name":"{name}","path":"/dev/{name}","type":"disk","size":1,"serial":"SAN0001","mountpoints":[null]}}"#
        )
    };
    let listed = format!(r#"{{"blockdevices":[{},{}]}}"#, disk("sda"), disk("sdb"));
    fs::write(drive.file("lsblk"), format!("#!/bin/sh\necho '{listed}'\n")).unwrap();

    for error in [
        drive.machine().drives(&stamp("look")).await.unwrap_err(),
        drive.begin(&stamp("first")).await.unwrap_err(),
    ] {
        assert!(error.message.contains("cannot be told apart"), "{error}");
    }
    assert_eq!(drive.told(), 0);
}

#[tokio::test]
async fn a_missing_hook_is_refused_with_the_setting_to_add() {
    let machine = Drive::new().machine();
    let missing = machine.reset("eu-1", "gpu-7", &stamp("reset")).await.unwrap_err();
    assert_eq!((missing.class, missing.code.as_str()), (Class::Permanent, codes::UNSUPPORTED));
    assert!(missing.message.contains("`hooks.reset` of its settings"), "{missing}");
    let other = machine.reset("eu-1", "gpu-8", &stamp("reset")).await.unwrap_err();
    assert_eq!(other.code, codes::REFUSED, "the command is for another machine");
}

/// A hook handles the rest of the machine. Drives are read directly, and other machines are still simulated.
#[tokio::test]
async fn the_target_file_names_a_machine_and_the_facts_of_its_hook_about_drives_are_ignored() {
    let drive = Drive::new();
    let hook = drive.file("describe");
    let lie = r#"#!/bin/sh
echo '{"status":"done","output":{"environment":"scrub","network":"scrub","workloads":3,"serial":"SN-7","gpus":[],"nics":[],
      "drives":[{"serial":"MADE-UP"}]}}'
"#;
    fs::write(&hook, lie).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = serde_json::json!({ "machines": { "eu-1": { "gpu-7": { "drives": {
        "state": drive.file("state"), "nvme": drive.file("nvme"), "lsblk": drive.file("lsblk"),
        "hooks": { "describe": { "program": hook } },
    } } } } });

    let platform = simulated_platform(Arc::new(LocalWorld::new()));
    let platform = Targets::parse(&settings.to_string()).unwrap().connect(platform).await.unwrap().platform;

    assert_eq!(platform.machines.backend(), "eu-1/gpu-7: drives, others: simulated");
    let devices = platform.machines.devices("eu-1", "gpu-7", 0, &stamp("look")).await.unwrap();
    assert_eq!((devices.workloads, devices.serial.as_str()), (3, "SN-7"));
    let serials: Vec<_> = devices.drives.iter().map(|drive| drive.serial.as_str()).collect();
    assert_eq!(serials, ["SAN0001"]);
    let other = platform.machines.devices("eu-1", "gpu-8", 0, &stamp("look")).await.unwrap();
    assert_eq!(other.drives[0].model, "simulated");
}
