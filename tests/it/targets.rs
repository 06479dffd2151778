//! The target file: each cluster uses the backend that the file names, all others are simulated, and every view shows which.

use crate::hooks::stamp;
use backends::{
    routing::ByPlace,
    simulated::{LocalWorld, Simulated, simulated_platform},
    targets::Targets,
};
use engine::{Class, Probe};
use serde_json::json;
use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Output},
    sync::Arc,
};
use workflows::platform::*;

fn world() -> (Arc<LocalWorld>, Arc<Simulated>) {
    let world = Arc::new(LocalWorld::new());
    (world.clone(), Arc::new(Simulated::new(world)))
}

/// A call reaches the backend of its cluster or region, and no other.
#[tokio::test]
async fn each_cluster_is_served_by_its_own_backend() {
    let ((near, one), (far, rest)) = (world(), world());
    let named = |backend: Arc<dyn Kubernetes>| BTreeMap::from([("eu-1".to_owned(), backend)]);
    let kubernetes = ByPlace::<dyn Kubernetes>::over(named(one.clone()), rest.clone());
    let slurm =
        ByPlace::<dyn Slurm>::over([("eu-1".to_owned(), one.clone() as Arc<dyn Slurm>)].into(), rest.clone());
    let objects =
        ByPlace::<dyn Objects>::over([("eu-1".to_owned(), one as Arc<dyn Objects>)].into(), rest.clone());
    let world_of = |cluster: &str| if cluster == "eu-1" { (&near, &far) } else { (&far, &near) };

    for cluster in ["eu-1", "us-1"] {
        let place = ObjectRef::within(cluster, ObjectKind::ResourceQuota, "t-acme", "quota");
        let manifest = Manifest { place: place.clone(), tenant: "acme".into(), spec: json!({ "pods": 1 }) };
        let step = |what: &str| stamp(&format!("{cluster}/{what}"), false);
        let made = kubernetes.apply(&manifest, &step("apply")).await.unwrap();
        let swap = FieldSwap { field: "pods".into(), from: json!(1), to: json!(2) };
        kubernetes.compare_and_set(&place, "acme", &swap, &step("swap")).await.unwrap();
        kubernetes.patch(&Manifest { spec: json!({ "pods": 3 }), ..manifest }, &step("patch")).await.unwrap();
        assert_eq!(kubernetes.read(&place, &step("read")).await.unwrap().unwrap().spec, json!({ "pods": 3 }));
        let own = Ownership { tenant: Some("acme".into()), owner_epoch: 3, cordoned: false };
        kubernetes.take_node(cluster, "n-1", &own, &step("take")).await.unwrap();
        let by = step("cordon").step;
        kubernetes.cordon_node(cluster, "n-1", &own, &step("cordon")).await.unwrap();
        kubernetes.uncordon_node(cluster, "n-1", &own, &by, &step("uncordon")).await.unwrap();
        let kind = IsolationKind::ForeignCredentials;
        kubernetes.probe_isolation(cluster, "acme", "prod", kind, &step("probe")).await.unwrap();
        let account = slurm
            .create_account(cluster, "t-acme", "acme", &Associations::new(), &step("account"))
            .await
            .unwrap();
        let bucket = Bucket { name: "b".into(), region: cluster.into(), key: "k".into(), versioned: true };
        let made_bucket = objects.create(&bucket, "acme", &step("bucket")).await.unwrap();

        let (here, elsewhere) = world_of(cluster);
        assert_eq!(
            here.snapshot().keys().filter(|at| at.contains(cluster)).count(),
            4,
            "{:?}",
            here.snapshot()
        );
        assert!(!elsewhere.snapshot().keys().any(|at| at.contains(cluster)), "{:?}", elsewhere.snapshot());

        kubernetes.return_node(cluster, "n-1", &own, &step("return")).await.unwrap();
        kubernetes.delete(&place, &made.uid, &step("delete")).await.unwrap();
        assert!(slurm.account(cluster, "t-acme", &step("look")).await.unwrap().is_some());
        slurm.delete_account(cluster, "t-acme", &account, &step("forget")).await.unwrap();
        assert!(objects.read(cluster, "b", &step("look-b")).await.unwrap().is_some());
        objects.delete(cluster, "b", &made_bucket, &step("drop")).await.unwrap();
        assert!(!here.snapshot().keys().any(|at| at.contains(cluster)), "{:?}", here.snapshot());
    }
    assert_eq!(kubernetes.backend(), "eu-1: simulated, others: simulated");
    let none = ByPlace::<dyn Kubernetes>::over(BTreeMap::new(), rest);
    assert_eq!(none.backend(), "simulated", "without a target there is no wrapper");
}

