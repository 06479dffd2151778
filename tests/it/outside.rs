//! Reads of external input are bounded in size and in time, whatever a peer sends and however slowly.

use crate::{
    hooks::{hook, script, stamp},
    served::{Served, small, tenure},
};
use backends::{
    simulated::{LocalWorld, RemoteWorld, simulated_platform},
    targets::Targets,
};
use reqwest::Method;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use workflows::platform::{CallMetadata, ObjectKind, ObjectRef, Platform};

/// More bytes than any client reads of one answer, including the buffers of both ends.
const MOST_TAKEN: usize = 96 << 20;
/// The maximum duration of a call in these tests; its deadline is a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// A peer that answers every request in one way.
struct Peer {
    url: String,
    sent: Arc<AtomicUsize>,
}

/// The behaviour of a peer.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// An endless answer.
    Endless,
    /// A refusal with an endless text.
    EndlessRefusal,
    /// A byte at intervals.
    Slow,
    /// A compressed endless answer.
    Compressed,
}

impl Peer {
    async fn that_is(way: Way) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let sent = Arc::new(AtomicUsize::new(0));
        let count = sent.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let count = count.clone();
                tokio::spawn(async move {
                    let mut asked = [0_u8; 16 << 10];
                    let _asked = stream.read(&mut asked).await;
                    let _head = stream.write_all(head(way).as_bytes()).await;
                    let (block, pause) = match way {
                        Way::Slow => (vec![b' '], Duration::from_millis(200)),
                        Way::Endless | Way::EndlessRefusal | Way::Compressed => {
                            (vec![b' '; 256 << 10], Duration::ZERO)
                        }
                    };
                    while stream.write_all(&block).await.is_ok() {
                        count.fetch_add(block.len(), Ordering::Relaxed);
                        tokio::time::sleep(pause).await;
                    }
                });
            }
        });
        Self { url, sent }
    }
}

fn head(way: Way) -> &'static str {
    match way {
        Way::Endless | Way::Slow => "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n",
        Way::EndlessRefusal => "HTTP/1.1 500 Internal Server Error\r\n\r\n",
        Way::Compressed => "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n",
    }
}

const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: PEER}}]
users: [{name: here, user: {token: t}}]
contexts: [{name: here, context: {cluster: here, user: here}}]
";

/// A target file in which this peer is every HTTP target.
fn targets(peer: &str, folder: &Path) -> String {
    let file = |name: &str, text: &str| -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (secret, kubeconfig) =
        (file("secret", "s3cret"), file("kubeconfig", &KUBECONFIG.replace("PEER", peer)));
    let secret = secret.display();
    format!(
        "clusters:\n  k-1: {{kubernetes: {{kubeconfig: {}}}}}\n  \
         s-1: {{slurm: {{url: '{peer}', cluster: s-1, token_file: {secret}, conf: {secret}}}}}\n\
         keys: {{vault: {{endpoint: '{peer}', token_file: {secret}}}}}\n\
         objects: {{eu: {{s3: {{region: eu, endpoint: '{peer}', account: {{access_key_id: a, secret_key_file: {secret}}}}}}}}}\n\
         hooks: {{dns: {{http: {{url: '{peer}/dns'}}}}}}\n",
        kubeconfig.display(),
    )
}

fn brief(name: &str) -> CallMetadata {
    CallMetadata { deadline: Duration::from_secs(1), ..stamp(name, false) }
}

