//! Three servers on one database, replaced one by one by a later version behind a balancer, under load: the campaign behind
//! `tests/it/postgres/rolling.rs`. No client retries.

use crate::{
    campaigns::crash::{self, Outcome, Size},
    processes::{Caller, Server, World},
    proxies::balancer::Balancer,
    servers::postgres::Cluster,
};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// How long a stopping server continues to answer.
const GRACE: &str = "3s";
/// The maximum duration of the first request.
const FIRST_WITHIN: Duration = Duration::from_secs(30);
/// The tenant that is approved only at a server of the earlier version.
const ACROSS: &str = "across";
/// The tenant that is requested before the first replacement and approved after the last.
const BETWEEN: &str = "between";
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The result.
#[derive(Debug, Default)]
pub struct Rolled {
    /// The outcome that every campaign has.
    pub outcome: Outcome,
    /// Calls of clients.
    pub calls: usize,
    /// Wrong answers.
    pub errors: Vec<String>,
    /// The exit code of each replaced server, and the duration of its stop.
    pub stops: Vec<(Option<i32>, Duration)>,
    /// Executions that ended with the earlier schema, with the later one, and those of the latter that began with the
    /// earlier one.
    pub schemas: (usize, usize, usize),
    /// The time from the start until the first replacement, until the last, and until all was at rest.
    pub took: [Duration; 3],
    /// The list of servers at the end.
    pub engines: Vec<Value>,
    /// The answer to a vote after the last replacement, on the plan that was read before the first.
    pub between: (u16, Value),
    /// The answers of an earlier server about an execution of the later version: to a query, and to a vote.
    pub across: Vec<(u16, Value)>,
}

