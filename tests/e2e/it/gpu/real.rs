//! A real driver, with an idle GPU. No script can install one, so run these by hand where there is one: `cargo test -p e2e --
//! --ignored --nocapture gpu::real`, with python3 and nvidia-smi. They overwrite the memory of the first GPU and change nothing
//! else.

use super::bench::{CLUSTER, NODE, Stamps, code};
use backends::nvml::{Client, LocalNode};
use serde_json::json;
use std::{
    collections::BTreeSet,
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};
use workflows::platform::{CallMetadata, Gpus, Recovery, ScrubLevel};

const TENANT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../servers/gpu-tenant.py");
const WITHIN: Duration = Duration::from_secs(300);
const FOLDER: &str = "TENURE_E2E_REAL_GPUS";

/// This machine as a node, for one test at a time.
struct Here {
    node: LocalNode,
    folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Here {
    async fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::const_new(());
        let alone = ALONE.lock().await;
        let folder = tempfile::tempdir().unwrap();
        Self { node: node(folder.path(), "node.json"), folder, _alone: alone }
    }

    /// A second backend for the same machine.
    fn other(&self) -> LocalNode {
        node(self.folder.path(), "other.json")
    }
}

fn node(folder: &Path, file: &str) -> LocalNode {
    let settings = json!({
        "cluster": CLUSTER, "node": NODE, "state": folder.join(file), "looks_apart_ms": 100,
    });
    LocalNode::connect(serde_json::from_value(settings).unwrap()).unwrap()
}

/// Returns what nvidia-smi reports of each GPU.
fn smi(fields: &str) -> Vec<Vec<String>> {
    let query = format!("--query-gpu={fields}");
    let said = Command::new("nvidia-smi").args([&query, "--format=csv,noheader,nounits"]).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    let said = String::from_utf8(said.stdout).unwrap();
    said.lines().map(|line| line.split(", ").map(|field| field.trim().to_owned()).collect()).collect()
}

/// A program on the first GPU, until this is dropped.
struct Tenant(Child);

