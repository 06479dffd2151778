//! A tenant's life on a real Slurm: onboarding, growth, a loan, its reclaim, and offboarding.

use super::{deaths::Deaths, house::House};
use crate::slurm::cluster::{Cluster, GPU, sleeper, stamp, until};
use backends::slurm::NewJob;
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};
use workflows::platform::WorkloadRef;

const SITES: &str = "
regions: [{id: eu, jurisdiction: eu}]
clusters: [{id: gpu, region: eu, kind: slurm, backend: slurmrestd}]
";

fn job(workspace: &str, name: &str, gpus: u64) -> NewJob {
    let (cluster, tenant) = ("gpu".to_owned(), "acme".to_owned());
    let of = WorkloadRef { cluster, tenant, workspace: workspace.into(), name: name.into() };
    NewJob { reservation: "t-acme".into(), ..sleeper(&of, gpus) }
}

/// All created objects are gone at the end, and the records of the jobs stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_onboarded_grows_lends_and_is_offboarded() {
    let Some(cluster) = Cluster::start(3) else { return };
    let settings = cluster.settings();
    life(&Scene { cluster, deaths: None }, &settings).await;
}

/// Each of `slurmctld`, `slurmdbd` and `slurmrestd` is killed during calls of each execution, and away for some seconds. The results
/// equal those of an undisturbed run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_onboarded_grows_lends_and_is_offboarded_while_each_daemon_is_killed() {
    let Some(cluster) = Cluster::start(3) else { return };
    let deaths = Deaths::at(&cluster);
    let settings = deaths.settings();
    life(&Scene { cluster, deaths: Some(deaths) }, &settings).await;
}

/// The cluster, and the daemons to kill.
struct Scene {
    cluster: Cluster,
    deaths: Option<Deaths>,
}

impl Scene {
    /// Runs `work` while the daemons in `dying` may be killed.
    async fn over<T>(&self, dying: &[&str], work: impl Future<Output = T>) -> T {
        match &self.deaths {
            Some(deaths) => deaths.over(dying, work).await,
            None => work.await,
        }
    }

    /// Waits until the users' own changes are on disk: a killed controller loses changes of the last seconds.
    async fn kept(&self) {
        if self.deaths.is_some() {
            tokio::time::sleep(Duration::from_secs(7)).await;
        }
    }
}

async fn life(scene: &Scene, settings: &Value) {
    let cluster = &scene.cluster;
    let before = standing(cluster);
    let rows: String = (0..3).map(|n| format!("gpu{n},16000,64000,8,H200\n")).collect();
    let targets = json!({ "clusters": { "gpu": { "slurm": settings } } });
    let house = House::open(&targets, SITES, &[("gpu", "eu", &rows)]).await;

    comes(&house, scene).await;
    grows(&house, scene).await;
    lends_and_is_called_back(&house, scene).await;
    let leave =
        json!({ "tenant": "acme", "basis": "tenant_request", "reference": "mail 7", "reason": "moves" });
    scene
        .over(&["sacctmgr slurmrestd", "sacctmgr slurmdbd", "scontrol slurmctld"], house.leaves(leave))
        .await;

    assert_eq!(standing(cluster), before, "no trace of the tenant is left");
    let told = cluster.says(&["sacct", "-nPX", "--allusers", "--format=account,jobname"]);
    let runs: BTreeSet<&str> = told.lines().collect();
    assert_eq!(told.lines().count(), runs.len(), "each job ran once: {told}");
    for run in ["t-acme--research|borrower", "t-acme--serving|owner"] {
        assert!(runs.contains(run), "each run is recorded: {told}");
    }
}

