//! The conformance kit for drives: erasures by a fake nvme-cli, and keys of LUKS volumes by the real cryptsetup on files of this
//! machine. Wrappers of the programs inject the faults.

use super::stand_in::Drive;
use async_trait::async_trait;
use backends::drives::{DrivesTarget, LocalMachine};
use e2e::excuses::{holds, unchanging};
use engine::ActionError;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};
use tempfile::TempDir;
use tests::kit::{self, Subject, Trouble};
use workflows::platform::{
    CallMetadata, DriveTechnique, FoundObject, LUKS_KEY, Machines, Observer, SanitiseStatus, TenantResource,
    TenantResources,
};

const CLUSTER: &str = "eu-1";
const NODE: &str = "gpu-7";
const TENANT: &str = "acme";
const NOBODY_TURNS_AWAY: &str = "local programs do not throttle";

/// Injects the fault in the file `trouble`, and else runs its arguments.
const TROUBLE: &str = r#"#!/bin/sh
beside=$(dirname "$0")
read -r what span <"$beside/trouble"
calm() { echo calm >"$beside/trouble"; }
case $2 in sanitize | luksErase) changes=1 ;; *) changes= ;; esac
case $what in
lose_request) [ "$changes" ] && { calm; kill -9 $$; } ;;
lose_answer) [ "$changes" ] && { calm; "$@" >/dev/null 2>&1; kill -9 $$; } ;;
half_done) [ "$changes" ] && echo down >"$beside/trouble" ;;
slow) sleep "$span" ;;
deny)
    case $1 in
    *lsblk) ;;
    *cryptsetup) echo "Device /dev/any does not exist or access denied." >&2; exit 4 ;;
    *) echo "/dev/nvme0: Permission denied" >&2; exit 1 ;;
    esac ;;
garbage) echo '{what?'; exit 0 ;;
down) exit 255 ;;
not_supported) exit 127 ;;
esac
exec "$@"
"#;

/// The path to a machine, with faults.
struct Way(TempDir);

impl Way {
    fn new() -> Self {
        let way = Self(tempfile::tempdir().unwrap());
        fs::write(way.0.path().join("way"), TROUBLE).unwrap();
        fs::set_permissions(way.0.path().join("way"), fs::Permissions::from_mode(0o755)).unwrap();
        way.has("calm");
        way
    }

    fn has(&self, trouble: &str) {
        fs::write(self.0.path().join("trouble"), format!("{trouble}\n")).unwrap();
    }

    fn before(&self, target: DrivesTarget) -> DrivesTarget {
        DrivesTarget { through: vec![self.0.path().join("way").to_str().unwrap().to_owned()], ..target }
    }

    fn trouble(&self, next: Trouble) -> Result<(), &'static str> {
        self.has(&match next {
            Trouble::LoseRequest => "lose_request".to_owned(),
            Trouble::LoseAnswer => "lose_answer".to_owned(),
            Trouble::HalfDone => "half_done".to_owned(),
            Trouble::Slow(span) => format!("slow {}", span.as_secs_f64()),
            Trouble::Throttle(_) => return Err(NOBODY_TURNS_AWAY),
            Trouble::Deny => "deny".to_owned(),
            Trouble::Garbage => "garbage".to_owned(),
            Trouble::Down => "down".to_owned(),
            Trouble::NotSupported => "not_supported".to_owned(),
            Trouble::Calm => "calm".to_owned(),
        });
        Ok(())
    }
}

fn found(uid: String) -> FoundObject {
    FoundObject { uid, tenant: TENANT.into(), step: String::new(), spec: Value::Null, terminating: false }
}

/// Returns true if the case removes something.
fn takes_away(case: &str) -> bool {
    case.split('.').any(|part| part.starts_with("remove") || part.starts_with("undo") || part == "undone")
        || case.ends_with("_undo")
        || case == "look.gone"
}