/// Calls the peer with this client; returns true if that failed.
async fn fails(client: &str, platform: &Platform, peer: &str) -> bool {
    let at = brief(client);
    match client {
        "kubernetes" => platform
            .kubernetes
            .read(&ObjectRef::new("k-1", ObjectKind::Namespace, "t-acme"), &at)
            .await
            .is_err(),
        "slurm" => platform.slurm.account("s-1", "t-acme", &at).await.is_err(),
        "vault" => platform.keys.read("t-acme", &at).await.is_err(),
        "s3" => platform.objects.read("eu", "t-acme", &at).await.is_err(),
        "hook" => platform.hooks.run(&hook("dns", json!({})), &at).await.is_err(),
        "remote world" => {
            let world = simulated_platform(Arc::new(RemoteWorld::new(peer).unwrap()));
            world.identity.read("t-acme", &at).await.is_err()
        }
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_reads_more_of_an_answer_or_waits_longer_than_its_limits() {
    for way in [Way::Endless, Way::EndlessRefusal, Way::Slow, Way::Compressed] {
        for client in ["kubernetes", "slurm", "vault", "s3", "hook", "remote world"] {
            let (peer, folder) = (Peer::that_is(way).await, tempfile::tempdir().unwrap());
            let platform = simulated_platform(Arc::new(LocalWorld::new()));
            let targets = Targets::parse(&targets(&peer.url, folder.path())).unwrap();
            let platform = targets.connect(platform).await.unwrap().platform;
            let began = Instant::now();

            let failed = tokio::time::timeout(PATIENCE, fails(client, &platform, &peer.url)).await;

            assert_eq!(failed, Ok(true), "{client}, {way:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
            let sent = peer.sent.load(Ordering::Relaxed);
            assert!(sent < MOST_TAKEN, "{client}, {way:?}: {sent} bytes in {:?}", began.elapsed());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_disconnects_from_a_server_with_an_endless_answer() {
    for way in [Way::Endless, Way::EndlessRefusal, Way::Compressed] {
        let (peer, folder) = (Peer::that_is(way).await, tempfile::tempdir().unwrap());
        let mut command = tenure(folder.path());
        command.args(["--server", &peer.url, "--token", "tn_x", "nodes", "list"]);
        let began = Instant::now();

        let ran = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();

        assert!(!ran.status.success(), "{way:?}");
        assert!(began.elapsed() < Duration::from_secs(60), "{way:?}: {:?}", began.elapsed());
        assert!(peer.sent.load(Ordering::Relaxed) < MOST_TAKEN, "{way:?}");
    }
}

#[tokio::test]
async fn a_program_hook_with_endless_output_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), "exec yes");
    let targets = format!("hooks: {{dns: {{exec: {{program: {}}}}}}}", program.display());
    let platform = simulated_platform(Arc::new(LocalWorld::new()));
    let platform = Targets::parse(&targets).unwrap().connect(platform).await.unwrap().platform;

    let ran =
        tokio::time::timeout(PATIENCE, platform.hooks.run(&hook("dns", json!({})), &brief("dns"))).await;

    assert!(ran.unwrap().is_err());
}

/// Nine anchors, each nine times the one before.
fn bomb() -> String {
    let level = |n: usize| {
        let inner = if n == 0 { "x".to_owned() } else { format!("*a{}", n - 1) };
        format!("a{n}: &a{n} [{}]\n", vec![inner; 9].join(", "))
    };
    (0..9).map(level).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_malicious_documents_delays_no_other_caller() {
    let served = Arc::new(Served::start());
    let bombs: Vec<_> = (0..200)
        .map(|_| {
            let served = served.clone();
            tokio::spawn(async move { served.post("/v1/tenants:plan", "application/yaml", &bomb()).await })
        })
        .collect();

    for _ in 0..20 {
        let began = Instant::now();
        let alive = served.send(served.ask(Method::GET, "/livez")).await;
        assert_eq!(alive.status, 200);
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }

    for bomb in bombs {
        let answer = bomb.await.unwrap();
        assert_eq!(answer.status, 422, "{}", answer.body);
        assert!(answer.body.to_string().contains("anchors and aliases are not read"), "{}", answer.body);
    }
}

#[tokio::test]
async fn a_request_for_too_many_workspaces_is_refused_with_field_and_limit() {
    let served = Served::start();
    let workspaces: Vec<_> =
        (0..20_000).map(|n| json!({ "name": format!("w-{n}"), "class": "batch" })).collect();
    let of = |count: usize| {
        json!({
            "name": "acme",
            "tenant": {
                "tier": "research", "isolation": "dedicated", "data_residency": "any",
                "allow_preemption": false, "allow_gpu_sharing": false,
            },
            "entitlement": { "gpu_model": "H100", "gpus": 8 },
            "workspaces": workspaces[..count],
        })
    };

    let many = served.json_as(&served.admin, "/v1/tenants:plan", of(257)).await;
    let listed = served.json_as(&served.admin, "/v1/tenants:plan", of(20_000)).await;

    assert_eq!(many.status, 422, "{}", many.body);
    let told = many.body.to_string();
    assert!(told.contains("workspaces") && told.contains("at most 256"), "{told}");
    assert_eq!(listed.status, 400, "{}", listed.body);
    assert!(
        listed.body.to_string().contains("field `workspaces` has more than 10000 items"),
        "{}",
        listed.body
    );
}

/// The error for a document with a hundred thousand mistakes is no longer than for one with a hundred.
#[tokio::test]
async fn an_error_has_a_bounded_length_whatever_the_request() {
    let served = Served::start();
    let long = "n".repeat(200_000);
    let wrong: String = (0..40_000).map(|n| format!("f{n}: 1\n")).collect();
    let nested: String = (0..20_000).map(|n| format!("  f{n}: 1\n")).collect();
    for text in [wrong, format!("{long}:\n{nested}"), format!("{}tenant: {long}\n", small("acme"))] {
        let answer = served.post("/v1/tenants:plan", "application/yaml", &text).await;

        assert_eq!(answer.status, 422, "{}", answer.body);
        let told = answer.body.to_string().len();
        assert!(told < 200_000 && told < text.len(), "{told} bytes to {}", text.len());
    }
}

/// Functions that read from a peer or a document, and the files that may call them.
const READS: [(&str, &[&str]); 16] = [
    (".text().await", &[]),
    (".json().await", &[]),
    (".json::<", &[]),
    (".bytes().await", &[]),
    (".chunk()", &["backends/src/outbound/mod.rs", "backends/src/outbound/lines.rs"]),
    ("bytes_stream(", &[]),
    ("reqwest::get(", &[]),
    ("Client::new()", &[]),
    ("Client::builder()", &["backends/src/outbound/mod.rs"]),
    (".collect().await?.to_bytes()", &[]),
    ("request_events", &[]),
    ("request_stream", &[]),
    ("wait_with_output", &[]),
    (".output().await", &[]),
    ("AsyncSmtpTransport", &[]),
    ("serde_saphyr::from_", &["workflows/src/yaml.rs"]),
];

/// Collects every shipped Rust file below `dir`, without white space, comments and tests.
fn shipped(dir: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("tests") {
                shipped(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            found.push((path.display().to_string(), code.flat_map(str::split_whitespace).collect()));
        }
    }
}

#[test]
fn external_input_is_read_only_by_the_shared_readers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources = Vec::new();
    let crates = ["engine", "workflows", "workflows/backends", "workflows/simulator"];
    let programs = ["api/program", "api/agent", "api", "api/cli"];
    for dir in crates.iter().chain(&programs).map(|name| format!("{name}/src")) {
        shipped(&root.join(&dir), &mut sources);
    }
    assert!(sources.len() > 300, "{}", sources.len());

    let mut wrong = Vec::new();
    for (read, places) in READS {
        let by = sources.iter().filter(|(_, code)| code.contains(read)).map(|(path, _)| path);
        wrong.extend(
            by.filter(|path| !places.iter().any(|place| path.ends_with(place)))
                .map(|path| format!("{path} reads by {read}: use backends::outbound or workflows::yaml")),
        );
        for place in places {
            assert!(
                sources.iter().any(|(path, code)| path.ends_with(place) && code.contains(read)),
                "{place}"
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// No decompression is compiled in: a few kilobytes of a compressed answer could become gigabytes.
#[test]
fn no_client_decompresses_an_answer() {
    let lock = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock")).unwrap();
    assert!(lock.contains("name = \"reqwest\""));
    assert!(!lock.contains("name = \"async-compression\""), "a client of HTTP was built with compression");
}
