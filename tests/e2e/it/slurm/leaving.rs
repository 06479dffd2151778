//! An offboarding: frozen, drained, removed, and observed again with other credentials.

use super::cluster::{Cluster, gpus, repeated, sleeper, stamp, until, workload};
use engine::Class;
use serde_json::json;
use std::time::Duration;
use workflows::platform::{
    AccessMode, Kubernetes, Observer, Ownership, Slurm, TenantResource, TenantResources, codes,
};

/// Account, users, QOS and reservation are removed; the records of the jobs stay.
#[tokio::test]
async fn only_the_job_records_of_a_tenant_remain_in_slurm() {
    let Some(cluster) = Cluster::start(1) else { return };
    let reader = json!({ "user": "nobody", "token_file": cluster.path().join("reader.token") });
    let token = cluster.says(&["scontrol", "token", "username=nobody", "lifespan=3600"]);
    std::fs::write(cluster.path().join("reader.token"), token.trim_start_matches("SLURM_JWT=")).unwrap();
    let slurm = cluster.with(&json!({ "verifier": reader }));
    slurm
        .create_account("gpu", "t-leaves", "leaves", &gpus(&[("prod", 8), ("dev", 1)]), &stamp("make"))
        .await
        .unwrap();
    slurm
        .create_account("gpu", "t-leaves-2", "leaves-2", &gpus(&[("prod", 8)]), &stamp("make-2"))
        .await
        .unwrap();
    cluster.let_in("daemon", "t-leaves--prod");
    cluster.let_in("root", "t-leaves--prod");
    cluster.says(&["sacctmgr", "-i", "add", "qos", "t-leaves--gold"]);
    let job = slurm.submit(&sleeper(&workload("leaves", "train"), 1), &stamp("0A/Job/1")).await.unwrap();
    until("it runs", Duration::from_secs(20), || async { cluster.job_state(job) == "RUNNING" }).await;
    let account = TenantResource::new("slurm", "gpu", "Account", "t-leaves");
    let look = || async { slurm.read_resource(&account, Observer::Platform, &stamp("look")).await.unwrap() };

    // Frozen: running jobs continue, and new jobs are refused; then the reverse.
    slurm.set_admission(&account, "leaves", AccessMode::ReadOnly, &stamp("0B/Freeze/1")).await.unwrap();
    let frozen = look().await.unwrap();
    assert_eq!((frozen.text("admits"), frozen.number("jobs")), (Some("read_only"), 1));
    let refused =
        slurm.submit(&sleeper(&workload("leaves", "more"), 1), &stamp("0A/Job/2")).await.unwrap_err();
    assert_eq!(refused.code, codes::REFUSED, "{refused}");
    let in_use = slurm.remove(&account, &frozen.uid, &stamp("0B/Remove/1")).await.unwrap_err();
    assert_eq!((in_use.class, in_use.code.as_str()), (Class::Permanent, codes::ACCOUNT_IN_USE));
    slurm.set_admission(&account, "leaves", AccessMode::Nothing, &stamp("0B/Drain/1")).await.unwrap();
    until("it is drained", Duration::from_secs(30), || async { look().await.unwrap().number("jobs") == 0 })
        .await;

    let owner = Ownership { tenant: Some("leaves".into()), owner_epoch: 1, cordoned: false };
    slurm.take_node("gpu", "gpu0", &owner, &stamp("0A/Taking/1")).await.unwrap();
    let all = slurm.survey("slurm", "leaves", Observer::Platform, &stamp("survey")).await.unwrap();
    let names: Vec<String> = all.iter().map(|seen| seen.thing.to_string()).collect();
    assert_eq!(names, ["slurm/gpu/Account/t-leaves", "slurm/gpu/Qos/t-leaves--gold"]);
    assert_eq!(all[0].spec["users"], json!(["daemon", "root"]));
    assert!(slurm.survey("keys", "leaves", Observer::Platform, &stamp("survey")).await.unwrap().is_empty());
    for seen in all.iter().rev().chain(&all) {
        let call = || async { slurm.remove(&seen.thing, &seen.uid, &stamp("0B/Remove/2")).await };
        repeated(call).await;
    }

    // Its nodes have no owner until they were cleaned and returned.
    let reserved = || cluster.says(&["scontrol", "-o", "show", "reservations"]);
    assert!(reserved().contains("Nodes=gpu0") && reserved().contains("Users=root"), "{}", reserved());
    slurm.return_node("gpu", "gpu0", &owner, &stamp("0A/Taking/1")).await.unwrap();
    assert!(!reserved().contains("gpu0"), "{}", reserved());

    assert!(slurm.survey("slurm", "leaves", Observer::Verifier, &stamp("verify")).await.unwrap().is_empty());
    for seen in &all {
        assert_eq!(
            slurm.read_resource(&seen.thing, Observer::Verifier, &stamp("verify")).await.unwrap(),
            None
        );
    }
    let (accounts, users) = (
        cluster.says(&["sacctmgr", "-nP", "show", "account"]),
        cluster.says(&["sacctmgr", "-nP", "show", "user"]),
    );
    assert!(
        !accounts.contains("t-leaves|")
            && !accounts.contains("t-leaves--")
            && accounts.contains("t-leaves-2"),
        "{accounts}"
    );
    assert!(!users.contains("daemon") && users.contains("root"), "{users}");
    assert!(!cluster.says(&["sacctmgr", "-nP", "show", "qos", "format=name"]).contains("t-leaves"));
    let records = cluster.says(&["sacct", "-X", "-n", "-P", "-a", "-S", "now-1days", "-o", "jobid,account"]);
    assert!(records.contains(&format!("{job}|t-leaves--prod")), "{records}");
}

#[tokio::test]
async fn an_account_with_jobs_stays_and_another_with_its_name_is_not_confused_with_it() {
    let Some(cluster) = Cluster::shared() else { return };
    let (slurm, of) = (cluster.backend(), workload("busy", "train"));
    let first =
        slurm.create_account("gpu", "t-busy", "busy", &gpus(&[("prod", 4)]), &stamp("make")).await.unwrap();
    cluster.let_in("root", "t-busy--prod");
    let job = slurm.submit(&sleeper(&of, 1), &stamp("0A/Busy/1")).await.unwrap();

    let kept = slurm.delete_account("gpu", "t-busy", &first, &stamp("delete")).await.unwrap_err();
    assert_eq!((kept.class, kept.code.as_str()), (Class::Permanent, codes::ACCOUNT_IN_USE), "{kept}");
    assert!(kept.message.contains(&job.to_string()), "{kept}");

    cluster.says(&["scancel", &job.to_string()]);
    until("the job has left", Duration::from_secs(20), || async {
        slurm.delete_account("gpu", "t-busy", &first, &stamp("delete")).await.is_ok()
    })
    .await;
    slurm.delete_account("gpu", "t-busy", &first, &stamp("delete")).await.unwrap();
    let second = slurm.create_account("gpu", "t-busy", "busy", &gpus(&[]), &stamp("again")).await.unwrap();
    let late = slurm.delete_account("gpu", "t-busy", &first, &stamp("delete")).await.unwrap_err();
    assert_eq!(late.code, codes::OBJECT_CHANGED);
    assert_eq!(slurm.account("gpu", "t-busy", &stamp("look")).await.unwrap().unwrap(), second);
}
