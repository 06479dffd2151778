//! A tenant's life on a real Slurm: it comes, grows, lends, is called back, and leaves.

use super::house::House;
use crate::slurm::cluster::{Cluster, GPU, sleeper, stamp, until};
use serde_json::json;
use std::time::Duration;
use workflows::{actuators::WorkloadRef, backends::slurm::NewJob};

const SITES: &str = "
regions: [{id: eu, jurisdiction: eu}]
clusters: [{id: gpu, region: eu, kind: slurm, backend: slurmrestd}]
";

fn job(workspace: &str, name: &str, gpus: u64) -> NewJob {
    let (cluster, tenant) = ("gpu".to_owned(), "acme".to_owned());
    let of = WorkloadRef { cluster, tenant, workspace: workspace.into(), name: name.into() };
    NewJob { reservation: "t-acme".into(), ..sleeper(&of, gpus) }
}

/// Everything that was made is gone at the end, and what the jobs did is still on record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_comes_grows_lends_and_leaves() {
    let Some(cluster) = Cluster::start(3) else { return };
    let before = standing(&cluster);
    let rows: String = (0..3).map(|n| format!("gpu{n},16000,64000,8,H200\n")).collect();
    let targets = json!({ "clusters": { "gpu": { "slurm": cluster.settings() } } });
    let house = House::open(&targets, SITES, &[("gpu", "eu", &rows)]).await;

    comes(&house, &cluster).await;
    grows(&house, &cluster).await;
    lends_and_is_called_back(&house, &cluster).await;
    let leave =
        json!({ "tenant": "acme", "basis": "tenant_request", "reference": "mail 7", "reason": "moves" });
    house.leaves(leave).await;

    assert_eq!(standing(&cluster), before, "as if it had never been there");
    let told = cluster.says(&["sacct", "-nPX", "--allusers", "--format=account,jobname"]);
    assert!(told.contains("t-acme--serving|owner"), "what was run is on record: {told}");
}

/// Accounts, reservations and what is said of nodes.
fn standing(cluster: &Cluster) -> [String; 3] {
    let accounts = cluster.says(&[
        "sacctmgr",
        "-nP",
        "show",
        "assoc",
        "format=account,user,grptres,grpjobs,grpsubmitjobs",
    ]);
    let reservations = cluster.says(&["scontrol", "-o", "show", "reservations"]);
    let nodes = cluster.says(&["sinfo", "-hN", "-o", "%N %t %E"]);
    [accounts, reservations, nodes]
}

async fn comes(house: &House, cluster: &Cluster) {
    let wish = json!({
        "name": "acme",
        "tenant": { "tier": "research", "isolation": "dedicated", "data_residency": "eu-only",
                    "allow_preemption": true, "allow_gpu_sharing": false },
        "workspaces": [{ "name": "serving", "class": "production", "quotas": { "gpus": 4 } },
                       { "name": "research", "class": "research", "quotas": { "gpus": 2 } }],
        "entitlement": { "gpu_model": "H200", "gpus": 8, "region": "eu" },
    });
    house.done("/v1/tenants", wish).await;

    // What is its own, and what it may borrow.
    assert_eq!(cluster.limits("t-acme--serving"), format!("t-acme--serving|{GPU}=8"));
    let reserved = cluster.says(&["scontrol", "-o", "show", "reservations"]);
    assert!(
        reserved.contains("ReservationName=t-acme") && reserved.contains("Accounts=t-acme"),
        "{reserved}"
    );
    cluster.let_in("root", "t-acme--serving");
    cluster.let_in("root", "t-acme--research");
}

async fn grows(house: &House, cluster: &Cluster) {
    assert_eq!(cluster.limits("t-acme--research"), format!("t-acme--research|{GPU}=6"));
    let more = json!({ "tenant": "acme", "workspace": "research", "resource": "gpu/H200", "by": 2, "reason": "grows" });
    house.done("/v1/quota-requests", more).await;
    assert_eq!(cluster.limits("t-acme--research"), format!("t-acme--research|{GPU}=8"));
}

/// One workspace runs on all GPUs; the other wants its own back, and its job starts.
async fn lends_and_is_called_back(house: &House, cluster: &Cluster) {
    let slurm = cluster.backend();
    house.idle("gpu", "H200", "acme").await;
    let wants = |workspace: &str, name: &str, gpus: u64| json!({ "tenant": "acme", "workspace": workspace, "name": name, "requests": { "gpu/H200": gpus } });
    house.submit(wants("research", "borrower", 8)).await;
    let lent = slurm.submit(&job("research", "borrower", 8), &stamp("lent")).await.unwrap();
    until("the borrower runs", Duration::from_secs(30), || async { cluster.job_state(lent) == "RUNNING" })
        .await;

    let own = slurm.submit(&job("serving", "owner", 4), &stamp("own")).await.unwrap();
    cluster.says(&["scontrol", "hold", &own.to_string()]);
    house.submit(wants("serving", "owner", 4)).await;

    house.ended(&house.begun("reclaim").await).await;
    // Released by the reclaim, once the GPUs were seen to be free.
    until("the owner runs", Duration::from_secs(60), || async { cluster.job_state(own) == "RUNNING" }).await;
    assert_eq!(cluster.job_state(lent), "PENDING");
}