/// Returns accounts, users, QOS, reservations and the states of nodes.
fn standing(cluster: &Cluster) -> [String; 5] {
    let accounts = cluster.says(&[
        "sacctmgr",
        "-nP",
        "show",
        "assoc",
        "format=account,user,grptres,grpjobs,grpsubmitjobs",
    ]);
    let reservations = cluster.says(&["scontrol", "-o", "show", "reservations"]);
    // A star marks a node whose daemon has not reported lately: a matter of the machine's load and of no tenant.
    let nodes = cluster.says(&["sinfo", "-hN", "-o", "%N %t %E"]).replace("* ", " ");
    let users = cluster.says(&["sacctmgr", "-nP", "show", "user", "format=user,adminlevel"]);
    let qos = cluster.says(&["sacctmgr", "-nP", "show", "qos", "format=name"]);
    [accounts, users, qos, reservations, nodes]
}

async fn comes(house: &House, scene: &Scene) {
    let cluster = &scene.cluster;
    let wish = json!({
        "name": "acme",
        "tenant": { "tier": "research", "isolation": "dedicated", "data_residency": "eu-only",
                    "allow_preemption": true, "allow_gpu_sharing": false },
        "workspaces": [{ "name": "serving", "class": "production", "quotas": { "gpus": 4 } },
                       { "name": "research", "class": "research", "quotas": { "gpus": 2 } }],
        "entitlement": { "gpu_model": "H200", "gpus": 8, "region": "eu" },
    });
    scene
        .over(
            &["sacctmgr slurmdbd", "sacctmgr slurmrestd", "scontrol slurmctld"],
            house.done("/v1/tenants", wish),
        )
        .await;

    // The workspace's own quota and its borrowing limit.
    assert_eq!(cluster.limits("t-acme--serving"), format!("t-acme--serving|{GPU}=8"));
    let reserved = cluster.says(&["scontrol", "-o", "show", "reservations"]);
    assert!(
        reserved.contains("ReservationName=t-acme") && reserved.contains("Accounts=t-acme"),
        "{reserved}"
    );
    cluster.let_in("root", "t-acme--serving");
    cluster.let_in("root", "t-acme--research");
}

async fn grows(house: &House, scene: &Scene) {
    let cluster = &scene.cluster;
    assert_eq!(cluster.limits("t-acme--research"), format!("t-acme--research|{GPU}=6"));
    let more = json!({ "tenant": "acme", "workspace": "research", "resource": "gpu/H200", "by": 2, "reason": "grows" });
    scene.over(&["sacctmgr slurmdbd"], house.done("/v1/quota-requests", more)).await;
    assert_eq!(cluster.limits("t-acme--research"), format!("t-acme--research|{GPU}=8"));
}

/// One workspace runs on all GPUs; the other needs its own ones back, and its job starts.
async fn lends_and_is_called_back(house: &House, scene: &Scene) {
    let (cluster, slurm) = (&scene.cluster, scene.cluster.backend());
    house.idle("gpu", "H200", "acme").await;
    let wants = |workspace: &str, name: &str, gpus: u64| json!({ "tenant": "acme", "workspace": workspace, "name": name, "requests": { "gpu/H200": gpus } });
    house.submit(wants("research", "borrower", 8)).await;
    let lent = slurm.submit(&job("research", "borrower", 8), &stamp("lent")).await.unwrap();
    until("the borrower runs", Duration::from_secs(30), || async { cluster.job_state(lent) == "RUNNING" })
        .await;

    let own = slurm.submit(&job("serving", "owner", 4), &stamp("own")).await.unwrap();
    cluster.says(&["scontrol", "hold", &own.to_string()]);
    scene.kept().await;
    let reclaim = async {
        house.submit(wants("serving", "owner", 4)).await;
        house.ended(&house.begun("reclaim").await).await
    };
    scene.over(&["scontrol slurmctld", "scontrol slurmrestd", "scontrol slurmdbd"], reclaim).await;
    // Released by the reclaim, once the GPUs were observed to be free.
    until("the owner runs", Duration::from_secs(60), || async { cluster.job_state(own) == "RUNNING" }).await;
    assert_eq!(cluster.job_state(lent), "PENDING");
    let missed = house.staff.all("/v1/reclaims-missed").await;
    assert!(missed.is_empty(), "the owner's deadline was missed: {missed:?}");
}