/// Erasures of drives, each drive in its own machine. The technique represents the amount.
struct Erasures {
    way: Way,
    drives: Mutex<BTreeMap<String, Drive>>,
    asked: Mutex<BTreeMap<(String, &'static str), u64>>,
}

fn technique(amount: u64) -> (DriveTechnique, &'static str) {
    if amount < 6 {
        (DriveTechnique::BlockErase, "--sanact=2")
    } else {
        (DriveTechnique::CryptoErase, "--sanact=4")
    }
}

impl Erasures {
    fn machine(&self, drive: &str) -> LocalMachine {
        let mut drives = self.drives.lock().unwrap();
        let drive = drives.entry(drive.to_owned()).or_insert_with(|| Drive::called(drive));
        LocalMachine::connect(CLUSTER, NODE, self.way.before(drive.target())).unwrap()
    }
}

#[async_trait]
impl Subject for Erasures {
    fn name(&self) -> &'static str {
        "drives (a stand-in of nvme-cli)"
    }

    async fn make(&self, thing: &str, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        let (technique, word) = technique(amount);
        self.asked.lock().unwrap().insert((thing.to_owned(), word), amount);
        self.machine(thing).sanitise(CLUSTER, NODE, thing, technique, stamp).await?;
        Ok(found("1".into()))
    }

    async fn look(&self, thing: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        let log = self.machine(thing).sanitize_log(CLUSTER, NODE, thing, stamp).await?;
        let never = log.status == SanitiseStatus::Never && log.begun == 0;
        Ok((!never).then(|| found(log.begun.to_string())))
    }

    async fn change(&self, _: &str, _: u64, _: u64, _: &CallMetadata) -> Result<FoundObject, ActionError> {
        unreachable!("excused")
    }

    async fn remove(&self, _: &str, _: &FoundObject, _: &CallMetadata) -> Result<(), ActionError> {
        // The result of a case stays with its drive.
        Ok(())
    }

    /// Returns the command that the drive got, if it got exactly one.
    async fn really(&self, thing: &str) -> Option<u64> {
        let drives = self.drives.lock().unwrap();
        let told = drives.get(thing).map(Drive::words).unwrap_or_default();
        let [once] = &told[..] else { return (!told.is_empty()).then_some(u64::MAX) };
        let asked = self.asked.lock().unwrap();
        asked.iter().find(|((of, word), _)| of == thing && once.contains(word)).map(|(_, amount)| *amount)
    }

