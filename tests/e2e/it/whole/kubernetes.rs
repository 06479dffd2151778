//! Tenants' lives on a real API server: each isolation level makes exactly its golden objects, and none of them is left at the end,
//! whichever process is killed meanwhile.

use super::{house::House, unrest::Unrest};
use crate::kubernetes::{
    queues::Controller,
    server::{PATIENCE, Snapshot, World, differences, world},
    webhook::{NAME, Webhook},
};
use e2e::kubelet::{Kubelets, Play};
use serde_json::{Value, json};
use std::{
    env, fs,
    time::{Duration, Instant},
};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden");
const NODES: [&str; 3] = ["west-a", "west-b", "west-c"];

async fn house(world: &World, tenancy: &str) -> House {
    for node in NODES {
        // A node keeps its spent epochs, and this server begins with the first.
        world.delete(&format!("/api/v1/nodes/{node}")).await;
        world.node(node).await;
    }
    let target = json!({
        "kubeconfig": world.kubeconfig("tenure"), "verifier_kubeconfig": world.kubeconfig("verifier"),
        "admission_webhook": NAME, "probe_image": format!("registry.example/probe@sha256:{:064}", 0),
    });
    let targets = json!({ "clusters": { "west": { "kubernetes": target } } });
    let sites = format!(
        "regions: [{{id: eu, jurisdiction: eu}}]\n\
         clusters: [{{id: west, region: eu, kind: kubernetes, tenancy: {tenancy}, backend: kubernetes}}]\n"
    );
    let rows: String = NODES.iter().map(|node| format!("{node},96000,786432,8,H100\n")).collect();
    House::open(&targets, &sites, &[("west", "eu", &rows)]).await
}

