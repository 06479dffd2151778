//! `cargo bench -p tests --bench lists`: the program with 1,000,000 executions, of which one in a hundred waits for approval. Prints the
//! time of lists by each field, of one execution, its journal and the approvals over HTTP, and the time until an event has reached the
//! last of 1,000 readers.
//!
//! A hundred onboardings are requested; the others are copied from these in the store, under their own names, while no server
//! runs. `EXECUTIONS` and `WATCHERS` set other numbers.

use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    env,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{
    Commit, Embedded, Entry, ExecutionId, Options, Query, Record, Revision, Sequence, Store, Task, TaskId,
    Timestamp, Write,
};
use tests::processes::{Caller, Server};
use tokio::{sync::mpsc, task::JoinSet};

/// The number of real requests; the first waits, the others are withdrawn.
const ASKED: usize = 100;
const WRITERS: u64 = 256;
/// The number of repeats of each request.
const TIMES: usize = 300;
const WARM: usize = 20;
/// The number of onboardings requested while the watchers read.
const EVENTS: usize = 20;
/// The limit for the 99th percentile.
const WITHIN: Duration = Duration::from_millis(20);

/// The requests, with placeholders: an execution, and a number.
const ASKS: &[(&str, &str)] = &[
    ("a page", "/v1/executions?limit=50"),
    ("tenant", "/v1/executions?limit=50&filter=tenant%20%3D%20tenant-NUMBER"),
    ("state", "/v1/executions?limit=50&filter=state%20%3D%20AwaitingApproval%20and%20open"),
    ("workflow", "/v1/executions?limit=50&filter=workflow%20%3D%20onboarding"),
    ("phase", "/v1/executions?limit=50&filter=phase%20%3D%20finished"),
    ("reason", "/v1/executions?limit=50&filter=reason%20%3D%20cancelled"),
    ("subject", "/v1/executions?limit=50&filter=subject%20%3D%20%22tenant/tenant-NUMBER%22"),
    ("who asked", "/v1/executions?limit=50&filter=requested_by%20%3D%20admin"),
    ("open", "/v1/executions?limit=50&filter=open"),
    (
        "asked, and a tenant",
        "/v1/executions?limit=50&filter=asked%20%3D%20platform_ops%20and%20tenant%20%3D%20tenant-NUMBER",
    ),
    (
        "open, and not of a tenant",
        "/v1/executions?limit=50&filter=open%20and%20tenant%20!%3D%20tenant-NUMBER",
    ),
    ("one execution", "/v1/executions/EXECUTION"),
    ("its journal", "/v1/executions/EXECUTION/journal"),
    ("approvals (one has documents)", "/v1/approvals?limit=50"),
    ("stuck", "/v1/stuck?limit=50"),
];

fn number(name: &str, usual: usize) -> usize {
    env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} takes a number")))
}

async fn onboard(caller: &Caller, name: &str) -> String {
    let body = json!({
        "name": name,
        "tenant": { "tier": "enterprise", "isolation": "dedicated", "data_residency": "eu-only",
                    "allow_preemption": false, "allow_gpu_sharing": false },
        "entitlement": { "gpu_model": "H100", "gpus": 8, "region": "eu", "from": "2026-01-01", "to": "2030-01-01" },
    });
    let (status, said) = caller.call(Method::POST, "/v1/tenants", None, Some(body)).await;
    assert!(status.is_success(), "{said}");
    said["id"].as_str().expect("an id").to_owned()
}

/// Requests the first hundred, and withdraws all but one.
async fn begin(server: &Server, caller: &Caller) {
    let url = format!("{}/v1/fleet:import?cluster=eu-0&region=eu", server.url());
    let asked = Client::new().post(url).bearer_auth(server.admin()).header("content-type", "text/csv");
    let answer = asked.body("sn,cpu_milli,memory_mib,gpu,model\nn-1,128000,2097152,8,H100\n").send().await;
    assert!(answer.expect("the server answers").status().is_success());
    for n in 0..ASKED {
        let id = onboard(caller, &format!("tenant-{n:07}")).await;
        wait(caller, &id, "state", "AwaitingApproval").await;
        if n > 0 {
            let reason = Some(json!({ "reason": "not wanted" }));
            let said = caller.call(Method::POST, &format!("/v1/executions/{id}:cancel"), None, reason).await;
            assert!(said.0.is_success(), "{said:?}");
            wait(caller, &id, "phase", "finished").await;
        }
    }
}