fn hook_file(folder: &Path) -> String {
    let program =
        crate::hooks::script(folder, "echo '{\"status\":\"done\",\"output\":{\"by\":\"a program\"}}'");
    format!("hooks:\n  dns:\n    exec:\n      program: {}\n", program.display())
}

#[tokio::test]
async fn a_hook_of_the_file_is_called_and_every_other_is_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let platform = simulated_platform(Arc::new(LocalWorld::new()));
    let platform =
        Targets::parse(&hook_file(folder.path())).unwrap().connect(platform).await.unwrap().platform;
    let run = |name: &str| (crate::hooks::hook(name, json!({})), stamp(name, false));

    let (dns, at) = run("dns");
    assert_eq!(platform.hooks.run(&dns, &at).await.unwrap(), json!({ "by": "a program" }));
    let (vlan, at) = run("vlan");
    assert!(platform.hooks.run(&vlan, &at).await.unwrap().get("simulated").is_some());
    assert!(matches!(platform.hooks.probe(&vlan, &at).await.unwrap(), Probe::Done(_)));
    platform.hooks.undo(&vlan, &stamp("vlan", true)).await.unwrap();
    assert_eq!(platform.hooks.probe(&vlan, &at).await.unwrap(), Probe::NotDone);

    assert_eq!(platform.backends()["hooks"], "dns: exec, others: simulated");
    assert_eq!(platform.backends()["kubernetes"], "simulated");
    let unknown = backends::hooks::HookRegistry::new(BTreeMap::new(), None);
    assert_eq!(unknown.run(&vlan, &at).await.unwrap_err().class, Class::Permanent);
}

fn tenure(folder: &Path, targets: &str, arguments: &[&str]) -> Output {
    let file = folder.join("targets.yaml");
    std::fs::write(&file, targets).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure-under-test"));
    command
        .args(arguments)
        .current_dir(folder)
        .env("TENURE_TARGETS", &file)
        .env("TENURE_LISTEN", "127.0.0.1:0");
    command.output().unwrap()
}

/// A partly valid file is not used: the server does not start, and names the correction.
#[test]
fn a_server_does_not_start_with_an_invalid_target_file() {
    let folder = tempfile::tempdir().unwrap();
    for (targets, said) in [
        (
            "hooks: { dns: { exec: { program: hook.sh } } }",
            "targets: hooks.dns.exec.program: hook.sh: write an absolute path",
        ),
        ("clusters: { eu-1: { nomad: {} } }", "targets: clusters.eu-1.nomad: is no kind of backend"),
        ("clutsers: {}", "unknown field `clutsers`"),
    ] {
        let ran = tenure(folder.path(), targets, &["serve"]);
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{told}");
        assert!(told.contains(said), "{told}");
    }
    let ran = tenure(folder.path(), "clutsers: {}", &["config", "check"]);
    assert_eq!(ran.status.code(), Some(2));
    assert_eq!(tenure(folder.path(), "hooks: {}", &["config", "check"]).status.code(), Some(0));
}

/// S50.
#[tokio::test]
async fn a_server_reports_which_backends_are_real_and_which_are_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("targets.yaml");
    std::fs::write(&file, hook_file(folder.path())).unwrap();
    let port = tests::processes::free_port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure-under-test"));
    command.arg("serve").current_dir(folder.path()).env("TENURE_TARGETS", &file);
    command.env("TENURE_LISTEN", format!("127.0.0.1:{port}"));

    let (_server, said) = tests::processes::Process::start(&mut command, "hooks:");

    assert_eq!(said.trim(), "hooks: dns: exec, others: simulated");
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let ready = client.get(format!("http://127.0.0.1:{port}/readyz?verbose")).send().await.unwrap();
    let told = ready.text().await.unwrap();
    assert!(told.contains("dns: exec, others: simulated"), "{told}");
}