    async fn trouble(&self, next: Trouble) -> Result<(), &'static str> {
        self.way.trouble(next)
    }

    fn excused(&self, case: &str) -> Option<&'static str> {
        if takes_away(case) {
            return Some("an erasure has no undo");
        }
        match case {
            "make.marks" => Some("a drive has no mark: only the file on the node records its step"),
            "make.foreign" | "repeat.make_equal" | "repeat.make_unequal" | "dry_run.make_refused" => Some(
                "an erasure has no owner: a second one is rejected while one runs (`drive.busy`), and is a new one afterwards",
            ),
            "repeat.key_reused" | "fence.make" => {
                Some("keys and epochs are stored per drive, and the other object is another drive")
            }
            _ => unchanging(case),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drive_erasures_fulfil_the_contract_of_backends() {
    let subject = Erasures { way: Way::new(), drives: Mutex::default(), asked: Mutex::default() };

    holds(&kit::run(&subject).await);
}

/// Keys of existing volumes: LUKS on files, which a fake `lsblk` lists as disks.
struct Volumes {
    way: Way,
    folder: TempDir,
    machine: LocalMachine,
    /// The UUID of each object's volume, and the amount that it represents.
    made: Mutex<BTreeMap<String, (String, u64)>>,
}

const LSBLK: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
all=
for file in *.img; do
    [ -e "$file" ] || continue
    all="$all${all:+,}"'{"name":"'"$file"'","path":"'"$PWD/$file"'","type":"disk","size":20971520,"serial":"'"$file"'","mountpoints":[null]}'
done
echo '{"blockdevices":['"$all"']}'
"#;

fn cryptsetup(words: &[&str]) -> (bool, String) {
    let said = Command::new("/usr/sbin/cryptsetup").args(words).output().unwrap();
    (said.status.success(), String::from_utf8_lossy(&said.stdout).into_owned())
}

impl Volumes {
    /// Returns `None` without cryptsetup, after printing that the test is skipped.
    fn new() -> Option<Self> {
        if !Path::new("/usr/sbin/cryptsetup").is_file() {
            e2e::skipped("cryptsetup", "tests/servers/prepare.sh installs what is needed");
            return None;
        }
        let (way, folder) = (Way::new(), tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name);
        for name in ["state", "known"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("lsblk"), LSBLK).unwrap();
        fs::set_permissions(at("lsblk"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(at("key"), "known").unwrap();
        let target = DrivesTarget {
            lsblk: at("lsblk"),
            known_keys: Some(at("known")),
            ..DrivesTarget::new(at("state"))
        };
        let machine = LocalMachine::connect(CLUSTER, NODE, way.before(target)).unwrap();
        Some(Self { way, folder, machine, made: Mutex::default() })
    }

    fn file(&self, thing: &str) -> PathBuf {
        self.folder.path().join(format!("{thing}.img"))
    }

    fn key(uuid: &str) -> TenantResource {
        TenantResource::new("storage", CLUSTER, LUKS_KEY, &format!("{NODE}/{uuid}"))
    }

    fn uuid(&self, thing: &str) -> String {
        self.made.lock().unwrap().get(thing).map_or_else(|| "none".to_owned(), |(uuid, _)| uuid.clone())
    }
}

#[async_trait]
impl Subject for Volumes {
    fn name(&self) -> &'static str {
        "drives (LUKS keys)"
    }

    /// Uses cryptsetup itself.
    async fn make(&self, thing: &str, amount: u64, _: &CallMetadata) -> Result<FoundObject, ActionError> {
        let (file, key) = (self.file(thing), self.folder.path().join("key"));
        fs::File::create(&file).unwrap().set_len(20 << 20).unwrap();
        let (path, key) = (file.to_str().unwrap(), key.to_str().unwrap());
        let quick = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
        let words = ["luksFormat", "-q", "--type", "luks2", "--subsystem", "tenure/acme/workload", path, key];
        assert!(cryptsetup(&[&words[..], &quick].concat()).0);
        let uuid = cryptsetup(&["luksUUID", path]).1.trim().to_owned();
        fs::copy(key, self.folder.path().join("known").join(&uuid)).unwrap();
        self.made.lock().unwrap().insert(thing.to_owned(), (uuid.clone(), amount));
        Ok(found(uuid))
    }

    async fn look(&self, thing: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        let seen = TenantResources::read_resource(
            &self.machine,
            &Self::key(&self.uuid(thing)),
            Observer::Platform,
            stamp,
        )
        .await?;
        Ok(seen.map(|seen| found(seen.uid)))
    }

    async fn change(&self, _: &str, _: u64, _: u64, _: &CallMetadata) -> Result<FoundObject, ActionError> {
        unreachable!("excused")
    }

    async fn remove(&self, _: &str, found: &FoundObject, stamp: &CallMetadata) -> Result<(), ActionError> {
        TenantResources::remove(&self.machine, &Self::key(&found.uid), &found.uid, stamp).await
    }

    /// Returns its amount if its key opens the volume.
    async fn really(&self, thing: &str) -> Option<u64> {
        let (file, key) = (self.file(thing), self.folder.path().join("key"));
        let (path, key) = (file.to_str().unwrap(), key.to_str().unwrap());
        let opens = cryptsetup(&["open", "--test-passphrase", "--key-file", key, path]).0;
        let amount = self.made.lock().unwrap().get(thing).map(|(_, amount)| *amount);
        amount.filter(|_| opens)
    }

    async fn trouble(&self, next: Trouble) -> Result<(), &'static str> {
        self.way.trouble(next)
    }

    fn excused(&self, case: &str) -> Option<&'static str> {
        let making = case.starts_with("make.")
            || case.split('.').nth(1).is_some_and(|part| part.starts_with("make"))
            || ["repeat.key_reused", "cancel.ends", "down.back", "undo.own", "fence.undone", "fence.remove"]
                .contains(&case);
        if making {
            return Some(
                "volumes are created outside Tenure: the backend only finds and destroys their keys, which carry no step",
            );
        }
        unchanging(case)
    }

    async fn vanish(&self, thing: &str) -> Result<(), &'static str> {
        let _gone_before = fs::remove_file(self.file(thing));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volume_keys_fulfil_the_contract_of_backends() {
    let Some(subject) = Volumes::new() else { return };

    holds(&kit::run(&subject).await);
}
