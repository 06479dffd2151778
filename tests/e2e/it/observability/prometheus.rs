//! Prometheus as a process, and promtool.

use reqwest::{Client, Url};
use serde_json::Value;
use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tests::processes::free_port;

/// The maximum wait for its start and its first scrapes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the folder of the programs, or `None` with a message if they cannot be installed.
pub fn programs() -> Option<PathBuf> {
    let ran = Command::new(e2e::scripts().join("prometheus.sh")).output().unwrap();
    if !ran.status.success() {
        e2e::skipped("Prometheus", "tests/servers/prometheus.sh fetches it from Debian's archive");
        return None;
    }
    let said = String::from_utf8(ran.stdout).unwrap();
    Some(said.lines().last().unwrap().into())
}

/// Runs promtool in `dir`.
pub fn promtool(programs: &Path, dir: &Path, arguments: &[&str]) -> Output {
    Command::new(programs.join("promtool")).args(arguments).current_dir(dir).output().unwrap()
}

/// Returns promtool's findings in a metrics text.
pub fn checked(programs: &Path, metrics: &str) -> String {
    let mut child = Command::new(programs.join("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let ran = child.wait_with_output().unwrap();
    let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    assert!(ran.status.success() || !said.is_empty(), "promtool ended with {}", ran.status);
    said
}

/// Prometheus, killed when it is dropped.
pub struct Prometheus {
    child: Child,
    url: String,
    client: Client,
}

impl Prometheus {
    /// Starts it in `dir`, scraping `target` every second as the job `tenure` under the shipped rules.
    pub async fn start(programs: &Path, dir: &Path, rules: &Path, target: &str) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let settings = serde_json::json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": [rules.join("rules.yaml"), rules.join("alerts.yaml")],
            "scrape_configs": [{ "job_name": "tenure", "static_configs": [{ "targets": [target] }] }],
        });
        // JSON is YAML.
        let file = dir.join("prometheus.yml");
        std::fs::write(&file, settings.to_string()).unwrap();
        let child = Command::new(programs.join("prometheus"))
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=warn")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let client = Client::builder().no_proxy().build().unwrap();
        let me = Self { child, url: format!("http://{address}"), client };
        let ready = async || me.client.get(format!("{}/-/ready", me.url)).send().await;
        let deadline = Instant::now() + PATIENCE;
        while !ready().await.is_ok_and(|answer| answer.status().is_success()) {
            assert!(Instant::now() < deadline, "Prometheus does not start");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        me
    }

    /// Returns the answer of the API at `path`.
    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Value {
        let url = Url::parse_with_params(&format!("{}/api/v1/{path}", self.url), query).unwrap();
        let request = self.client.get(url);
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["status"], "success", "{path} {query:?}: {answer}");
        answer["data"].clone()
    }

    /// Returns the answer at `path` once the condition is true.
    pub async fn until(&self, path: &str, so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.get(path, &[]).await;
            if so(&answer) {
                return answer;
            }
            assert!(Instant::now() < deadline, "{path}: {answer:#}");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
