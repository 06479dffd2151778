//! The simulated platform in a file and in another process: no acknowledged call is lost, and its behaviour is the
//! same.

use backends::simulated::{Fault, FaultKind, LocalWorld, RemoteWorld, Script, simulated_platform};
use engine::Class;
use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};
use tests::{
    actions::{
        calls::Calls,
        pairs::{Deed, pairs},
    },
    servers::world::serve_here,
};
use workflows::platform::*;

/// Runs every action of the table once, and undoes every third.
async fn act_all(platform: &Platform, calls: &mut Calls) {
    for (at, pair) in pairs().iter().enumerate() {
        let step = format!("step-{at}");
        for (before, deed) in pair.before.iter().enumerate() {
            let _ready = deed.run(platform, &calls.next(&format!("{step}-{before}"), false)).await;
        }
        let _done_or_pending = pair.act.run(platform, &calls.next(&step, false)).await;
        if at % 3 == 0 {
            let _undone_or_pending = pair.undo.run(platform, &calls.next(&step, true)).await;
        }
    }
}

#[tokio::test]
async fn the_simulated_platform_is_unchanged_when_its_file_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world.log");
    let mut calls = Calls::new().await;
    let first = Arc::new(LocalWorld::persistent(&path).unwrap());
    act_all(&simulated_platform(first.clone()), &mut calls).await;

    let again = LocalWorld::persistent(&path).unwrap();

    assert!(first.snapshot().len() > 5);
    assert_eq!(again.snapshot(), first.snapshot());
    assert_eq!(again.all_effects(), first.all_effects());
    assert_eq!(again.ownership_log(), first.ownership_log());
    assert_eq!(again.refused(), first.refused());
}

/// A key is answered as before also after a restart: the platform stores its answers with their effects.
#[tokio::test]
async fn a_key_takes_effect_once_also_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world.log");
    let mut calls = Calls::new().await;
    let make = CreateNamespace {
        cluster: "eu-1".into(),
        tenant: "acme".into(),
        workspace: "prod".into(),
        labels: [].into(),
        priority_class: None,
    };
    let world = Arc::new(LocalWorld::persistent(&path).unwrap());
    let once = make.run(&simulated_platform(world), &calls.next("step", false)).await.unwrap();

    let world = Arc::new(LocalWorld::persistent(&path).unwrap());
    let call = calls.next("step", false);
    let twice = make.run(&simulated_platform(world.clone()), &call).await.unwrap();

    assert_eq!(once, twice);
    assert_eq!(world.effects(&call.key()), 1);
}

/// The end of a namespace is noticed at a read, and later objects depend on it.
#[tokio::test]
async fn changes_completed_by_time_are_stored_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world.log");
    let mut calls = Calls::new().await;
    let world = Arc::new(LocalWorld::persistent(&path).unwrap());
    let platform = simulated_platform(world.clone());
    let (cluster, tenant, workspace) = (|| "eu-1".to_owned(), || "acme".to_owned(), || "prod".to_owned());
    let make = CreateNamespace {
        cluster: cluster(),
        tenant: tenant(),
        workspace: workspace(),
        labels: [].into(),
        priority_class: None,
    };
    let delete = DeleteNamespace { cluster: cluster(), tenant: tenant(), workspace: workspace() };
    make.run(&platform, &calls.next("first", false)).await.unwrap();
    while delete.run(&platform, &calls.next("first", true)).await.is_err() {}
    make.run(&platform, &calls.next("second", false)).await.unwrap();

    let again = LocalWorld::persistent(&path).unwrap();

    assert_eq!(again.snapshot(), world.snapshot());
    assert_eq!(again.snapshot().len(), 1);
}

#[tokio::test]
async fn an_incomplete_last_line_is_dropped_and_a_damaged_earlier_line_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world.log");
    let mut calls = Calls::new().await;
    act_all(&simulated_platform(Arc::new(LocalWorld::persistent(&path).unwrap())), &mut calls).await;
    let whole = fs::read(&path).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    fs::write(&path, &whole[..last]).unwrap();
    let without_last = LocalWorld::persistent(&path).unwrap().snapshot();

    for torn in last..whole.len() {
        fs::write(&path, &whole[..torn]).unwrap();
        assert_eq!(LocalWorld::persistent(&path).unwrap().snapshot(), without_last, "torn at {torn}");
        assert_eq!(fs::metadata(&path).unwrap().len(), last as u64, "a torn line is cut off");
    }

    let mut damaged = whole.clone();
    damaged[20] = 0;
    fs::write(&path, damaged).unwrap();
    let refused = LocalWorld::persistent(&path).unwrap_err();
    assert_eq!(refused.to_string(), "line 1 of the simulated world's log is damaged");
}

