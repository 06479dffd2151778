//! The settings of a Slurm cluster.

use serde::Deserialize;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use workflows::duration;

/// Address and credentials of a Slurm cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlurmTarget {
    /// The address of `slurmrestd`, such as `http://slurm.example:6820`.
    pub url: String,
    /// The cluster's `ClusterName` in Slurm.
    pub cluster: String,
    /// The user of the token, with Slurm's administrator level. Default `root`.
    #[serde(default = "root")]
    pub user: String,
    /// A file with the JSON web token of `user`. It is read at each use, so that it can be renewed in place.
    pub token_file: PathBuf,
    /// Separate credentials that verify removals. Without them, the main credentials are used.
    #[serde(default)]
    pub verifier: Option<Reader>,
    /// The path of the cluster's `slurm.conf`, for the tools.
    pub conf: PathBuf,
    /// A lock file (`flock`) for all writers of this accounting database, on a shared file system. Default: none; the
    /// calls of one process are always serialised. Required before Slurm 23.11 if several engine nodes or other
    /// programs write the same accounting database.
    #[serde(default)]
    pub accounting_lock: Option<PathBuf>,
    /// The program. Default `sacctmgr`, searched on `PATH`.
    #[serde(default = "sacctmgr")]
    pub sacctmgr: PathBuf,
    /// The program. Default `scontrol`, searched on `PATH`.
    #[serde(default = "scontrol")]
    pub scontrol: PathBuf,
    /// The program. Default `scancel`, searched on `PATH`.
    #[serde(default = "scancel")]
    pub scancel: PathBuf,
    /// How the tools authenticate. Default `munge`, as the operating system's user that runs Tenure.
    #[serde(default)]
    pub tools_by: ToolsBy,
    /// The signal that requests a checkpoint from a job. Default `USR1`.
    #[serde(default = "usr1")]
    pub checkpoint_signal: String,
    /// How long `slurmctld` may take to save confirmed changes, such as `10s`. Changes to nodes, reservations and jobs
    /// are checked again after this time. `0s` skips the check. Default `7s`: it saves every 5 s (`SAVE_MAX_WAIT` in
    /// its sources).
    #[serde(default = "saves_within", with = "duration::text")]
    pub saves_within: Duration,
}

/// Credentials for reading.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reader {
    /// The user of the token.
    pub user: String,
    /// A file with the JSON web token.
    pub token_file: PathBuf,
}

/// How the tools authenticate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolsBy {
    /// By the machine's `munge` daemon, as the user that runs Tenure.
    #[default]
    Munge,
    /// By the token in `token_file`; `munge` is not needed where Tenure runs.
    Token,
}

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}; {remedy}")]
pub struct TargetError {
    /// The name of the setting.
    pub field: &'static str,
    /// The problem.
    pub why: String,
    /// The fix.
    pub remedy: &'static str,
}

impl SlurmTarget {
    pub(super) fn check(&self) -> Result<(), TargetError> {
        let bad = |field, why: String, remedy| Err(TargetError { field, why, remedy });
        if !self.url.starts_with("http://") && !self.url.starts_with("https://") {
            let why = format!("{:?} is no address", self.url);
            return bad("url", why, "write it like http://slurm.example:6820");
        }
        if !is_word(&self.cluster) {
            let why = format!("{:?} is no name of a cluster", self.cluster);
            return bad("cluster", why, "give the ClusterName of slurm.conf");
        }
        let signal = self.checkpoint_signal.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        if self.checkpoint_signal.is_empty() || !signal {
            let why = format!("{:?} is no signal", self.checkpoint_signal);
            return bad("checkpoint_signal", why, "write its name without SIG, such as USR1");
        }
        let reader = self.verifier.iter().map(|reader| ("verifier.token_file", &reader.token_file));
        let files = [("token_file", &self.token_file), ("conf", &self.conf)];
        for (field, path) in files.into_iter().chain(reader) {
            if !Path::new(path).is_file() {
                let why = format!("there is no file {}", path.display());
                return bad(field, why, "give the path of a file that Tenure may read");
            }
        }
        Ok(())
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'.')
}

fn root() -> String {
    "root".into()
}

fn sacctmgr() -> PathBuf {
    "sacctmgr".into()
}

fn scontrol() -> PathBuf {
    "scontrol".into()
}

fn scancel() -> PathBuf {
    "scancel".into()
}

fn usr1() -> String {
    "USR1".into()
}

fn saves_within() -> Duration {
    Duration::from_secs(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> SlurmTarget {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let settings = serde_json::json!({ "url": url, "cluster": "gpu", "token_file": own, "conf": own });
        serde_json::from_value(settings).unwrap()
    }

    #[test]
    fn an_invalid_setting_is_refused_with_its_remedy() {
        assert_eq!(target("http://slurm:6820").check(), Ok(()));
        let said = target("slurm:6820").check().unwrap_err().to_string();
        assert_eq!(said, r#"url: "slurm:6820" is no address; write it like http://slurm.example:6820"#);
        let gone = SlurmTarget { token_file: "/nowhere".into(), ..target("http://slurm:6820") };
        assert_eq!(gone.check().unwrap_err().field, "token_file");
        let odd = SlurmTarget { checkpoint_signal: "usr1 -9".into(), ..target("http://slurm:6820") };
        assert_eq!(odd.check().unwrap_err().field, "checkpoint_signal");
        let unknown = serde_json::json!({ "url": "http://x", "cluster": "c", "token_file": "t", "conf": "c", "tokn": 1 });
        assert!(serde_json::from_value::<SlurmTarget>(unknown).is_err());
    }
}
