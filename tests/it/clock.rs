//! A server whose clock is ahead and is corrected while it runs.

use crate::{
    served::{Ran, TENURE, tenure},
    upgrade::millis,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tests::{
    processes::{Caller, Server},
    under_test::shifted,
};

const HOUR: i64 = 3_600_000;

/// Returns an offset after which the clock shows a second before a full minute, to keep the test short.
fn next_minute() -> i64 {
    (59_000 - now() % 60_000).rem_euclid(60_000)
}

/// Milliseconds since 1970, by the machine's clock.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

struct Shifted {
    dir: tempfile::TempDir,
    server: Server,
    admin: Caller,
}

impl Shifted {
    fn start(by: i64) -> Self {
        Self::start_with(by, &[])
    }

    /// The server also has a clock that the tests do not set.
    fn noticing() -> Self {
        Self::start_with(0, &[shifted::NOTICES])
    }

    fn start_with(by: i64, variables: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = dir.path().join("clock");
        fs::write(&clock, by.to_string()).unwrap();
        let mut environment = vec![
            ("UNDER_TEST".to_owned(), "shifted".to_owned()),
            (shifted::FILE.to_owned(), clock.to_str().unwrap().to_owned()),
        ];
        environment.extend(variables.iter().map(|name| ((*name).to_owned(), "1".to_owned())));
        let server = Server::start_with(Path::new(TENURE), dir.path(), None, environment);
        let admin = server.caller(&server.admin());
        Self { dir, server, admin }
    }

    fn set(&self, by: i64) {
        fs::write(self.dir.path().join("clock"), by.to_string()).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let url = self.server.url();
        let mut command = tenure(self.dir.path());
        Ran::of(command.args(["--server", &url, "--token", self.admin.token()]).args(arguments))
    }

    /// Returns how often the sweep has fired at valid times.
    async fn fired(&self) -> usize {
        let all = self.admin.all("/v1/schedules/reclaim/occurrences?fate=fired").await;
        let soon = now() + 2 * 60_000;
        let real = |row: &&Value| millis(row["nominal"].as_str().unwrap()) <= soon;
        all.iter().filter(real).count()
    }

    async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        for _ in 0..1_000 {
            if holds().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{what}: {}", self.admin.get("/v1/schedules/reclaim/occurrences").await);
    }
}

/// R1 of the public scheduler bugs, on the program itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_was_eight_hours_ahead_stops_no_sweep_and_is_reported() {
    let shifted = Shifted::start(8 * HOUR + next_minute());
    let every_minute = "/v1/schedules/reclaim/occurrences";
    shifted
        .until("it fires by the false clock", async || !shifted.admin.all(every_minute).await.is_empty())
        .await;

    shifted.set(next_minute());

    shifted.until("it fires by the right clock", async || shifted.fired().await > 0).await;
    let metrics = shifted.admin.get("/metrics").await;
    let behind = metrics
        .as_str()
        .unwrap()
        .lines()
        .find_map(|line| line.strip_prefix("tenure_clock_behind_record_seconds "));
    let behind: f64 = behind.expect("the metric is there").parse().unwrap();
    assert!(behind > 7.0 * 3_600.0, "{behind}");
    let doctor = shifted.run(&["doctor"]);
    assert!(doctor.out.contains("the server's clock was set back"), "{doctor:?}");
    let reclaim = shifted.admin.get("/v1/schedules/reclaim").await;
    assert_eq!(reclaim["status"], json!("active"), "{reclaim}");
}

/// A jump of 400 days is listed as stuck, with its remedy, until it is confirmed or the clock is set back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_forward_clock_jump_a_server_waits_for_a_confirmation_or_a_correction() {
    let shifted = Shifted::noticing();
    let jumped = async || {
        let stuck = shifted.admin.get("/v1/stuck?workflow=clock").await;
        stuck["limits"].as_array().is_some_and(|rows| rows.iter().any(|row| row["reason"] == "clock_jumped"))
    };
    assert!(!jumped().await);

    shifted.set(400 * 24 * HOUR);
    assert!(jumped().await, "the next read notices it, at any time");
    let metrics = shifted.admin.get("/metrics").await;
    assert!(metrics.as_str().unwrap().contains("tenure_clock_jump_unconfirmed_seconds 3456"), "{metrics}");
    shifted.set(0);
    assert!(!jumped().await, "the clock is right again");

    shifted.set(400 * 24 * HOUR);
    assert!(jumped().await);
    let confirmed = shifted.run(&["store", "confirm-clock", "--reason", "the clock was wrong before"]);
    assert!(confirmed.exit == 0 && confirmed.out.contains("confirmed"), "{confirmed:?}");
    assert!(!jumped().await);
    let again = shifted.run(&["store", "confirm-clock", "--reason", "twice"]);
    assert!(again.exit == 0 && again.out.contains("no confirmation is needed"), "{again:?}");
}

/// A jump of the clock neither expires nor closes an approval that has days left; once the jump is confirmed, its deadline
/// has passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_expires_by_a_clock_jump_only_after_an_operator_confirms_the_clock() {
    let shifted = Shifted::noticing();
    let write = |name: &str, text: &str| fs::write(shifted.dir.path().join(name), text).unwrap();
    write(
        "nodes.csv",
        "sn,cpu_milli,memory_mib,gpu,model\nn-1,96000,786432,8,H100\nn-2,96000,786432,8,H100\n",
    );
    write("lab.yaml", &crate::served::large("lab"));
    let imported = shifted.run(&["fleet", "import", "nodes.csv", "--cluster", "eu-1", "--region", "eu"]);
    assert_eq!(imported.exit, 0, "{imported:?}");
    let asked = shifted.run(&["tenant", "onboard", "--file", "lab.yaml", "--wait"]);
    assert_eq!(asked.exit, 10, "{asked:?}");
    let state = async || {
        let all = shifted.admin.get("/v1/executions?tenant=lab").await;
        all["items"][0]["state"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(state().await, "AwaitingApproval");

    shifted.set(400 * 24 * HOUR);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(state().await, "AwaitingApproval", "by a right clock its deadline is days away");

    let confirmed = shifted.run(&["store", "confirm-clock", "--reason", "the machine was off for a year"]);
    assert_eq!(confirmed.exit, 0, "{confirmed:?}");
    shifted.until("the deadline has passed", async || state().await == "Lapsed").await;
}
