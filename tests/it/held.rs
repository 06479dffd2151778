//! A server on a restored store performs nothing until an operator has seen the pending work and released the store.

use crate::served::{NODES, Ran, Running, Served, large, small, tenure};
use reqwest::Client;
use serde_json::{Value, json};
use std::{fs, path::Path};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(file.file_name());
        if file.metadata().unwrap().is_dir() {
            copy(&file.path(), &to);
        } else {
            fs::copy(file.path(), to).unwrap();
        }
    }
}

/// A server on a copy of another's folder.
struct Restored {
    running: Running,
    dir: tempfile::TempDir,
    admin: String,
}

impl Restored {
    async fn get(&self, path: &str) -> Value {
        let answer = Client::new().get(format!("{}{path}", self.running.url)).bearer_auth(&self.admin);
        answer.send().await.unwrap().json().await.unwrap()
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let asked = Client::new().post(format!("{}{path}", self.running.url)).bearer_auth(&self.admin);
        let answer = asked.json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = tenure(self.dir.path());
        command.args(["--server", &self.running.url, "--token", &self.admin]).args(arguments);
        Ran::of(&mut command)
    }

    async fn until(&self, id: &str, holds: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..1_000 {
            let item = self.get(&format!("/v1/executions/{id}")).await;
            if holds(&item) {
                return item;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("execution {id} did not get there: {}", self.get(&format!("/v1/executions/{id}")).await)
    }
}

async fn restored() -> (Restored, String) {
    restored_with(|_| {}).await
}

/// The same, with damage to the file that marks the place of the store.
async fn restored_with(damage: impl Fn(&Path)) -> (Restored, String) {
    let first = Served::start();
    first.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    let done = first.onboard(&small("zeta")).await;
    first.ended(&done).await;
    let id = first.onboard(&large("acme")).await;
    first.asked(&id).await;
    let (dir, admin) = first.killed();
    let copied = tempfile::tempdir().unwrap();
    copy(&dir.path().join("tenure-data"), &copied.path().join("tenure-data"));
    damage(&copied.path().join("tenure-data/store/PLACE"));
    // The copy lacks the latest changes.
    let running = Running::start(copied.path(), &[]);
    (Restored { running, dir: copied, admin }, id)
}

/// Damages a file.
type Damage = fn(&Path);

/// A backup tool may omit the file, and a disk may damage it: the server starts in both cases and holds all work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_with_a_missing_or_damaged_mark_is_held_and_released_by_the_printed_command() {
    let damages: [(&str, Damage); 2] = [
        ("is missing", |place| fs::remove_file(place).unwrap()),
        ("cannot be read", |place| fs::write(place, b"\xff\xfe").unwrap()),
    ];
    for (why, damage) in damages {
        let (server, id) = restored_with(damage).await;
        let store = server.get("/v1/store").await;
        let said = store["held"]["why"].as_str().unwrap();
        assert!(said.contains(why) && said.contains("tenure store release"), "{said}");
        let since = store["held"]["since"].as_str().unwrap();
        let gone = server.run(&["store", "release", "--since", since, "--reason", "the original is gone"]);
        assert_eq!(gone.exit, 0, "{gone:?}");
        assert_eq!(server.run(&["store", "held"]).exit, 0);
        server.until(&id, |item| item["open"] == true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_server_performs_no_work_until_it_is_released() {
    let (server, id) = restored().await;
    let store = server.get("/v1/store").await;
    assert!(store["held"]["why"].as_str().unwrap().contains("is a copy"), "{store}");
    let ready = server.get("/readyz?verbose").await;
    assert!(ready.to_string().contains("held since"), "{ready}");

    // Votes are accepted, and have no effect. No execution starts either.
    let olga =
        json!({ "name": "olga", "roles": ["platform_ops", "capacity_manager", "finance", "security"] });
    let (_, made) = server.post("/v1/users", olga).await;
    let approval = items_of(&server.get("/v1/approvals").await)[0].clone();
    let yes = json!({ "digest": approval["digest"], "reason": "order 4711" });
    let path = format!("{}/v1/approvals/{}:approve", server.running.url, approval["id"].as_str().unwrap());
    let voted = Client::new()
        .post(path)
        .bearer_auth(made["token"].as_str().unwrap())
        .json(&yes)
        .send()
        .await
        .unwrap();
    assert!(voted.status().is_success(), "{}", voted.text().await.unwrap());
    let asked = Client::new()
        .post(format!("{}/v1/tenants", server.running.url))
        .bearer_auth(&server.admin)
        .header("content-type", "application/yaml")
        .body(small("late"));
    let refused = asked.send().await.unwrap();
    assert_eq!(refused.status(), 503);
    let refused: Value = refused.json().await.unwrap();
    assert_eq!(refused["code"], "store.held", "{refused}");
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    let stands = server.get(&format!("/v1/executions/{id}")).await;
    assert!(stands["open"] == true && stands["phase"] == "forward", "{stands}");
    let before = (stands["state"].clone(), stands["revision"].clone());

    let held = server.run(&["store", "held"]);
    assert_eq!(held.exit, 10, "{held:?}");
    assert!(held.out.contains("is a copy") && held.out.contains("tenure store release --since"), "{held:?}");
    assert!(held.out.contains("onboarding") && held.out.contains("decides"), "{held:?}");
    let pending = server.get("/v1/store/pending").await;
    assert!(items_of(&pending).iter().any(|one| one["execution"] == json!(id)), "{pending}");
    let again = server.get(&format!("/v1/executions/{id}")).await;
    assert_eq!((again["state"].clone(), again["revision"].clone()), before, "nothing moved");

    let since = store["held"]["since"].as_str().unwrap();
    let wrong = server.run(&["store", "release", "--since", "2026-01-01T00:00:00.000Z", "--reason", "x"]);
    assert!(wrong.exit == 5 && wrong.err.contains("store.not_held"), "{wrong:?}");
    let unsaid = server.run(&["store", "release", "--since", since, "--reason", " "]);
    assert!(unsaid.exit != 0 && unsaid.err.contains("reason"), "{unsaid:?}");
    let gone = server.run(&["store", "release", "--since", since, "--reason", "drift was looked at"]);
    assert_eq!(gone.exit, 0, "{gone:?}");

    let ended = server.until(&id, |item| item["open"] == false).await;
    assert_eq!(ended["reason"], "completed", "{ended}");
    assert_eq!(server.run(&["store", "held"]).exit, 0);
    // The audit has a short delay.
    let mut audit = Value::Null;
    for _ in 0..200 {
        audit = server.get("/v1/audit?limit=1000").await;
        if audit.to_string().contains("POST /v1/store:release") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{audit}");
}

/// A manual hold, as before a copy of a volume becomes another server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_an_operator_holds_stays_held_after_a_restart() {
    let first = Served::start();
    first.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    let held = first.run(&["--token", &first.admin, "store", "hold", "--reason", "the volume is copied"]);
    assert_eq!(held.exit, 0, "{held:?}");
    let (dir, admin) = first.killed();
    let server = Restored { running: Running::start(dir.path(), &[]), dir, admin };
    let store = server.get("/v1/store").await;
    assert!(store["held"]["why"].as_str().unwrap().ends_with("the volume is copied"), "{store}");
    let (_, swept) = server.post("/v1/sweeps/drift:run", json!({})).await;
    assert!(swept["sweep"] == "drift", "observing is allowed: {swept}");
}

fn items_of(listed: &Value) -> Vec<Value> {
    listed["items"].as_array().cloned().unwrap_or_default()
}
