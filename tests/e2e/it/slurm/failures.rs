//! Each daemon is killed during work: the failure reports the known state, and a repeat completes the work.

use super::cluster::{Cluster, GPU, gpus, repeated, sleeper, stamp, until, workload};
use backends::slurm::SlurmCluster;
use engine::{ActionError, Class};
use serde_json::json;
use std::time::Duration;
use workflows::platform::{CallMetadata, FieldSwap, Slurm, Workloads, codes};

/// A backend whose `sacctmgr` runs unchanged until its nth call; before that call a daemon is killed.
fn dying(cluster: &Cluster, daemon: &str, nth: u32) -> SlurmCluster {
    let count = cluster.path().join(format!("calls-{daemon}-{nth}"));
    let text = format!(
        "echo >>{0}; [ $(wc -l <{0}) = {nth} ] && {1}\nexec sacctmgr \"$@\"",
        count.display(),
        cluster.killing(daemon)
    );
    cluster.with(&json!({ "sacctmgr": cluster.tool(&format!("sacctmgr-{daemon}-{nth}"), &text) }))
}

/// Checks that the error is not permanent, and that its code describes the fate of the call.
fn passing(error: &ActionError) {
    let known = match error.class {
        Class::Transient => [codes::UNAVAILABLE, codes::OBJECT_CHANGED].contains(&error.code.as_str()),
        Class::Unknown => error.code == codes::NO_ANSWER,
        Class::Permanent | Class::Pending { .. } => false,
    };
    assert!(known, "{error:?}");
}

/// Killed after the creation of the tenant's account and before that of its workspaces.
#[tokio::test]
async fn an_onboarding_interrupted_by_a_daemon_crash_is_completed_by_its_retry() {
    let Some(cluster) = Cluster::start(1) else { return };
    for daemon in ["slurmdbd", "slurmrestd", "slurmctld"] {
        let (tenant, wanted) = (format!("half-{daemon}"), gpus(&[("dev", 1), ("prod", 8)]));
        let (name, slurm) = (format!("t-{tenant}"), dying(&cluster, daemon, 2));
        let hurried = CallMetadata { deadline: Duration::from_secs(12), ..stamp("0A/CreatingAccount/1") };

        let first = slurm.create_account("gpu", &name, &tenant, &wanted, &hurried).await;

        match &first {
            // slurmdbd stores accounts by itself: the controller is not needed.
            Ok(_) => assert_eq!(daemon, "slurmctld"),
            Err(error) => passing(error),
        }
        cluster.restart(daemon);
        let make = || slurm.create_account("gpu", &name, &tenant, &wanted, &hurried);
        let made = repeated(make).await;
        assert_eq!(made.spec, json!({ "associations": wanted }), "{daemon}");
        assert_eq!(cluster.limits(&format!("{name}--prod")), format!("{name}--prod|{GPU}=8"));

        let more = FieldSwap {
            field: "associations".into(),
            from: json!(wanted),
            to: json!(gpus(&[("dev", 2), ("prod", 4)])),
        };
        cluster.kill(daemon);
        let grown = slurm
            .compare_and_set(
                "gpu",
                &name,
                &tenant,
                &more,
                &CallMetadata { step: "0A/Grow/1".into(), ..hurried.clone() },
            )
            .await;
        if let Err(error) = &grown {
            passing(error);
        }
        cluster.restart(daemon);
        let grow = || slurm.compare_and_set("gpu", &name, &tenant, &more, &hurried);
        assert_eq!(repeated(grow).await.spec["associations"], more.to);

        cluster.kill(daemon);
        if let Err(error) = slurm.delete_account("gpu", &name, &made, &hurried).await {
            passing(&error);
        }
        cluster.restart(daemon);
        repeated(|| slurm.delete_account("gpu", &name, &made, &hurried)).await;
        assert_eq!(slurm.account("gpu", &name, &stamp("look")).await.unwrap(), None);
    }
}

/// A reclaim in which first the controller and then `slurmrestd` is killed.
#[tokio::test]
async fn a_reclaim_interrupted_by_a_daemon_crash_is_completed_by_its_retry() {
    let Some(cluster) = Cluster::start(1) else { return };
    let slurm = cluster.backend();
    for daemon in ["slurmrestd", "slurmctld", "slurmdbd"] {
        let of = workload(&format!("lost-{daemon}"), "train");
        let name = format!("t-{}", of.tenant);
        slurm.create_account("gpu", &name, &of.tenant, &gpus(&[("prod", 8)]), &stamp("make")).await.unwrap();
        cluster.let_in("root", &format!("{name}--prod"));
        let job = slurm.submit(&sleeper(&of, 8), &stamp(&format!("0A/{daemon}/1"))).await.unwrap();
        until("it runs", Duration::from_secs(30), || async { cluster.job_state(job) == "RUNNING" }).await;
        // A killed controller loses changes of the last seconds, although it has acknowledged them.
        tokio::time::sleep(Duration::from_secs(7)).await;
        let seen = slurm.observe(&of, &stamp("look")).await.unwrap().unwrap();

        cluster.kill(daemon);
        if let Err(error) = slurm.evict(&of, &seen.uid, &stamp("0B/Evict/1")).await {
            passing(&error);
        } else {
            assert_eq!(daemon, "slurmdbd", "the controller stores jobs by itself");
        }
        cluster.restart(daemon);
        let evict = stamp("0B/Evict/1");
        repeated(|| slurm.evict(&of, &seen.uid, &evict)).await;
        let look = stamp("look");
        until("its GPUs are free", Duration::from_secs(40), || async {
            repeated(|| slurm.observe(&of, &look)).await.is_some_and(|seen| !seen.pods && !seen.active)
        })
        .await;
        cluster.says(&["scancel", &job.to_string()]);
    }
}