/// A line after a torn one must not be joined to it.
#[tokio::test]
async fn changes_after_an_incomplete_line_are_stored_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world.log");
    let mut calls = Calls::new().await;
    act_all(&simulated_platform(Arc::new(LocalWorld::persistent(&path).unwrap())), &mut calls).await;
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"action\":\"Crea").unwrap();

    let world = Arc::new(LocalWorld::persistent(&path).unwrap());
    let other = CreateTenantKey { tenant: "globex".into() };
    other.run(&simulated_platform(world.clone()), &calls.next("other", false)).await.unwrap();

    assert_eq!(LocalWorld::persistent(&path).unwrap().snapshot(), world.snapshot());
}

/// A small generator, so that both platforms get the same calls.
fn draw(seed: &mut u64, below: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap() % below
}

#[tokio::test]
async fn the_same_calls_have_the_same_effect_in_process_and_over_http() {
    for seed in 1..=8 {
        let script = || Script {
            faults: vec![],
            random: Some(backends::simulated::Random {
                seed,
                fail_before: 50,
                fail_after: 50,
                answer_lost: 50,
                ..Default::default()
            }),
        };
        let (near, far) = (Arc::new(LocalWorld::new()), Arc::new(LocalWorld::new()));
        near.script(script());
        far.script(script());
        let address = serve_here(far.clone()).await.unwrap();
        let here = simulated_platform(near.clone());
        let there = simulated_platform(Arc::new(RemoteWorld::new(&format!("http://{address}")).unwrap()));
        let (mut calls, mut random) = (Calls::new().await, seed);
        let table = pairs();

        for _ in 0..120 {
            let pair = &table[draw(&mut random, table.len())];
            let undo = draw(&mut random, 3) == 0;
            let deed: &dyn Deed = if undo { pair.undo.as_ref() } else { pair.act.as_ref() };
            let step = format!("{}-{}", pair.act.name(), draw(&mut random, 3));
            let call = calls.next(&step, undo);
            assert_eq!(deed.run(&here, &call).await, deed.run(&there, &call).await, "{step}");
        }

        assert_eq!(near.snapshot(), far.snapshot());
        assert_eq!(near.all_effects(), far.all_effects());
        assert_eq!(near.violations(), [""; 0]);
    }
}

/// The platform's process; killed when it is dropped.
struct Process {
    child: Child,
    url: String,
}

impl Process {
    fn start(log: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_world"))
            .args(["--listen", "127.0.0.1:0", "--log"])
            .arg(log)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("it says where it listens");
        Self { url: format!("http://{address}"), child }
    }

    async fn get(&self, what: &str) -> serde_json::Value {
        reqwest::get(format!("{}/{what}", self.url)).await.unwrap().json().await.unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[tokio::test]
async fn a_killed_simulated_platform_keeps_every_answered_change() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("world.log");
    let mut calls = Calls::new().await;
    let process = Process::start(&log);
    let platform = simulated_platform(Arc::new(RemoteWorld::new(&process.url).unwrap()));
    act_all(&platform, &mut calls).await;
    let before = [process.get("snapshot").await, process.get("effects").await, process.get("owners").await];
    drop(process);

    let make = CreateTenantKey { tenant: "globex".into() };
    let unreachable = make.run(&platform, &calls.next("gone", false)).await.unwrap_err();
    let process = Process::start(&log);
    let after = [process.get("snapshot").await, process.get("effects").await, process.get("owners").await];

    assert_eq!((unreachable.code.as_str(), unreachable.class), ("platform.unavailable", Class::Transient));
    assert_eq!(after, before);
    assert_eq!(process.get("violations").await, serde_json::json!([]));
}

/// A request without a timely answer may have taken effect: only a probe can find out.
#[tokio::test]
async fn a_timeout_is_an_unknown_outcome_and_a_refused_connection_is_not() {
    let world = Arc::new(LocalWorld::new());
    let address = serve_here(world.clone()).await.unwrap();
    let remote = RemoteWorld::new(&format!("http://{address}")).unwrap();
    world.script(Script { faults: vec![Fault::on("Test", FaultKind::Slow { ms: 300 })], random: None });
    let request = |deadline_ms, verb| backends::simulated::Request {
        action: "Test".into(),
        step: "s".into(),
        key: "s".into(),
        epoch: 1,
        deadline_ms,
        system: backends::simulated::System::Slurm,
        cluster: "c".into(),
        verb,
        kind: "Account".into(),
        name: "n".into(),
        tenant: "t".into(),
        spec: serde_json::Value::Null,
        precondition_uid: None,
        dry_run: false,
    };
    use backends::simulated::{Verb, World};

    let late = remote.call(request(100, Verb::Apply)).await.unwrap_err();
    let mut there = None;
    for _ in 0..50 {
        there = remote.call(request(1_000, Verb::Read)).await.unwrap().found;
        if there.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }

    assert_eq!((late.code.as_str(), late.class), ("platform.no_answer", Class::Unknown));
    assert!(there.is_some(), "the effect happened after all");
}