async fn wait(caller: &Caller, id: &str, field: &str, value: &str) {
    for _ in 0..2_000 {
        if caller.get(&format!("/v1/executions/{id}")).await[field] == value {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the {field} of {id} is never {value}: {}", caller.get(&format!("/v1/executions/{id}")).await);
}

/// A requested execution, with all of its rows except documents.
struct Sample {
    record: Record,
    journal: Vec<Entry>,
    tasks: Vec<Task>,
}

impl Sample {
    /// The same execution as if the `n`th tenant had requested it, a moment later than the one before.
    fn of(&self, n: u64) -> Commit {
        let mut random = [7; 10];
        random[2..].copy_from_slice(&n.to_be_bytes());
        let id = ExecutionId::new(Timestamp(self.record.created_at.0 + n), random);
        let tenant = format!("tenant-{n:07}");
        let record = Record {
            id,
            revision: Revision(0),
            subject: format!("tenant/{tenant}"),
            guard: self.record.guard.as_ref().map(|_| format!("tenant/{tenant}")),
            tenant,
            ..self.record.clone()
        };
        let journal = self.journal.iter();
        let tasks = self.tasks.iter();
        Commit {
            record: Some(Write { record, expected: None }),
            journal: journal.map(|e| Entry { execution: id, sequence: Sequence(0), ..e.clone() }).collect(),
            schedule: tasks
                .map(|task| Task { id: TaskId { execution: id, ..task.id }, ..task.clone() })
                .collect(),
            ..Commit::default()
        }
    }
}

async fn samples(store: &Embedded) -> Vec<Sample> {
    let all = store.search(&Query::is("workflow", "onboarding"), None, ASKED).await.expect("a search").items;
    let mut samples = Vec::new();
    for record in all {
        let journal = store.journal(record.id, None, 1_000).await.expect("its journal").items;
        let tasks = store.tasks(record.id).await.expect("its tasks");
        samples.push(Sample { record, journal, tasks });
    }
    // The waiting one is first.
    samples.sort_by_key(|sample| !sample.record.open);
    samples
}

/// Makes the others, while no server uses the store.
async fn multiply(dir: &Path, executions: u64) {
    let began = Instant::now();
    let options = Options { backlog_bytes: 256 << 20, ..Options::default() };
    let store = Arc::new(Embedded::open(&dir.join("store"), options).expect("the store").store);
    let samples = Arc::new(samples(&store).await);
    let open = samples.iter().filter(|sample| sample.record.open).count();
    assert_eq!((samples.len(), open), (ASKED, 1), "one in a hundred waits");
    let writers = (0..WRITERS).map(|writer| {
        let (store, samples) = (Arc::clone(&store), Arc::clone(&samples));
        async move {
            for n in (ASKED as u64 + writer..executions).step_by(WRITERS as usize) {
                store.commit(samples[n as usize % ASKED].of(n)).await.expect("a commit");
            }
        }
    });
    writers.collect::<JoinSet<()>>().join_all().await;
    let store = Arc::into_inner(store).expect("all writers have ended");
    store.close().await.expect("it is closed");
    println!("{executions} executions written in {:.0?}", began.elapsed());
}

/// Measures each request; returns true if one took too long.
async fn lists(server: &Server, executions: usize) -> bool {
    let caller = server.caller(&server.admin());
    let some = caller.get("/v1/executions?limit=200").await;
    let some = some["items"].as_array().expect("a page");
    let (client, mut wrong) = (Client::new(), false);
    println!("{:<30} {:>9} {:>9} {:>9} {:>7}", "", "p50", "p99", "most", "bytes");
    for (what, path) in ASKS {
        let (mut times, mut bytes) = (Vec::new(), 0);
        for n in 0..WARM + TIMES {
            let id = some[n % some.len()]["id"].as_str().expect("an id");
            let other = format!("{:07}", n * 7_919 % executions);
            let url = format!("{}{}", server.url(), path.replace("EXECUTION", id).replace("NUMBER", &other));
            let began = Instant::now();
            let answer = client.get(&url).bearer_auth(server.admin()).send().await.expect("an answer");
            assert!(answer.status().is_success(), "{url}: {}", answer.status());
            bytes = answer.bytes().await.expect("it is read whole").len();
            times.push(began.elapsed());
        }
        times.drain(..WARM);
        times.sort();
        let within = |of: usize| times[(times.len() * of / 100).min(times.len() - 1)];
        wrong |= within(99) >= WITHIN;
        println!("{what:<30} {:>9.2?} {:>9.2?} {:>9.2?} {bytes:>7}", within(50), within(99), within(100));
    }
    wrong
}

/// Reads a stream, and reports each tenant that its events name.
async fn watch(client: Client, url: String, token: String, heard: mpsc::UnboundedSender<(String, Instant)>) {
    let mut stream = client.get(url).bearer_auth(token).send().await.expect("a stream");
    assert!(stream.status().is_success(), "{}", stream.status());
    let (mut text, mut known) = (String::new(), BTreeSet::new());
    // The stream is ready once it has sent the current state.
    while let Ok(Some(chunk)) = stream.chunk().await {
        text.push_str(&String::from_utf8_lossy(&chunk));
        while let Some(end) = text.find("\n\n") {
            let event: String = text.drain(..end + 2).collect();
            let name = event.split("watched-").nth(1).map(|rest| rest.chars().take(4).collect::<String>());
            let name = name.unwrap_or_else(|| "present".to_owned());
            if known.insert(name.clone()) && heard.send((name, Instant::now())).is_err() {
                return;
            }
        }
    }
}

/// Measures the time from the answer to a request until each of `watchers` readers has its event.
async fn fan_out(server: &Server, watchers: usize) {
    let (caller, url) = (server.caller(&server.admin()), server.url());
    let (tell, mut heard) = mpsc::unbounded_channel();
    let mut watching = JoinSet::new();
    let before = server.rss();
    for _ in 0..watchers {
        let url = format!("{url}/v1/watch?filter=tenant%20~%20watched-&limit=1");
        watching.spawn(watch(Client::new(), url, server.admin(), tell.clone()));
    }
    for _ in 0..watchers {
        let ready = tokio::time::timeout(Duration::from_secs(60), heard.recv()).await;
        ready.expect("all watchers are taken within a minute").expect("a watcher");
    }
    println!(
        "{watchers} watchers: {} bytes of memory each",
        server.rss().saturating_sub(before) / watchers as u64
    );
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for n in 0..EVENTS {
        let name = format!("{n:04}");
        let asked = Instant::now();
        let id = onboard(&caller, &format!("watched-{name}")).await;
        let mut times = Vec::new();
        while times.len() < watchers {
            let next = tokio::time::timeout(Duration::from_secs(20), heard.recv()).await;
            let (of, at) = next
                .unwrap_or_else(|_| panic!("{id}: only {} watchers were notified", times.len()))
                .expect("one");
            times.extend((of == name).then(|| at.saturating_duration_since(asked)));
        }
        times.sort();
        first.push(times[0]);
        last.push(times[times.len() - 1]);
    }
    for (who, times) in [("the first", &mut first), ("the last", &mut last)] {
        times.sort();
        println!(
            "from the request for an onboarding until {who} is notified: p50 {:.1?}, most {:.1?}",
            times[times.len() / 2],
            times[times.len() - 1]
        );
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let (executions, watchers) = (number("EXECUTIONS", 1_000_000), number("WATCHERS", 1_000));
    let load = std::fs::read_to_string("/proc/loadavg").expect("Linux");
    println!("load of the machine: {}", load.trim());
    let dir = tempfile::tempdir().expect("a folder");
    let program = Path::new(env!("CARGO_BIN_EXE_tenure-under-test"));
    // One token reads all streams.
    let most = [("TENURE_HTTP_STREAMS", "5000"), ("TENURE_HTTP_STREAMS_PER_TOKEN", "5000")];
    let most = most.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let mut server = Server::start_with(program, dir.path(), None, most);
    begin(&server, &server.caller(&server.admin())).await;
    assert_eq!(server.stop(), Some(0), "its exit code is 0");
    multiply(dir.path(), executions as u64).await;
    println!("listens again after {:.1?}", server.restart());
    let counted: Value = server.caller(&server.admin()).get("/v1/store").await;
    println!("{} bytes on disk; {} MiB of memory", counted["disk_bytes"], server.rss() >> 20);
    let wrong = lists(&server, executions).await;
    println!("to reach: p99 under {WITHIN:?}; the server takes {} MiB of memory", server.rss() >> 20);
    fan_out(&server, watchers).await;
    if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
