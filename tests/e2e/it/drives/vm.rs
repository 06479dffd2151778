//! An emulated test machine with persistent drives, whose contents are files of this machine.

use backends::drives::{DrivesTarget, LocalMachine, VerifierTarget};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tempfile::TempDir;

/// The names of the machine in workflows.
pub const CLUSTER: &str = "slurm-1";
pub const NODE: &str = "s-0000";

/// A running machine; it ends with its last user.
#[derive(Debug)]
pub struct Vm {
    dir: TempDir,
    port: String,
    one_at_a_time: tokio::sync::Mutex<()>,
}

static FROM_DRIVE: Mutex<Weak<Vm>> = Mutex::new(Weak::new());
static IN_MEMORY: Mutex<Weak<Vm>> = Mutex::new(Weak::new());
static OF_A_TENANT: Mutex<Weak<Vm>> = Mutex::new(Weak::new());

impl Vm {
    /// A machine that boots from a drive, `SYS0001`, and has a drive for each test.
    pub fn from_drive() -> Option<Arc<Self>> {
        Self::shared(&FROM_DRIVE, "drive", &["WIPE0001", "KEEP0001=16", "LUKS0001=32"])
    }

    /// A machine whose system is in memory, as during a scrub, with one drive.
    pub fn in_memory() -> Option<Arc<Self>> {
        Self::shared(&IN_MEMORY, "memory", &["LEAVE001"])
    }

    /// The same with two drives of one tenant: one for its files, and one for an encrypted volume.
    pub fn of_a_tenant() -> Option<Arc<Self>> {
        Self::shared(&OF_A_TENANT, "memory", &["FILES001=32", "VOLUME01=32"])
    }

    fn shared(running: &Mutex<Weak<Self>>, from: &str, drives: &[&str]) -> Option<Arc<Self>> {
        let mut shared = running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Some(running);
        }
        let dir = tempfile::Builder::new().prefix("tenure-vm-").tempdir().unwrap();
        let place = [dir.path().to_str().unwrap(), from];
        let env = match e2e::gateway::script("vm-up.sh", &[&place, drives].concat()) {
            Ok(env) => env,
            Err(why) => {
                e2e::skipped("a machine of qemu", &why);
                return None;
            }
        };
        let running = Arc::new(Self {
            dir,
            port: env["VM_PORT"].clone(),
            one_at_a_time: tokio::sync::Mutex::default(),
        });
        *shared = Arc::downgrade(&running);
        Some(running)
    }

    /// Locks a drive that two tests share.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.one_at_a_time.lock().await
    }

    /// Runs a program in the machine, which must succeed, and returns its output.
    pub fn says(&self, words: &[&str]) -> String {
        let (code, said) = self.tries(words);
        assert_eq!(code, 0, "{words:?}: {said}");
        said
    }

    /// Runs a program in the machine and returns its exit code and output.
    pub fn tries(&self, words: &[&str]) -> (i32, String) {
        let mut command = Command::new(exec());
        let output = command.arg(&self.port).args(words).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.code().unwrap(), said.into_owned())
    }

    /// Returns the device file of the drive's namespace.
    pub fn device(&self, serial: &str) -> String {
        let said = self.says(&["lsblk", "--json", "--nodeps", "--output", "PATH,SERIAL"]);
        let said: Value = serde_json::from_str(&said).unwrap();
        let all = said["blockdevices"].as_array().unwrap();
        let of = |block: &&Value| block["serial"].as_str().map(str::trim) == Some(serial);
        all.iter().find(of).unwrap()["path"].as_str().unwrap().to_owned()
    }

    /// Fills a device with lines of a text, bypassing caches.
    pub fn fill(&self, device: &str, text: &str, mebibytes: u32) {
        let line = format!(
            "yes '{text}' | dd of={device} bs=1M count={mebibytes} iflag=fullblock oflag=direct status=none"
        );
        self.says(&["sh", "-c", &line]);
    }

    /// Counts the lines with this text in a drive's content. It reads a file of this machine, without any tool of the
    /// emulated one.
    pub fn scan(&self, serial: &str, text: &str) -> usize {
        let content = self.dir.path().join(format!("{serial}.img"));
        let found = Command::new("grep").args(["-caF", "-e", text]).arg(content).output().unwrap();
        assert!(found.status.code().is_some_and(|code| code < 2), "{found:?}");
        String::from_utf8_lossy(&found.stdout).trim().parse().unwrap()
    }

    /// Settings that reach it.
    pub fn target(&self, state: &Path) -> DrivesTarget {
        DrivesTarget {
            through: vec![exec().to_str().unwrap().to_owned(), self.port.clone()],
            nvme: "/bin/nvme".into(),
            cryptsetup: "/bin/cryptsetup".into(),
            lsblk: "/bin/lsblk".into(),
            verifier: VerifierTarget {
                dd: "/bin/dd".into(),
                xargs: "/bin/xargs".into(),
                sections: 50,
                ..VerifierTarget::default()
            },
            ..DrivesTarget::new(state)
        }
    }

    /// The same, in the format of a target file.
    pub fn settings(&self, state: &Path) -> Value {
        let target = self.target(state);
        json!({
            "state": target.state, "through": target.through,
            "nvme": target.nvme, "cryptsetup": target.cryptsetup, "lsblk": target.lsblk,
            "verifier": { "dd": target.verifier.dd, "xargs": target.verifier.xargs, "sections": target.verifier.sections },
        })
    }

    /// Returns the backend, with its state in a folder of its own.
    pub fn machine(&self) -> (LocalMachine, TempDir) {
        let state = tempfile::tempdir().unwrap();
        (LocalMachine::connect(CLUSTER, NODE, self.target(state.path())).unwrap(), state)
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        let down = Command::new(e2e::scripts().join("vm-down.sh")).arg(self.dir.path()).status();
        assert!(down.is_ok_and(|status| status.success()), "the machine has ended");
    }
}

fn exec() -> PathBuf {
    e2e::scripts().join("vm-exec.sh").canonicalize().unwrap()
}
