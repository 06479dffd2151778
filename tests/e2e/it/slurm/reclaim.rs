//! Reclaimed GPUs: a real job is notified, saves and leaves, and another starts on its GPUs.

use super::cluster::{Cluster, gpus, sleeper, stamp, until, workload};
use backends::slurm::NewJob;
use engine::Class;
use std::time::Duration;
use workflows::platform::{GpuSet, Slurm, StartWorkload, WorkloadNotice, Workloads, codes};

/// The borrower's job is requeued and held, its GPUs are returned, the lender's job starts, and the borrower's job runs
/// again later.
#[tokio::test]
async fn the_job_of_a_borrower_ends_and_the_job_of_the_lender_starts() {
    let Some(cluster) = Cluster::start(1) else { return };
    let slurm = cluster.backend();
    let (borrower, lender) = (workload("borrower", "batch"), workload("lender", "serve"));
    for of in [&borrower, &lender] {
        let name = format!("t-{}", of.tenant);
        slurm.create_account("gpu", &name, &of.tenant, &gpus(&[("prod", 8)]), &stamp("make")).await.unwrap();
        cluster.let_in("root", &format!("{name}--prod"));
    }
    let lent = slurm.submit(&sleeper(&borrower, 8), &stamp("0A/Lent/1")).await.unwrap();
    cluster.runs(lent, Duration::from_secs(20)).await;
    let asked = slurm.submit(&sleeper(&lender, 8), &stamp("0B/Own/1")).await.unwrap();
    assert_eq!(cluster.job_state(asked), "PENDING");
    let all: GpuSet = [("gpu0".to_owned(), (0..8).collect())].into();

    slurm.set_notice(&borrower, &WorkloadNotice::EndsAt(5_000), &stamp("0C/Notify/1")).await.unwrap();
    slurm.set_notice(&borrower, &WorkloadNotice::EndsAt(5_000), &stamp("0C/Notify/1")).await.unwrap();
    let told = slurm.observe(&borrower, &stamp("look")).await.unwrap().unwrap();
    assert_eq!(told.reclaim_at, Some(5_000));
    assert_eq!(told.gpus, all);
    assert_eq!(slurm.clients("gpu", "gpu0", &[3].into(), &stamp("look")).await.unwrap().len(), 1);
    slurm.evict(&borrower, &told.uid, &stamp("0C/Evict/1")).await.unwrap();
    slurm.evict(&borrower, &told.uid, &stamp("0C/Evict/1")).await.unwrap();

    cluster.runs(asked, Duration::from_secs(30)).await;
    let gone = slurm.observe(&borrower, &stamp("look")).await.unwrap().unwrap();
    assert!(!gone.pods && !gone.active && gone.gpus.is_empty(), "{gone:?}");
    assert_eq!(slurm.observe(&lender, &stamp("look")).await.unwrap().unwrap().gpus, all);
    let holders = slurm.clients("gpu", "gpu0", &[3].into(), &stamp("look")).await.unwrap();
    assert_eq!(holders, [format!("t-lender--prod/serve (job {asked})")]);

    cluster.says(&["scancel", &asked.to_string()]);
    until("the lender has left", Duration::from_secs(20), || async {
        slurm.observe(&lender, &stamp("look")).await.unwrap().is_none()
    })
    .await;
    let again = StartWorkload {
        workload: borrower.clone(),
        gpus: all.clone().into(),
        service: false,
        profiles: std::collections::BTreeMap::new(),
    };
    slurm.requeue(&borrower, &stamp("0C/Requeue/1")).await.unwrap();
    assert!(
        !slurm.observe(&borrower, &stamp("look")).await.unwrap().unwrap().active,
        "it is held until it is admitted"
    );
    slurm.start(&again.workload, again.gpus.as_set(), again.service, &stamp("0C/Restart/1")).await.unwrap();
    // Slurm keeps a requeued job waiting until its old credential expires, 120 s by default.
    cluster.runs(lent, Duration::from_secs(60)).await;
    let back = slurm.observe(&borrower, &stamp("look")).await.unwrap().unwrap();
    assert_eq!((back.reclaim_at, back.uid), (None, told.uid), "the same job, and no longer notified to end");
}

/// A job that may not be requeued is cancelled; a job that was submitted again is not confused with it.
#[tokio::test]
async fn a_job_that_must_not_be_requeued_ends_for_good() {
    let Some(cluster) = Cluster::shared() else { return };
    let (slurm, of) = (cluster.backend(), workload("once-only", "train"));
    slurm
        .create_account("gpu", "t-once-only", "once-only", &gpus(&[("prod", 4)]), &stamp("make"))
        .await
        .unwrap();
    cluster.let_in("root", "t-once-only--prod");
    let job = NewJob { requeue: false, ..sleeper(&of, 1) };
    let first = slurm.submit(&job, &stamp("0A/Once/1")).await.unwrap();
    // v0.0.38 ignores `"requeue": false`.
    cluster.says(&["scontrol", "update", &format!("jobid={first}"), "requeue=0"]);
    cluster.runs(first, Duration::from_secs(30)).await;
    let seen = slurm.observe(&of, &stamp("look")).await.unwrap().unwrap();

    slurm.evict(&of, &seen.uid, &stamp("0B/Evict/1")).await.unwrap();

    until("it is gone", Duration::from_secs(30), || async {
        slurm.observe(&of, &stamp("look")).await.unwrap().is_none()
    })
    .await;
    let second = slurm.submit(&job, &stamp("0C/Once/1")).await.unwrap();
    let late = slurm.evict(&of, &seen.uid, &stamp("0B/Evict/1")).await.unwrap_err();
    assert_eq!((late.class, late.code.as_str()), (Class::Transient, codes::OBJECT_CHANGED), "{late}");
    cluster.says(&["scancel", &second.to_string()]);
}

/// A job gets a signal, and reports in its comment that it has saved its work.
#[tokio::test]
async fn a_job_saves_its_work_on_request_and_confirms_it() {
    let Some(cluster) = Cluster::shared() else { return };
    let (slurm, of) = (cluster.backend(), workload("saves", "train"));
    slurm.create_account("gpu", "t-saves", "saves", &gpus(&[("prod", 4)]), &stamp("make")).await.unwrap();
    cluster.let_in("root", "t-saves--prod");
    let conf = cluster.conf().display();
    let save = format!("SLURM_CONF={conf} scontrol update JobId=$SLURM_JOB_ID Comment=checkpointed");
    let script = format!("#!/bin/bash\ntrap '{save}' USR1\nwhile true; do sleep 0.1; done\n");
    let job = slurm.submit(&NewJob { script, ..sleeper(&of, 1) }, &stamp("0A/Saves/1")).await.unwrap();
    cluster.runs(job, Duration::from_secs(30)).await;
    tokio::time::sleep(Duration::from_millis(500)).await;

    assert!(!slurm.checkpoint(&of, &stamp("0B/Save/1")).await.unwrap());
    until("it has saved", Duration::from_secs(20), || async {
        slurm.checkpoint(&of, &stamp("0B/Save/1")).await.unwrap()
    })
    .await;
    slurm.set_notice(&of, &WorkloadNotice::GoesOn, &stamp("0B/Withdraw/1")).await.unwrap();
    let seen = slurm.observe(&of, &stamp("look")).await.unwrap().unwrap();
    assert!(!seen.checkpointed, "a saved checkpoint counts only for its request");
    cluster.says(&["scancel", &job.to_string()]);
}
