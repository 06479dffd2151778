//! Nodes of a tenant: a line in the node's comment and a reservation, and drains with our reason.

use super::cluster::{Cluster, gpus, sleeper, stamp, until, workload};
use backends::slurm::{NewJob, SlurmCluster};
use engine::Class;
use std::time::Duration;
use workflows::platform::{CallMetadata, Kubernetes, Ownership, Slurm, codes};

fn owner(tenant: &str, owner_epoch: u64) -> Ownership {
    Ownership { tenant: Some(tenant.to_owned()), owner_epoch, cordoned: false }
}

async fn with_account(cluster: &Cluster, tenants: &[&str]) -> SlurmCluster {
    let slurm = cluster.backend();
    for tenant in tenants {
        let name = format!("t-{tenant}");
        slurm.create_account("gpu", &name, tenant, &gpus(&[("prod", 8)]), &stamp("make")).await.unwrap();
    }
    slurm
}

/// The reservation covers both nodes, a job of the tenant spans them, and it ends with the last one.
#[tokio::test]
async fn claimed_nodes_are_reserved_for_their_tenant_and_freed_on_release() {
    let Some(cluster) = Cluster::start(2) else { return };
    let slurm = with_account(&cluster, &["owns", "other"]).await;
    let (of, foreign) = (owner("owns", 1), owner("other", 2));
    for node in ["gpu0", "gpu1", "gpu0"] {
        let taken = slurm.take_node("gpu", node, &of, &stamp("0A/Taking/1")).await.unwrap();
        assert_eq!(taken, of);
    }
    let reservation = cluster.says(&["scontrol", "show", "reservation", "t-owns", "-o"]);
    assert!(
        reservation.contains("Nodes=gpu[0-1]") && reservation.contains("Accounts=t-owns"),
        "{reservation}"
    );
    assert!(
        reservation.contains("EndTime=2099"),
        "an unlimited reservation would end in a year: {reservation}"
    );

    cluster.let_in("root", "t-owns--prod");
    cluster.let_in("root", "t-other--prod");
    let outside = slurm.submit(&sleeper(&workload("other", "x"), 1), &stamp("0B/x")).await.unwrap_err();
    assert_eq!(outside.code, codes::REFUSED, "jobs of other accounts do not run there: {outside}");
    let inside = NewJob { reservation: "t-owns".into(), ..sleeper(&workload("owns", "y"), 1) };
    let inside = slurm.submit(&inside, &stamp("0B/y")).await.unwrap();
    until("the tenant's job runs", Duration::from_secs(20), || async {
        cluster.job_state(inside) == "RUNNING"
    })
    .await;

    let theirs = slurm.take_node("gpu", "gpu0", &foreign, &stamp("0C/Taking/1")).await.unwrap_err();
    assert_eq!((theirs.class, theirs.code.as_str()), (Class::Permanent, codes::NODE_OWNED));
    let left = slurm.return_node("gpu", "gpu1", &foreign, &stamp("0C/Returning/1")).await.unwrap();
    assert_eq!(left.tenant.as_deref(), Some("owns"), "the return of another tenant has no effect");
    cluster.says(&["scancel", &inside.to_string()]);
    for node in ["gpu0", "gpu1", "gpu1"] {
        let call = || async { slurm.return_node("gpu", node, &of, &stamp("0D/Returning/1")).await };
        let freed = super::cluster::repeated(call).await;
        assert_eq!(freed.tenant, None);
    }
    assert!(cluster.says(&["scontrol", "show", "reservation"]).contains("No reservations"));
    let old = slurm.take_node("gpu", "gpu0", &owner("owns", 1), &stamp("0E/Taking/1")).await.unwrap_err();
    assert_eq!(old.code, codes::EPOCH_OLD);
    // A return without an earlier take also spends its epoch.
    slurm.return_node("gpu", "gpu0", &owner("owns", 7), &stamp("0F/Returning/1")).await.unwrap();
    let late = slurm.take_node("gpu", "gpu0", &owner("owns", 6), &stamp("0F/Taking/1")).await.unwrap_err();
    assert_eq!(late.code, codes::EPOCH_OLD);
}

/// A drain that another owner has set or taken over is never lifted.
#[tokio::test]
async fn a_drain_is_lifted_only_by_its_owner() {
    let Some(cluster) = Cluster::shared() else { return };
    let slurm = with_account(&cluster, &["drains"]).await;
    let (of, node) = (owner("drains", 1), "gpu4");
    slurm.take_node("gpu", node, &of, &stamp("0A/Taking/1")).await.unwrap();
    let (first, second) = (stamp("0B/Cordon/1"), stamp("0C/Cordon/1"));
    let drained = || cluster.says(&["sinfo", "-h", "-n", node, "-o", "%T"]).starts_with("drain");
    let lift = |by: &CallMetadata| {
        let (by, slurm, of) = (by.clone(), &slurm, &of);
        async move { slurm.uncordon_node("gpu", node, of, &by.step, &stamp("0D/Uncordon/1")).await.unwrap() }
    };

    slurm.cordon_node("gpu", node, &of, &first).await.unwrap();
    slurm.cordon_node("gpu", node, &of, &second).await.unwrap();
    assert!(lift(&first).await.cordoned && drained(), "the cordon of the other step remains");
    assert!(!lift(&second).await.cordoned && !drained());

    slurm.cordon_node("gpu", node, &of, &first).await.unwrap();
    let at = format!("nodename={node}");
    cluster.says(&["scontrol", "update", &at, "state=drain", "reason=bad fan"]);
    assert!(!lift(&first).await.cordoned && drained(), "the drain has another owner by now");
    slurm.cordon_node("gpu", node, &of, &second).await.unwrap();
    assert!(cluster.says(&["scontrol", "show", "node", node]).contains("Reason=bad fan"));
    slurm.return_node("gpu", node, &of, &stamp("0E/Returning/1")).await.unwrap();
    assert!(drained(), "a return lifts only its own drain");
    cluster.says(&["scontrol", "update", &at, "state=resume"]);
}

#[tokio::test]
async fn the_comment_of_a_node_keeps_the_text_of_others_and_an_unknown_node_is_named() {
    let Some(cluster) = Cluster::shared() else { return };
    let slurm = with_account(&cluster, &["notes"]).await;
    cluster.says(&["scontrol", "update", "nodename=gpu3", "comment=rack 7"]);
    let of = owner("notes", 1);

    slurm.take_node("gpu", "gpu3", &of, &stamp("0A/Taking/1")).await.unwrap();
    slurm.return_node("gpu", "gpu3", &of, &stamp("0A/Taking/1/undo")).await.unwrap();

    assert!(cluster.says(&["scontrol", "show", "node", "gpu3"]).contains("| rack 7"));
    let unknown = slurm.take_node("gpu", "gpu99", &of, &stamp("0B/Taking/1")).await.unwrap_err();
    assert_eq!((unknown.class, unknown.code.as_str()), (Class::Permanent, codes::OBJECT_MISSING));
}
