//! `slurmctld` acknowledges changes that it has not yet written: if it is killed then, it loses them.

use super::cluster::{Cluster, gpus, repeated, sleeper, stamp, until, workload};
use backends::slurm::NewJob;
use engine::ActionError;
use serde_json::json;
use std::time::Duration;
use workflows::platform::{GpuSet, Kubernetes, Ownership, Slurm as _, Workloads};

/// The controller is killed right after its answer and loses changes of the last seconds. They are repeated before Tenure returns: a
/// taken node is taken, a returned node is returned, and a released job starts.
#[tokio::test]
async fn an_acknowledged_change_survives_an_immediate_crash_of_the_controller() {
    let Some(cluster) = Cluster::start(1) else { return };
    let slurm = cluster.with(&json!({ "saves_within": "7s" }));
    let of = Ownership { tenant: Some("kept".to_owned()), owner_epoch: 1, cordoned: false };
    slurm.create_account("gpu", "t-kept", "kept", &gpus(&[("prod", 8)]), &stamp("make")).await.unwrap();
    cluster.let_in("root", "t-kept--prod");
    let reserved = || cluster.says(&["scontrol", "-o", "show", "reservation"]).contains("t-kept");

    let take = stamp("0A/Taking/1");
    let taken = killed_behind(&cluster, reserved, || slurm.take_node("gpu", "gpu0", &of, &take)).await;
    assert_eq!(taken, of);
    assert!(reserved(), "it was taken and is not reserved");

    let train = workload("kept", "train");
    let job = NewJob { reservation: "t-kept".into(), ..sleeper(&train, 8) };
    let job = slurm.submit(&job, &stamp("0B/Submit/1")).await.unwrap();
    cluster.says(&["scontrol", "hold", &job.to_string()]);
    tokio::time::sleep(Duration::from_secs(7)).await;
    let (release, nowhere) = (stamp("0C/Release/1"), GpuSet::new());
    let runs = || cluster.job_state(job) == "RUNNING";
    killed_behind(&cluster, runs, || slurm.start(&train, &nowhere, false, &release)).await;
    // Slurm restarts a job only two minutes after a failed launch, such as one that the controller has forgotten.
    until("the job runs", Duration::from_secs(60), || async { runs() }).await;
    cluster.says(&["scancel", &job.to_string()]);
    until("it has left", Duration::from_secs(20), || async { cluster.job_state(job).is_empty() }).await;
    tokio::time::sleep(Duration::from_secs(7)).await;

    let back = stamp("0D/Returning/1");
    let freed =
        killed_behind(&cluster, || !reserved(), || slurm.return_node("gpu", "gpu0", &of, &back)).await;
    assert_eq!(freed.tenant, None);
    assert!(!reserved(), "it was returned and is still reserved");
}

/// Makes the call with retries, and kills the controller as soon as it has taken effect; the controller is back 2 s
/// later.
async fn killed_behind<T, F: Future<Output = Result<T, ActionError>>>(
    cluster: &Cluster,
    done: impl Fn() -> bool,
    call: impl Fn() -> F,
) -> T {
    let killing = async {
        until("it took effect", Duration::from_secs(20), || async { done() }).await;
        cluster.kill("slurmctld");
        tokio::time::sleep(Duration::from_secs(2)).await;
        cluster.restart("slurmctld");
    };
    tokio::join!(repeated(call), killing).0
}