impl Drop for Tenant {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Tenant {
    /// Fills the memory with a secret and keeps running.
    fn stays() -> Self {
        let mut child =
            Command::new("python3").args([TENANT, "leave"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("there "), "{line}");
        println!("a tenant: {line}");
        Self(child)
    }

    /// Returns the number of bytes that the next tenant sees, and how many blocks of them are not zero.
    fn next() -> (u64, u64) {
        let said = Command::new("python3").args([TENANT, "look"]).output().unwrap();
        assert!(said.status.success(), "{said:?}");
        let said = String::from_utf8(said.stdout).unwrap();
        println!("the next tenant sees: {said}");
        let mut words = said.split_whitespace();
        let bytes = words.next().unwrap().parse().unwrap();
        (bytes, words.nth(1).unwrap().parse().unwrap())
    }
}

async fn clients(node: &LocalNode, stamp: &CallMetadata) -> Vec<Client> {
    node.clients(&BTreeSet::from([0]), stamp).await.unwrap()
}

#[tokio::test]
#[ignore = "needs an idle GPU"]
async fn a_gpu_is_reported_as_its_manufacturer_describes_it() {
    let (here, mut stamps) = (Here::new().await, Stamps::new().await);

    let facts = here.node.facts().unwrap();

    println!("{facts:#?}");
    let on = |field: &str| match field {
        "Enabled" => Some(true),
        "Disabled" => Some(false),
        _ => None,
    };
    let told =
        smi("uuid,name,memory.total,ecc.mode.current,mig.mode.current,mig.mode.pending,driver_version");
    assert_eq!(facts.gpus.len(), told.len());
    for (fact, told) in facts.gpus.iter().zip(&told) {
        assert_eq!((&fact.uuid, &fact.name, &facts.driver_version), (&told[0], &told[1], &told[6]));
        assert_eq!(fact.memory_mib.to_string(), told[2]);
        assert_eq!(fact.ecc, on(&told[3]));
        assert_eq!(fact.mig.map(|mig| mig.current), on(&told[4]));
        assert_eq!(fact.mig.map(|mig| mig.pending), on(&told[5]));
    }

    let health = here.node.health(CLUSTER, NODE, &stamps.next("health")).await.unwrap();
    println!("{health:#?}");
    assert!(health.fit && health.recovery == Recovery::Nothing, "{}", health.report);
    let counted = "ecc.errors.uncorrected.volatile.total,ecc.errors.uncorrected.aggregate.total,ecc.errors.corrected.volatile.total";
    for (fact, told) in facts.gpus.iter().zip(smi(counted)) {
        let (uuid, [now, ever, corrected]) = (&fact.uuid, [&told[0], &told[1], &told[2]]);
        let same = format!(
            "{uuid}: uncorrected {now}, uncorrected in total {ever}, corrected {corrected}, rows remapped "
        );
        assert!(health.report.contains(&same), "{same}: {}", health.report);
    }
    assert!(!health.report.contains("unknown"), "{}", health.report);
    let seen = clients(&here.node, &stamps.next("clients")).await;
    assert!(seen.is_empty(), "the GPU is in use: {seen:?}");
}

/// Nothing is partitioned: only the plan is checked.
#[tokio::test]
#[ignore = "needs an idle GPU"]
async fn a_dry_run_of_a_layout_knows_the_profiles_of_the_gpu_and_touches_none() {
    let (here, mut stamps) = (Here::new().await, Stamps::new().await);
    let modes = smi("mig.mode.current,mig.mode.pending");
    if modes.iter().flatten().any(|mode| mode != "Disabled") {
        println!("skipped: a GPU has partitions or does not support them: {modes:?}");
        return;
    }
    let dry = |mut stamp: CallMetadata| {
        stamp.dry_run = true;
        stamp
    };
    assert_eq!(here.node.layout(CLUSTER, NODE, &stamps.next("read")).await.unwrap().profile, "all-disabled");

    let stamp = dry(stamps.next("unknown"));
    let unknown = here.node.set_layout(CLUSTER, NODE, "all-9g.9gb", &stamp).await.unwrap_err();

    println!("{unknown}");
    assert_eq!(unknown.code, "platform.unsupported");
    let (_, known) = unknown.message.rsplit_once("which has ").unwrap();
    let known: Vec<&str> = known.split(", ").collect();
    assert!(known.len() > 2 && known.iter().all(|name| name.contains("g.")), "{known:?}");
    for name in known {
        let (stamp, profile) = (dry(stamps.next(name)), format!("all-{name}"));
        here.node.set_layout(CLUSTER, NODE, &profile, &stamp).await.unwrap();
    }
    assert_eq!(smi("mig.mode.current,mig.mode.pending"), modes);
    assert!(!here.folder.path().join("node.json").exists(), "a dry run leaves nothing behind");
}

#[tokio::test]
#[ignore = "needs an idle GPU"]
async fn a_gpu_in_use_is_not_scrubbed_until_its_tenant_has_left() {
    let (here, mut stamps) = (Here::new().await, Stamps::new().await);
    let gpu = BTreeSet::from([0]);
    let tenant = Tenant::stays();
    let pid = tenant.0.id();

    let seen = clients(&here.node, &stamps.next("busy")).await;
    assert!(seen.iter().any(|client| client.pid == pid && client.kind == "compute"), "{seen:?}");
    let stamp = stamps.next("refused");
    let refused = here.node.scrub_gpus(&gpu, ScrubLevel::Verified, WITHIN, &stamp).await;
    assert_eq!(code(refused), "gpu.busy");

    drop(tenant);
    while !clients(&here.node, &stamps.next("gone")).await.is_empty() {}
    Tenant::next();

    let stamp = stamps.next("clear");
    let scrubbed = here.node.scrub_gpus(&gpu, ScrubLevel::Verified, WITHIN, &stamp).await.unwrap();
    println!("{scrubbed:#?}");
    assert!(scrubbed.covered_bytes * 100 > scrubbed.total_bytes * 98, "nearly all of the memory was claimed");
    let again = here.node.scrub_gpus(&gpu, ScrubLevel::Verified, Duration::from_secs(1), &stamp).await;
    assert_eq!(again.unwrap(), scrubbed, "done once for its key, and answered from the node's file");

    let (bytes, nonzero) = Tenant::next();
    assert!(bytes * 100 > scrubbed.total_bytes * 98);
    assert_eq!(nonzero, 0);
}

#[tokio::test]
#[ignore = "needs an idle GPU"]
async fn a_gpu_that_is_being_scrubbed_counts_as_in_use_for_others() {
    let (here, mut stamps) = (Here::new().await, Stamps::new().await);
    let (other, own) = (here.other(), std::process::id());
    let uuid = here.node.facts().unwrap().gpus[0].uuid.clone();
    let watched = async {
        loop {
            let seen = clients(&other, &stamps.next("watch")).await;
            if seen.iter().any(|client| client.pid == own) {
                break other.scrub(&uuid, WITHIN).await;
            }
        }
    };

    let (scrubbed, refused) = tokio::join!(here.node.scrub(&uuid, WITHIN), watched);

    assert_eq!(code(refused), "gpu.busy");
    let scrubbed = scrubbed.unwrap();
    let gib = scrubbed.bytes_covered as f64 / f64::from(1 << 30);
    println!("{scrubbed:#?}: {gib:.1} GiB, {:.1} a second", gib / scrubbed.took.as_secs_f64());
    assert_eq!(scrubbed.mismatches, 0);
    assert!(scrubbed.coverage() > 98_000, "{}", scrubbed.coverage());
}

/// Clears the GPU in a separate process: run only by the test below.
#[tokio::test]
#[ignore = "a part of other tests"]
async fn as_another_process() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let (gpu, stamps) = (BTreeSet::from([0]), Stamps::new().await);
    let node = node(Path::new(&folder), "node.json");
    let _ = node.scrub_gpus(&gpu, ScrubLevel::Verified, WITHIN, &stamps.at("clear", 1)).await;
}

#[tokio::test]
#[ignore = "needs an idle GPU"]
async fn an_interrupted_scrub_starts_again() {
    let (here, mut stamps) = (Here::new().await, Stamps::new().await);
    let gpu = BTreeSet::from([0]);
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "gpu::real::as_another_process", "--ignored"])
        .env(FOLDER, here.folder.path())
        .spawn()
        .unwrap();
    while clients(&here.node, &stamps.next("begun")).await.is_empty() {}
    // Filling is long over, and reading has not finished.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(child.try_wait().unwrap().is_none(), "it finished too early");
    child.kill().unwrap();
    child.wait().unwrap();
    while !clients(&here.node, &stamps.next("gone")).await.is_empty() {}
    Tenant::next();

    let anew = stamps.at("clear", 2);
    let scrubbed = here.node.scrub_gpus(&gpu, ScrubLevel::Verified, WITHIN, &anew).await.unwrap();

    println!("{scrubbed:#?}");
    assert!(
        scrubbed.covered_bytes * 100 > scrubbed.total_bytes * 98,
        "all of the memory, and not only the rest"
    );
    assert_eq!(Tenant::next().1, 0);
}
