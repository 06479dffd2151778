//! Settings for the drives of a machine.

use crate::{TargetError, exec::ExecTarget};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use workflows::platform::{Observer, VerifiedAs};

/// The hooks of a machine, for actions that this backend does not implement.
pub(super) const HOOKS: [&str; 5] = ["boot", "connect", "describe", "reset", "scrub_gpu"];

/// The drives of a machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrivesTarget {
    /// The folder for the state of each drive: last command, keys and epochs. It must exist, on a disk that is never
    /// erased.
    pub state: PathBuf,
    /// A prefix command that runs programs on the machine with the drives, such as `[/usr/bin/ssh, -oBatchMode=yes,
    /// root@gpu-7]`. The first word is an absolute path. Default: none; the drives are in this machine.
    #[serde(default)]
    pub through: Vec<String>,
    /// Variables of the server's environment that are passed to the programs. Default `PATH`.
    #[serde(default = "path_only")]
    pub environment: Vec<String>,
    /// nvme-cli, 2.0 or later. Default `/usr/sbin/nvme`.
    #[serde(default = "nvme")]
    pub nvme: PathBuf,
    /// cryptsetup, 2.4 or later. Default `/usr/sbin/cryptsetup`.
    #[serde(default = "cryptsetup")]
    pub cryptsetup: PathBuf,
    /// util-linux's `lsblk`, 2.37 or later. Default `/usr/bin/lsblk`.
    #[serde(default = "lsblk")]
    pub lsblk: PathBuf,
    /// How drives are sampled.
    #[serde(default)]
    pub verifier: VerifierTarget,
    /// A folder with keys of LUKS volumes, in files named by the volume's UUID. They are tried after an erasure.
    /// Default: none; then only the absence of key slots is proved.
    #[serde(default)]
    pub known_keys: Option<PathBuf>,
    /// Programs for actions that this backend does not implement: `describe`, `connect`, `boot`, `scrub_gpu`, `reset`.
    /// Default: none; actions without a program fail.
    #[serde(default)]
    pub hooks: BTreeMap<String, ExecTarget>,
}

/// How drives are sampled: with other programs than the erasure and, if configured, with separate access.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerifierTarget {
    /// The prefix command of the verifier's programs, with separate credentials. Default: the value of `through`.
    pub through: Option<Vec<String>>,
    /// `dd` with `iflag=direct`. Default `/usr/bin/dd`.
    pub dd: PathBuf,
    /// `xargs` with `-I`. Default `/usr/bin/xargs`.
    pub xargs: PathBuf,
    /// The number of equal sections per namespace. Two blocks of 4 KiB are read in each, plus the first and the last
    /// block. Default 1000, as NIST SP 800-88 Rev. 1 advises.
    pub sections: u64,
}

impl Default for VerifierTarget {
    fn default() -> Self {
        Self { through: None, dd: "/usr/bin/dd".into(), xargs: "/usr/bin/xargs".into(), sections: 1_000 }
    }
}

fn path_only() -> Vec<String> {
    vec!["PATH".into()]
}

fn nvme() -> PathBuf {
    "/usr/sbin/nvme".into()
}

fn cryptsetup() -> PathBuf {
    "/usr/sbin/cryptsetup".into()
}

fn lsblk() -> PathBuf {
    "/usr/bin/lsblk".into()
}

impl DrivesTarget {
    /// Creates the settings for the local drives, with defaults.
    #[must_use]
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self {
            state: state.into(),
            through: Vec::new(),
            environment: path_only(),
            nvme: nvme(),
            cryptsetup: cryptsetup(),
            lsblk: lsblk(),
            verifier: VerifierTarget::default(),
            known_keys: None,
            hooks: BTreeMap::new(),
        }
    }

    /// Returns the prefix command, of the verifier or the platform.
    pub(super) fn way(&self, verifier: bool) -> &[String] {
        self.verifier.through.as_ref().filter(|_| verifier).unwrap_or(&self.through)
    }

    /// Returns whose credentials are used: the verifier's only if its access differs from the platform's.
    pub(super) fn verified_as(&self, eyes: Observer) -> VerifiedAs {
        match eyes {
            Observer::Verifier if self.way(true) != self.way(false) => VerifiedAs::Verifier,
            Observer::Verifier | Observer::Platform => VerifiedAs::Platform,
        }
    }

    pub(super) fn check(&self) -> Result<(), TargetError> {
        if !self.state.is_dir() {
            let why =
                format!("{} is not a folder: create it, writable only for this user", self.state.display());
            return Err(TargetError::new("state", why));
        }
        let verifiers = self.verifier.through.as_deref();
        for (field, way) in
            [("through", Some(&*self.through)), ("verifier.through", verifiers)].into_iter().filter_map(both)
        {
            let Some(first) = way.first() else { continue };
            let first = Path::new(first);
            if !first.is_absolute() || !first.is_file() {
                let why =
                    format!("{} is not a file: begin with the absolute path of a program", first.display());
                return Err(TargetError::new(field, why));
            }
        }
        let programs = [
            ("nvme", &self.nvme),
            ("cryptsetup", &self.cryptsetup),
            ("lsblk", &self.lsblk),
            ("verifier.dd", &self.verifier.dd),
            ("verifier.xargs", &self.verifier.xargs),
        ];
        for (field, program) in programs {
            if !program.is_absolute() {
                let why = format!("{}: write an absolute path", program.display());
                return Err(TargetError::new(field, why));
            }
        }
        if self.verifier.sections == 0 {
            return Err(TargetError::new("verifier.sections", "0 is not allowed: use at least 1"));
        }
        if let Some(folder) = self.known_keys.as_ref().filter(|folder| !folder.is_dir()) {
            let why = format!("{} is not a folder: create it, or remove the setting", folder.display());
            return Err(TargetError::new("known_keys", why));
        }
        for (name, hook) in &self.hooks {
            let here = format!("hooks.{name}");
            if !HOOKS.contains(&name.as_str()) {
                return Err(TargetError::new(
                    &here,
                    format!("is not a hook of a machine; use one of {}", HOOKS.join(", ")),
                ));
            }
            hook.check().map_err(|e| e.within(&here))?;
        }
        Ok(())
    }
}

fn both<'a>((field, way): (&'static str, Option<&'a [String]>)) -> Option<(&'static str, &'a [String])> {
    Some((field, way?))
}