/// A client without retries.
#[derive(Clone)]
struct Asker {
    client: Client,
    url: String,
    token: String,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    calls: AtomicUsize,
    errors: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl Asker {
    fn new(url: String, caller: &Caller, seen: &Arc<Seen>) -> Self {
        let client = Client::builder().timeout(Duration::from_secs(15)).retry(reqwest::retry::never());
        let client = client.build().expect("a client");
        Self { client, url, token: caller.token().to_owned(), seen: seen.clone() }
    }

    /// The same client, with a separate connection for each call.
    fn anew(self) -> Self {
        let client = Client::builder().timeout(Duration::from_secs(15)).retry(reqwest::retry::never());
        Self { client: client.pool_max_idle_per_host(0).build().expect("a client"), ..self }
    }

    /// Makes one call, and records its answer if it is no success.
    async fn call(&self, method: Method, path: &str, key: Option<&str>, body: Option<Value>) -> (u16, Value) {
        self.seen.calls.fetch_add(1, Ordering::Relaxed);
        let mut request =
            self.client.request(method.clone(), format!("{}{path}", self.url)).bearer_auth(&self.token);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(body) = &body {
            request = request.json(body);
        }
        let answered = async {
            let answer = request.send().await?;
            let status = answer.status().as_u16();
            Ok::<_, reqwest::Error>((status, answer.text().await?))
        };
        let (status, text) = match answered.await {
            Ok(answer) => answer,
            Err(error) => (0, format!("{error:?}")),
        };
        if !(200..300).contains(&status) {
            let said: String = text.chars().take(600).collect();
            self.seen.errors.lock().expect("no panic").push(format!("{method} {path}: {status} {said}"));
        }
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn get(&self, path: &str) -> Value {
        self.call(Method::GET, path, None, None).await.1
    }

    fn stopped(&self) -> bool {
        self.seen.stop.load(Ordering::Acquire)
    }
}

fn request(name: &str) -> Value {
    json!({
        "name": name,
        "tenant": { "tier": "enterprise", "isolation": "dedicated", "data_residency": "eu-only",
                    "allow_preemption": false, "allow_gpu_sharing": false },
        "workspaces": [{ "name": "main", "class": "production" }],
        "entitlement": { "gpu_model": "H100", "gpus": 8, "region": "eu", "from": "2026-01-01", "to": "2030-01-01" },
        "compliance": [],
    })
}

fn items(page: &Value) -> Vec<Value> {
    page["items"].as_array().cloned().unwrap_or_default()
}

/// Requests a tenant at intervals until it is stopped; returns the executions.
async fn asking(asker: Asker, every: Duration) -> Vec<String> {
    let mut ids = Vec::new();
    while !asker.stopped() {
        let name = format!("tenant-{:03}", ids.len());
        let (_, answer) =
            asker.call(Method::POST, "/v1/tenants", Some(&format!("ask-{name}")), Some(request(&name))).await;
        ids.push(answer["id"].as_str().unwrap_or_default().to_owned());
        tokio::time::sleep(every).await;
    }
    ids
}

/// Approves each execution once.
async fn voting(asker: Asker, (own, all): (usize, usize)) {
    let mut voted = BTreeSet::new();
    loop {
        for case in items(&asker.get("/v1/approvals?limit=1000").await) {
            let id = case["id"].as_str().unwrap_or_default().to_owned();
            // Each voter has their own executions, so that no vote comes second.
            let mine = id.bytes().map(usize::from).sum::<usize>() % all == own;
            let ours = [ACROSS, BETWEEN].iter().all(|other| case["tenant"] != *other);
            if mine && ours && voted.insert(id.clone()) {
                let body = json!({ "digest": case["digest"], "reason": "capacity is there" });
                asker.call(Method::POST, &format!("/v1/approvals/{id}:approve"), None, Some(body)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Lists, reads, and follows open executions, as waiting users do.
async fn looking(asker: Asker) {
    loop {
        let open = items(&asker.get("/v1/executions?open=true&limit=1000").await);
        for one in open.iter().take(3) {
            let id = one["id"].as_str().unwrap_or_default();
            asker.get(&format!("/v1/executions/{id}")).await;
            asker.get(&format!("/v1/executions/{id}/journal")).await;
        }
        asker.get("/v1/tenants?limit=1000").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Opens a new connection each time, as one-off callers do: every connection gets an answer.
async fn passing_by(asker: Asker) {
    loop {
        asker.get("/v1/tenants?limit=1").await;
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

fn start(tenure: &Path, dir: &Path, platform: &str, (name, cluster): (&str, &Cluster)) -> Server {
    let url = cluster.url();
    let settings = [
        ("TENURE_STORE_URL", url.as_str()),
        ("TENURE_STORE_NAME", name),
        ("TENURE_STORE_CONNECTIONS", "6"),
        ("TENURE_HTTP_GRACE", GRACE),
        ("TENURE_SIMULATED_OBSERVE", "false"),
    ];
    let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Server::start_with(tenure, dir, Some(platform), settings.into())
}

/// Starts the users beyond the requesters.
fn others(
    asker: &impl Fn(&Caller) -> Asker,
    admin: &Caller,
    voters: &[Caller],
) -> Vec<tokio::task::JoinHandle<()>> {
    let vote = |(own, voter)| tokio::spawn(voting(asker(voter), (own, voters.len())));
    let mut all: Vec<_> = voters.iter().enumerate().map(vote).collect();
    all.push(tokio::spawn(looking(asker(admin))));
    all.push(tokio::spawn(passing_by(asker(admin).anew())));
    all
}

/// Stops a server and starts the later version on its port; returns the exit code and the duration.
async fn replace(server: &mut Server, balancer: &Balancer, which: usize) -> (Option<i32>, Duration) {
    let stopping = Instant::now();
    let code = tokio::task::block_in_place(|| server.stop());
    let took = stopping.elapsed();
    server.set("UNDER_TEST", "later");
    tokio::task::block_in_place(|| server.restart());
    while !balancer.is_ready(which) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (code, took)
}

fn id_of(execution: &Value) -> String {
    execution["id"].as_str().unwrap_or_default().to_owned()
}

/// Runs it with `nodes` nodes; the pause between two replacements is `pause`.
pub async fn run(
    tenure: &Path,
    world: &Path,
    dir: &Path,
    cluster: &Cluster,
    (nodes, pause): (usize, Duration),
) -> Rolled {
    let began = Instant::now();
    let world = World::start(world, dir);
    let mut servers: Vec<Server> =
        NAMES.iter().map(|name| start(tenure, &dir.join(name), &world.url, (name, cluster))).collect();
    let admin = servers[0].caller(&servers[0].admin());
    crash::import(&admin, &servers[0], nodes).await;
    let ports: Vec<u16> = servers.iter().map(Server::port).collect();
    let balancer = Balancer::before(&ports).await.expect("a port for the balancer");
    let seen = Arc::new(Seen::default());
    let asker = |caller: &Caller| Asker::new(balancer.url(), caller, &seen);
    let requester = admin.user("rita", "tenant_owner").await;
    let voters = [admin.user("olga", "platform_ops").await, admin.user("omar", "platform_ops").await];
    let asks = tokio::spawn(asking(asker(&requester), Duration::from_millis(300)));
    let background = others(&asker, &admin, &voters);
    let mut rolled = Rolled::default();
    // So that some executions end on the earlier version.
    let through = admin.at(&balancer.url());
    while through.all("/v1/executions?open=false").await.is_empty() && began.elapsed() < FIRST_WITHIN {
        tokio::time::sleep(pause / 10).await;
    }
    let between = begin(&through, &through, BETWEEN).await.1;
    tokio::time::sleep(pause).await;
    rolled.took[0] = began.elapsed();
    let early: BTreeSet<String> = through.all("/v1/executions").await.iter().map(id_of).collect();
    for which in 0..servers.len() {
        rolled.stops.push(replace(&mut servers[which], &balancer, which).await);
        if which == 0 {
            let late = admin.at(&servers[0].url());
            rolled.across = across(&late, &servers[2].url(), &admin, &voters[0]).await;
        }
        tokio::time::sleep(pause).await;
    }
    rolled.took[1] = began.elapsed();
    rolled.between = agree(&voters[0].at(&balancer.url()), &between, &digest_of(&between)).await;
    seen.stop.store(true, Ordering::Release);
    let asked = asks.await.expect("everyone could ask").len() + 2;

    let size =
        Size { tenants: asked, nodes, killing: began.elapsed(), every: pause, rest: Duration::from_secs(90) };
    if !crash::come_to_rest(&through, size, began).await {
        rolled.outcome.wrong.push(format!("not at rest {:?} after the last replacement", size.rest));
    }
    background.iter().for_each(tokio::task::JoinHandle::abort);
    (rolled.took[2], rolled.outcome.took) = (began.elapsed(), began.elapsed());
    crash::watch(&world, &mut rolled.outcome).await;
    crash::judge(&through, &world, size, asked * 8, &mut rolled.outcome).await;
    for one in through.all("/v1/executions").await {
        let later = one["schema"] != 1;
        rolled.schemas.0 += usize::from(!later);
        rolled.schemas.1 += usize::from(later);
        rolled.schemas.2 += usize::from(later && early.contains(&id_of(&one)));
    }
    rolled.engines = through.all("/v1/engines").await;
    rolled.calls = seen.calls.load(Ordering::Relaxed);
    rolled.errors = std::mem::take(&mut seen.errors.lock().expect("no panic"));
    rolled
}

/// Requests a tenant at one server, and polls another until its approval opens; returns both answers.
async fn begin(at: &Caller, seen_at: &Caller, name: &str) -> ((u16, Value), (u16, Value)) {
    let key = format!("ask-{name}");
    let (status, begun) = at.call(Method::POST, "/v1/tenants", Some(&key), Some(request(name))).await;
    let show = format!("/v1/executions/{}", id_of(&begun));
    let until = Instant::now() + Duration::from_secs(10);
    let mut shown = seen_at.call(Method::GET, &show, None, None).await;
    while shown.1["waiting_for"]["approval"].is_null() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(50)).await;
        shown = seen_at.call(Method::GET, &show, None, None).await;
    }
    ((status.as_u16(), begun), (shown.0.as_u16(), shown.1))
}

fn digest_of(shown: &(u16, Value)) -> Value {
    shown.1["waiting_for"]["approval"]["digest"].clone()
}

/// Approves the plan with this digest.
async fn agree(voter: &Caller, shown: &(u16, Value), digest: &Value) -> (u16, Value) {
    let path = format!("/v1/approvals/{}:approve", id_of(&shown.1));
    let body = json!({ "digest": digest, "reason": "order 4711" });
    let (status, answer) = voter.call(Method::POST, &path, None, Some(body)).await;
    (status.as_u16(), answer)
}

/// Starts an execution at the later version, and calls the earlier one about it.
async fn across(late: &Caller, early: &str, admin: &Caller, voter: &Caller) -> Vec<(u16, Value)> {
    let (begun, shown) = begin(late, &admin.at(early), ACROSS).await;
    let voter = voter.at(early);
    let wrong = agree(&voter, &shown, &json!("sha256:0")).await;
    let vote = agree(&voter, &shown, &digest_of(&shown)).await;
    vec![begun, shown, wrong, vote]
}
