//! The settings of a Slurm cluster.

use serde::Deserialize;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use workflows::duration;

/// Where a Slurm cluster is, and as whom it is spoken to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlurmTarget {
    /// Where `slurmrestd` listens, such as `http://slurm.example:6820`.
    pub url: String,
    /// What Slurm calls the cluster: its `ClusterName`.
    pub cluster: String,
    /// Whom the token is for: a user with Slurm's administrator level. Default `root`.
    #[serde(default = "root")]
    pub user: String,
    /// A file with the JSON web token of `user`, read at each use, so that it can be renewed in place.
    pub token_file: PathBuf,
    /// Other credentials with which things are looked for after they were removed. Without them the look is with the first.
    #[serde(default)]
    pub verifier: Option<Reader>,
    /// The cluster's `slurm.conf`, for the tools.
    pub conf: PathBuf,
    /// A file that whoever writes this accounting locks before it does (`flock`), on a file system that all of them share. Default none: the
    /// calls of one process take turns anyway. Needed before Slurm 23.11 where several engine nodes, or others, write one accounting.
    #[serde(default)]
    pub accounting_lock: Option<PathBuf>,
    /// The program. Default `sacctmgr`, looked for on `PATH`.
    #[serde(default = "sacctmgr")]
    pub sacctmgr: PathBuf,
    /// The program. Default `scontrol`, looked for on `PATH`.
    #[serde(default = "scontrol")]
    pub scontrol: PathBuf,
    /// The program. Default `scancel`, looked for on `PATH`.
    #[serde(default = "scancel")]
    pub scancel: PathBuf,
    /// How the tools prove who they are. Default `munge`, as the operating system's user that runs Tenure.
    #[serde(default)]
    pub tools_by: ToolsBy,
    /// The signal that asks a job to save its work. Default `USR1`.
    #[serde(default = "usr1")]
    pub checkpoint_signal: String,
    /// How long `slurmctld` may take to write down what it has answered, such as `10s`: what it is told of nodes, reservations and jobs is
    /// looked at again after that. `0s` trusts its answers. Default `7s`: it writes every 5 s (`SAVE_MAX_WAIT` of its sources).
    #[serde(default = "saves_within", with = "duration::text")]
    pub saves_within: Duration,
}

/// Credentials that read.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reader {
    /// Whom the token is for.
    pub user: String,
    /// A file with its JSON web token.
    pub token_file: PathBuf,
}

/// How the tools prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolsBy {
    /// By the `munge` daemon of the machine, as the user that runs Tenure.
    #[default]
    Munge,
    /// By the token of `token_file`: no `munge` is needed where Tenure runs.
    Token,
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}; {remedy}")]
pub struct TargetError {
    /// Which one.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
    /// What to do.
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
    fn a_setting_that_cannot_be_used_is_named_with_its_remedy() {
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
