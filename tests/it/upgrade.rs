//! This version continues the data of an earlier one: every open execution ends as recorded, and older certificates and
//! audit entries still verify.
//!
//! `servers/upgrade` writes the fixtures in `golden/upgrade/`, one folder for each version; they are never changed.

use crate::served::{Ran, tenure};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use store::Timestamp;
use tempfile::TempDir;
use tests::{
    processes::{Caller, Server, World},
    servers::postgres::{Cluster, Disk, installed},
    under_test::shifted,
};
use workflows::signing::Moment;

/// The time without progress after which the clock is advanced.
const STILL: Duration = Duration::from_millis(600);
/// The step of the clock if no execution names its next time.
const STEP: Duration = Duration::from_secs(60);

fn fixtures() -> Vec<PathBuf> {
    let all = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/upgrade")).unwrap();
    let mut all: Vec<_> = all.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

/// A server of this version on the data of an earlier one.
struct Upgraded {
    dir: TempDir,
    manifest: Value,
    world: World,
    server: Server,
    admin: Caller,
    people: BTreeMap<String, Caller>,
    shift: i64,
    done: BTreeSet<(String, String)>,
}

impl Upgraded {
    /// Unpacks the part of a fixture for one kind of store, and starts the server at the time of its writing.
    fn start(fixture: &Path, store: &str, more: &[(&str, String)]) -> Self {
        let manifest: Value =
            serde_json::from_slice(&fs::read(fixture.join("manifest.json")).unwrap()).unwrap();
        let manifest = manifest[store].clone();
        let dir = tempfile::tempdir().unwrap();
        let archive = fixture.join(format!("{store}.tar.xz"));
        let unpacked = Command::new("tar").arg("-xJf").arg(archive).arg("-C").arg(dir.path()).status();
        assert!(unpacked.unwrap().success());
        let world = World::start(Path::new(env!("CARGO_BIN_EXE_world")), dir.path());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let shift = manifest["written_at_ms"].as_i64().unwrap() - i64::try_from(now).unwrap();
        let clock = dir.path().join("clock");
        fs::write(&clock, shift.to_string()).unwrap();
        let mut environment = vec![
            ("UNDER_TEST".to_owned(), "shifted".to_owned()),
            (shifted::FILE.to_owned(), clock.to_str().unwrap().to_owned()),
        ];
        environment.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let program = Path::new(crate::served::TENURE);
        let server = Server::start_with(program, dir.path(), Some(&world.url), environment);
        let tokens = manifest["tokens"].as_object().unwrap();
        let callers =
            tokens.iter().map(|(name, token)| (name.clone(), server.caller(token.as_str().unwrap())));
        let mut people: BTreeMap<_, _> = callers.collect();
        let admin = people.remove("admin").unwrap();
        Self { dir, manifest, world, server, admin, people, shift, done: BTreeSet::new() }
    }

    fn listed(&self) -> &[Value] {
        self.manifest["executions"].as_array().unwrap()
    }

    async fn show(&self, id: &str) -> Value {
        self.admin.get(&format!("/v1/executions/{id}")).await
    }

    async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.admin.call(Method::POST, path, None, Some(body)).await
    }

    /// Checks that this version reads each execution as the manifest describes it, if it does not proceed by itself.
    async fn is_as_it_was_left(&self) {
        for listed in self.listed() {
            let shown = self.show(listed["id"].as_str().unwrap()).await;
            for field in ["workflow", "tenant", "subject"] {
                assert_eq!(shown[field], listed[field], "{shown}");
            }
            let condition = listed["condition"].as_str().unwrap();
            let rests = ["approval", "parked", "completed", "waits for capacity", "waits on a timer"];
            if rests.iter().any(|rest| condition.starts_with(rest)) {
                for field in ["state", "phase", "reason"] {
                    assert_eq!(shown[field], listed[field], "{condition}: {shown}");
                }
            }
            if condition.contains("with one vote") {
                let id = listed["id"].as_str().unwrap();
                let approval = self.admin.get(&format!("/v1/approvals/{id}")).await;
                assert_eq!(approval["votes"].as_array().unwrap().len(), 1, "{approval}");
            }
        }
    }

    /// Releases the hold of a copied store.
    async fn let_go(&self) {
        let held = self.admin.get("/v1/store").await["held"].clone();
        if held.is_object() {
            let release = json!({ "since": held["since"], "reason": "the original is gone" });
            let (status, said) = self.post("/v1/store:release", release).await;
            assert!(status.is_success(), "{said}");
        }
    }

    /// Adds the nodes that two executions wait for.
    async fn add_nodes(&self) {
        for (node, model) in [("a-101", "A100"), ("a-102", "A100"), ("l-101", "L40S"), ("l-102", "L40S")] {
            self.import(&format!("sn,cpu_milli,memory_mib,gpu,model\n{node},96000,786432,8,{model}\n")).await;
        }
    }

    /// Imports nodes, and retries while the server is busy with its backlog.
    async fn import(&self, nodes: &str) {
        let path = format!("{}/v1/fleet:import?cluster=eu-1&region=eu", self.server.url());
        let client = reqwest::Client::new();
        for _ in 0..100 {
            let asked = client.post(&path).bearer_auth(self.admin.token()).header("content-type", "text/csv");
            let answer = asked.body(nodes.to_owned()).send().await.unwrap();
            if answer.status().is_success() {
                return;
            }
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the nodes are not imported");
    }

    /// Votes and commands for one execution; returns true if it needed any.
    async fn help(&mut self, id: &str) -> bool {
        let shown = self.show(id).await;
        if shown["phase"] == "parked" {
            let (status, said) =
                self.post(&format!("/v1/executions/{id}:retry"), json!({ "reason": "mended" })).await;
            assert!(status.is_success(), "{said}");
            return true;
        }
        let tenant = shown["tenant"].as_str().unwrap_or_default();
        let signal = |name: &str| (format!("/v1/executions/{id}:signal"), json!({ "signal": name }));
        let (path, body) = match shown["state"].as_str().unwrap_or_default() {
            "AwaitingWindow" => signal("window.opened"),
            "AwaitingProcurement" => signal("capacity.procured"),
            "DrainingExcess" => (format!("/v1/workloads/{tenant}/runs:finish"), json!({})),
            _ => return self.vote(&shown).await,
        };
        if !self.done.insert((path.clone(), id.to_owned())) {
            return false;
        }
        let (status, said) = self.post(&path, body).await;
        assert!(status.is_success(), "{said}");
        true
    }

    /// Every approver votes yes, once for each approval.
    async fn vote(&mut self, shown: &Value) -> bool {
        let wanted = &shown["waiting_for"]["approval"];
        let Some(approval) = wanted["id"].as_str() else { return false };
        let mut taken = false;
        for (name, person) in &self.people {
            if self.done.insert((format!("{approval} {}", wanted["digest"]), name.clone())) {
                let body = json!({ "digest": wanted["digest"], "reason": "seen" });
                let path = format!("/v1/approvals/{approval}:approve");
                taken |= person.call(Method::POST, &path, None, Some(body)).await.0.is_success();
            }
        }
        taken
    }

    /// Advances the clock to the next time at which an open execution continues by itself.
    async fn pass(&mut self, open: &[Value]) {
        let now = self.now();
        let mut next = None;
        for row in open {
            let shown = self.show(row["id"].as_str().unwrap()).await;
            let at = shown["waiting_for"]["next_action_at"].as_str().map(millis);
            next = at.filter(|at| *at > now).into_iter().chain(next).min();
        }
        let step = i64::try_from(STEP.as_millis()).unwrap();
        self.shift += next.map_or(step, |next| next - now + 100);
        fs::write(self.dir.path().join("clock"), self.shift.to_string()).unwrap();
    }

    fn now(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        i64::try_from(now).unwrap() + self.shift
    }

    /// Helps and advances the clock until no execution is open.
    async fn goes_on(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(150);
        let (mut before, mut since) = (BTreeMap::new(), Instant::now());
        loop {
            let open = self.admin.all("/v1/executions?open=true").await;
            if open.is_empty() {
                return;
            }
            let revision = |row: &Value| (row["id"].to_string(), row["revision"].to_string());
            let now: BTreeMap<_, _> = open.iter().map(revision).collect();
            let mut helped = false;
            for row in &open {
                helped |= self.help(row["id"].as_str().unwrap()).await;
            }
            if helped || now != before {
                (before, since) = (now, Instant::now());
            } else if since.elapsed() > STILL {
                self.pass(&open).await;
                since = Instant::now();
            }
            assert!(Instant::now() < deadline, "these executions do not end: {open:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn every_execution_ended_as_foreseen(&self) {
        let mut wrong = Vec::new();
        for listed in self.listed() {
            let shown = self.show(listed["id"].as_str().unwrap()).await;
            if shown["phase"] != "finished" || shown["reason"] != listed["expected"] {
                let tenant = shown["tenant"].as_str().unwrap_or_default();
                let beside = self.admin.all(&format!("/v1/executions?tenant={tenant}")).await;
                let beside = beside.iter().map(|row| {
                    format!(
                        "{} of {} in {} ({})",
                        row["workflow"], row["subject"], row["state"], row["reason"]
                    )
                });
                wrong.push(format!(
                    "{listed} ended as {} {} {}; of the tenant there are {:?}: {}",
                    shown["state"],
                    shown["phase"],
                    shown["reason"],
                    beside.collect::<Vec<_>>(),
                    shown["errors"]
                ));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(self.world.look("violations").await, json!([]));
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let url = self.server.url();
        let mut command = tenure(self.dir.path());
        command.env("TENURE_DATA", self.dir.path());
        let ran = Ran::of(command.args(["--server", &url, "--token", self.admin.token()]).args(arguments));
        assert_eq!(ran.exit, 0, "{arguments:?}: {ran:?}");
        ran
    }

    /// The offline verifiers accept every certificate and the whole audit, including the parts of the earlier version.
    async fn what_was_signed_verifies(&self) {
        fs::write(self.dir.path().join("issuer.pem"), self.run(&["certificate", "key"]).out).unwrap();
        let all = self.admin.all("/v1/certificates").await;
        let all: BTreeSet<_> = all.iter().map(|row| row["id"].as_str().unwrap()).collect();
        for earlier in self.manifest["certificates"].as_array().unwrap() {
            assert!(all.contains(earlier.as_str().unwrap()), "{all:?}");
        }
        for certificate in all {
            self.run(&["certificate", "download", certificate, "--to", "certificate.json"]);
            // The clock of the servers was advanced.
            let now = Moment::from(Timestamp(u64::try_from(self.now()).unwrap())).to_string();
            self.run(&["certificate", "verify", "certificate.json", "--key", "issuer.pem", "--at", &now]);
            fs::remove_file(self.dir.path().join("certificate.json")).unwrap();
        }
        let mut tenants: BTreeSet<_> =
            self.listed().iter().filter_map(|listed| listed["tenant"].as_str()).collect();
        tenants.remove("");
        for tenant in tenants.into_iter().chain(["-"]) {
            self.run(&["audit", "export", "audit.jsonl", "--tenant", tenant]);
            self.run(&["audit", "verify", "audit.jsonl", "--key", "issuer.pem"]);
            fs::remove_file(self.dir.path().join("audit.jsonl")).unwrap();
        }
    }
}

/// Parses a time of the API into milliseconds since 1970: `2026-11-21T13:00:00.000Z`.
pub(crate) fn millis(shown: &str) -> i64 {
    let numbers: Vec<i64> =
        shown.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
    let [year, month, day, hour, minute, second, milli] = numbers[..] else { panic!("{shown}") };
    // Years begin in March, so that the leap day is the last one: there are 719,468 days between year 0 and 1970.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1_000 + milli
}

#[test]
fn a_timestamp_is_parsed_from_its_own_output() {
    assert_eq!(millis("1970-01-01T00:00:00.000Z"), 0);
    assert_eq!(millis("2024-02-29T12:30:15.250Z"), 1_709_209_815_250);
    assert_eq!(millis("2026-11-26T18:13:12.341Z"), 1_795_716_792_341);
}

async fn upgrade(mut upgraded: Upgraded) {
    upgraded.is_as_it_was_left().await;
    upgraded.let_go().await;
    upgraded.add_nodes().await;
    upgraded.goes_on().await;
    upgraded.every_execution_ended_as_foreseen().await;
    upgraded.what_was_signed_verifies().await;
}

#[test]
fn the_fixtures_hold_every_workflow_in_several_states_and_are_small() {
    for fixture in fixtures() {
        let files = fs::read_dir(&fixture).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
        assert!(files.sum::<u64>() < 3_000_000, "{}", fixture.display());
        let manifest: Value =
            serde_json::from_slice(&fs::read(fixture.join("manifest.json")).unwrap()).unwrap();
        for store in ["embedded", "postgres"] {
            let mut conditions = BTreeMap::<_, BTreeSet<_>>::new();
            for listed in manifest[store]["executions"].as_array().unwrap() {
                let of = conditions.entry(listed["workflow"].as_str().unwrap()).or_default();
                of.insert(listed["condition"].as_str().unwrap());
            }
            assert!(conditions.len() >= 10, "{conditions:#?}");
            assert!(conditions.values().all(|all| all.len() >= 2), "{conditions:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_of_an_earlier_version_on_the_embedded_store_complete() {
    let _alone = tests::alone().await;
    for fixture in fixtures() {
        upgrade(Upgraded::start(&fixture, "embedded", &[])).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_of_an_earlier_version_on_postgresql_complete() {
    let Some(bin) = installed() else { return };
    let _alone = tests::alone().await;
    for fixture in fixtures() {
        let cluster = Cluster::start(bin, Disk::Quick).unwrap();
        cluster.restore(&fixture.join("postgres.sql.xz")).unwrap();
        let settings = [("TENURE_STORE_URL", cluster.url()), ("TENURE_STORE_SCHEMA", "tenure".to_owned())];
        upgrade(Upgraded::start(&fixture, "postgres", &settings)).await;
    }
}
