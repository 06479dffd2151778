//! Kills of Slurm's daemons during calls: each is killed when Tenure calls a tool, and restarts some seconds later.
//!
//! Wrappers of `sacctmgr` and `scontrol` kill a daemon before the real tool runs. Only Tenure calls them, so a daemon always dies
//! while an execution is active. The next death is written as `TOOL DAEMON`: at the next call of that tool.

use crate::slurm::cluster::{Cluster, until};
use serde_json::Value;
use std::{fs, path::PathBuf, time::Duration};

/// How long a daemon is down, in seconds.
const AWAY: u32 = 3;

/// Before it runs the tool, kills the daemon whose turn it is, unless one is away.
const STAND_IN: &str = r#"
exec 9>>"DIR/lock"
flock 9
if [ ! -e "DIR/away" ] && read -r at daemon 2>/dev/null <"DIR/next" && [ "$at" = TOOL ]; then
    sed -i 1d "DIR/next"
    touch "DIR/away"
    kill -KILL -- "-$(cat "RUN/$daemon")"
    echo "$daemon: TOOL $*" >>"DIR/died"
    # In a session of its own: the tools of a call end with it.
    setsid bash -c 'sleep AWAY; "BIN/$0"; rm "DIR/away"' "$daemon" </dev/null >/dev/null 2>&1 9>&- &
fi
exec 9>&-
exec TOOL "$@"
"#;

/// The wrappers, and the next daemons to kill.
pub struct Deaths {
    dir: PathBuf,
    settings: Value,
}

impl Deaths {
    /// Installs them at a cluster.
    pub fn at(cluster: &Cluster) -> Self {
        let dir = cluster.path().join("deaths");
        fs::create_dir(&dir).unwrap();
        let mut settings = cluster.settings();
        settings["saves_within"] = "7s".into();
        for tool in ["sacctmgr", "scontrol"] {
            let text = STAND_IN
                .replace("DIR", &dir.display().to_string())
                .replace("RUN", &cluster.run().display().to_string())
                .replace("BIN", &cluster.bin().display().to_string())
                .replace("TOOL", tool)
                .replace("AWAY", &AWAY.to_string());
            settings[tool] = cluster.tool(&format!("deadly-{tool}"), &text).display().to_string().into();
        }
        Self { dir, settings }
    }

    /// Returns the settings of a backend that uses the wrappers.
    pub fn settings(&self) -> Value {
        self.settings.clone()
    }

    /// Runs this work while these daemons are killed, one after the other.
    pub async fn over<T>(&self, next: &[&str], work: impl Future<Output = T>) -> T {
        let lines: String = next.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.dir.join("next"), lines).unwrap();
        let done = work.await;
        let left = fs::read_to_string(self.dir.join("next")).unwrap();
        let died = fs::read_to_string(self.dir.join("died")).unwrap_or_default();
        assert_eq!(left, "", "these daemons were not killed; killed were:\n{died}");
        // The next phase begins with all daemons up.
        until("all are back", Duration::from_secs(5), || async { !self.dir.join("away").exists() }).await;
        done
    }
}