fn wish(isolation: &str) -> Value {
    json!({
        "name": "acme",
        "tenant": { "tier": "research", "isolation": isolation, "data_residency": "eu-only",
                    "allow_preemption": true, "allow_gpu_sharing": isolation == "shared_slices" },
        "workspaces": [{ "name": "serving", "class": "production", "quotas": { "gpus": 4 } },
                       { "name": "research", "class": "research", "quotas": { "gpus": 2 } }],
        "entitlement": { "gpu_model": "H100", "gpus": 8, "region": "eu" },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_with_its_own_nodes_is_onboarded_grows_and_is_offboarded() {
    life("dedicated", "shared").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_with_its_own_cluster_is_onboarded_grows_and_is_offboarded() {
    life("dedicated_cluster", "dedicated").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_with_slices_is_onboarded_grows_and_is_offboarded() {
    life("shared_slices", "shared").await;
}

async fn life(isolation: &str, tenancy: &str) {
    let Some(world) = world().await else { return };
    let (webhook, kueue) = (Webhook::beside(&world).await, Controller::beside(&world));
    let (url, token) = world.access();
    let kubelets = Kubelets::beside(url, token, Play::default());
    let house = house(&world, tenancy).await;
    let before = world.snapshot().await;

    house.done("/v1/tenants", wish(isolation)).await;
    golden(&format!("{isolation}.json"), &before, &with_class(&world).await);

    let (resource, by, name, most) = match isolation {
        "shared_slices" => ("gpu/H100/1g.10gb", 14, "requests.nvidia.com/mig-1g.10gb", "56"),
        _ => ("gpu/H100", 2, "requests.nvidia.com/gpu", "8"),
    };
    let more = json!({
        "tenant": "acme", "workspace": "research", "resource": resource, "by": by, "reason": "grows",
    });
    house.done("/v1/quota-requests", more).await;
    let hard = &world.snapshot().await["/api/v1/resourcequotas t-acme--research/tenure"]["spec"]["hard"];
    assert_eq!(hard[name], most, "{hard}");

    let leave =
        json!({ "tenant": "acme", "basis": "tenant_request", "reference": "mail 7", "reason": "moves" });
    house.leaves(leave).await;

    nothing_is_left(&before, &world).await;
    drop((kueue, kubelets));
    webhook.end().await;
}

/// Tenure and the API server are killed repeatedly during an onboarding and an offboarding: the objects equal those of an undisturbed
/// tenant, and none of them is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn onboarding_and_offboarding_survive_kills_of_tenure_and_the_api_server() {
    let Some(world) = world().await else { return };
    let (webhook, kueue) = (Webhook::beside(&world).await, Controller::beside(&world));
    let (url, token) = world.access();
    let kubelets = Kubelets::beside(url, token, Play::default());
    let house = house(&world, "shared").await;
    let before = world.snapshot().await;

    let unrest = Unrest::new(&house, &world, 1);
    unrest.about(house.done("/v1/tenants", wish("dedicated"))).await;
    golden("dedicated.json", &before, &with_class(&world).await);
    let leave =
        json!({ "tenant": "acme", "basis": "tenant_request", "reference": "mail 7", "reason": "moves" });
    unrest.about(house.leaves(leave)).await;

    nothing_is_left(&before, &world).await;
    drop((kueue, kubelets));
    webhook.end().await;
}

/// The same for an onboarding that is cancelled when only the probes are missing: they do not end, since no kubelet is
/// active.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undone_onboarding_leaves_nothing_after_kills_of_tenure_and_the_api_server() {
    let Some(world) = world().await else { return };
    let (webhook, kueue) = (Webhook::beside(&world).await, Controller::beside(&world));
    let (url, token) = world.access();
    let kubelets = Kubelets::beside(url, token, Play { runs: false, ..Play::default() });
    let house = house(&world, "shared").await;
    let before = world.snapshot().await;

    let unrest = Unrest::new(&house, &world, 2);
    let id = house.asked("/v1/tenants", wish("dedicated")).await;
    unrest.about(house.until(&id, |item| item["state"] == "Probing")).await;
    let ended = unrest
        .about(async {
            house.take_back(&id).await;
            // Pods of the probes end once a kubelet confirms it.
            kubelets.play(|play| play.runs = true);
            house.until(&id, |item| item["open"] == false).await
        })
        .await;

    assert_eq!(ended["reason"], "cancelled", "{ended}");
    nothing_is_left(&before, &world).await;
    drop((kueue, kubelets));
    webhook.end().await;
}

/// Only the epoch stays, so that a late claim to the node is refused. An API server registers its groups again when it starts. Pods of
/// an interrupted probe are deleted after their namespace, when the cluster collects objects without an owner.
async fn nothing_is_left(before: &Snapshot, world: &World) {
    let began = Instant::now();
    loop {
        let mut left = differences(before, &world.snapshot().await);
        left.retain(|line| !line.contains("tenure.dev/spent-epoch") && !line.contains("/apiservices "));
        let collected = !left.is_empty() && left.iter().all(|line| line.contains("/pods tenure-probes/"));
        if !collected || began.elapsed() > PATIENCE {
            assert_eq!(left, [""; 0], "nothing is left");
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Returns a snapshot with the priority class of the tenant's service level.
async fn with_class(world: &World) -> Snapshot {
    let mut all = world.snapshot().await;
    all.extend(world.class("tenure-research-100").await);
    all
}

/// Objects that the cluster itself makes, in every namespace or at the start of the API server.
const OWN: [&str; 4] = [
    "/api/v1/secrets ",
    "/api/v1/serviceaccounts ",
    "/api/v1/configmaps ",
    "/apis/apiregistration.k8s.io/v1/apiservices ",
];

/// Checks that exactly these objects were made and changed. Run with `BLESS=1` to write the file again.
fn golden(name: &str, before: &Snapshot, after: &Snapshot) {
    let path = format!("{GOLDEN}/{name}");
    let mut made: Value = after
        .iter()
        .filter(|(key, is)| before.get(*key) != Some(is) && !OWN.iter().any(|own| key.starts_with(own)))
        .map(|(key, is)| (key.clone(), timeless(is)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    made.sort_all_objects();
    let text = format!("{made:#}\n");
    if env::var_os("BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(wanted, text, "run with BLESS=1 and review the difference");
}

/// Removes fields that differ from run to run.
fn timeless(object: &Value) -> Value {
    match object {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(key, _)| {
                !["uid", "creationTimestamp", "generation", "status"].contains(&key.as_str())
            });
            let keep = |(key, value): (&String, &Value)| {
                let varies = key.ends_with("/step") || key.ends_with("/calls") || key.ends_with("-epoch");
                (key.clone(), if varies { "varies".into() } else { timeless(value) })
            };
            fields.map(keep).collect::<serde_json::Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(timeless).collect(),
        other => other.clone(),
    }
}
