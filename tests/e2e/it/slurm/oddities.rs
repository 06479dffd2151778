//! Unexpected behaviour of Slurm 22.05: each case is reproduced, with the way in which the backend handles it.

use super::cluster::{Cluster, GPU, gpus, repeated, sleeper, stamp, until, workload};
use backends::slurm::NewJob;
use engine::Class;
use serde_json::json;
use std::{
    fs,
    time::{Duration, Instant},
};
use workflows::platform::{CallMetadata, Slurm, WorkloadRef, Workloads, codes};

#[tokio::test]
async fn the_newest_common_data_parser_is_used() {
    let Some(cluster) = Cluster::shared() else { return };
    // The server also offers v0.0.37, which is too old.
    assert_eq!(cluster.backend().data_parser().await.unwrap(), "v0.0.38");
}

/// The controller receives an association made over REST with user 4294967294, and refuses to reserve for it.
#[tokio::test]
async fn a_reservation_is_refused_for_an_account_created_over_rest_and_granted_for_ours() {
    let Some(cluster) = Cluster::shared() else { return };
    let token = cluster.token();
    let account = json!({ "accounts": [{ "name": "t-rest", "description": "d", "organization": "o" }] });
    let association = json!({ "associations": [{ "account": "t-rest", "cluster": "gpu", "parent_account": "root", "user": "" }] });
    cluster.rest("POST", "/slurmdb/v0.0.38/accounts/", Some(account), &token).await;
    let (status, _) = cluster.rest("POST", "/slurmdb/v0.0.38/associations/", Some(association), &token).await;
    assert_eq!(status, 200);
    let slurm = cluster.backend();
    slurm.create_account("gpu", "t-ours", "ours", &gpus(&[]), &stamp("make")).await.unwrap();

    let reserve = |account: &str| {
        let words = [format!("reservationname=r-{account}"), format!("accounts={account}")];
        let said = cluster.says(&[
            "scontrol",
            "create",
            &words[0],
            &words[1],
            "starttime=now",
            "duration=1",
            "nodes=gpu5",
            "flags=ignore_jobs",
        ]);
        cluster.says(&["scontrol", "delete", &words[0]]);
        said
    };
    let (theirs, ours) = (reserve("t-rest"), reserve("t-ours"));

    assert!(theirs.contains("Invalid account"), "Slurm has fixed this, and REST could be used: {theirs}");
    assert!(ours.contains("Reservation created"), "{ours}");
}

/// All three are HTTP 500; only the error numbers distinguish them.
#[tokio::test]
async fn an_invalid_token_an_unknown_account_and_an_unknown_job_have_different_errors() {
    let Some(cluster) = Cluster::shared() else { return };
    let token = cluster.token();
    for (path, token) in [
        ("/slurm/v0.0.38/job/999999", token.as_str()),
        ("/slurmdb/v0.0.38/account/nobody", &token),
        ("/slurm/v0.0.38/jobs", "none"),
        ("/slurmdb/v0.0.38/account/nobody", "none"),
    ] {
        assert_eq!(cluster.rest("GET", path, None, token).await.0, 500, "{path}");
    }
    let wrong = cluster.path().join("wrong.token");
    fs::write(&wrong, "none").unwrap();
    let denied = cluster.with(&json!({ "token_file": wrong, "tools_by": "token" }));
    let (slurm, of) = (cluster.backend(), workload("nobody", "none"));

    assert_eq!(slurm.account("gpu", "t-nobody", &stamp("look")).await.unwrap(), None);
    assert_eq!(slurm.observe(&of, &stamp("look")).await.unwrap(), None);
    let account = denied.account("gpu", "t-nobody", &stamp("look")).await.unwrap_err();
    let job = denied.observe(&of, &stamp("look")).await.unwrap_err();
    let made =
        denied.create_account("gpu", "t-nobody", "nobody", &gpus(&[]), &stamp("make")).await.unwrap_err();
    for error in [account, job, made] {
        assert_eq!((error.class, error.code.as_str()), (Class::Permanent, codes::DENIED), "{error}");
        assert!(!error.message.contains(&token), "a secret is in {error}");
    }
}

/// With the token, the tools need no munge; a wrong token is a denial there as well.
#[tokio::test]
async fn the_tools_can_use_the_token_instead_of_munge() {
    let Some(cluster) = Cluster::shared() else { return };
    let by_token = cluster.with(&json!({ "tools_by": "token" }));
    by_token.create_account("gpu", "t-token", "token", &gpus(&[]), &stamp("make")).await.unwrap();

    // The reads use a valid token, the tools an invalid one.
    let wrong = cluster.path().join("tools.token");
    fs::write(&wrong, "none").unwrap();
    let text = format!("export SLURM_JWT=$(cat {})\nexec /usr/bin/sacctmgr \"$@\"", wrong.display());
    let odd = cluster.with(&json!({ "sacctmgr": cluster.tool("sacctmgr-wrong", &text) }));
    let denied = odd.create_account("gpu", "t-none", "none", &gpus(&[]), &stamp("make")).await.unwrap_err();
    assert_eq!((denied.class, denied.code.as_str()), (Class::Permanent, codes::DENIED), "{denied}");
}

/// An update with an unknown body is HTTP 200, with the failure in the list of errors.
#[tokio::test]
async fn slurm_reports_success_for_an_update_that_it_does_not_understand() {
    let Some(cluster) = Cluster::shared() else { return };
    let wrapped = json!({ "job": { "comment": "x" } });
    let (status, body) = cluster.rest("POST", "/slurm/v0.0.38/job/1", Some(wrapped), &cluster.token()).await;
    assert_eq!(status, 200);
    assert!(!body["errors"].as_array().unwrap().is_empty(), "{body}");
}

/// Slurm has no idempotency keys: the comment is used as one.
#[tokio::test]
async fn a_job_submitted_again_with_the_same_key_is_the_same_job() {
    let Some(cluster) = Cluster::shared() else { return };
    let (slurm, of) = (cluster.backend(), workload("twice", "train"));
    slurm.create_account("gpu", "t-twice", "twice", &gpus(&[("prod", 4)]), &stamp("make")).await.unwrap();
    cluster.let_in("root", "t-twice--prod");

    let first = slurm.submit(&sleeper(&of, 1), &stamp("0A/Submit/1")).await.unwrap();
    let again = slurm.submit(&sleeper(&of, 1), &stamp("0A/Submit/1")).await.unwrap();
    let other = slurm.submit(&sleeper(&of, 1), &stamp("0B/Submit/1")).await.unwrap();

    assert_eq!(first, again);
    assert_ne!(first, other);
    cluster.says(&["scancel", "--account=t-twice--prod"]);
    let too_many = NewJob { account: "t-none".into(), ..sleeper(&of, 1) };
    let refused = slurm.submit(&too_many, &stamp("0C/Submit/1")).await.unwrap_err();
    assert_eq!((refused.class, refused.code.as_str()), (Class::Permanent, codes::REFUSED), "{refused}");
}

/// Slurm sets no `CUDA_VISIBLE_DEVICES` for files that simulate GPUs; it reports their number.
#[tokio::test]
async fn a_job_reports_how_many_gpus_it_has_and_not_which() {
    let Some(cluster) = Cluster::shared() else { return };
    let (slurm, of) = (cluster.backend(), workload("env", "train"));
    slurm.create_account("gpu", "t-env", "env", &gpus(&[("prod", 4)]), &stamp("make")).await.unwrap();
    cluster.let_in("root", "t-env--prod");
    let said = cluster.path().join("job.env");
    let script = format!("#!/bin/bash\nenv > {0}.part; mv {0}.part {0}\n", said.display());

    slurm.submit(&NewJob { script, ..sleeper(&of, 2) }, &stamp("0A/Env/1")).await.unwrap();

    until("the job has run", Duration::from_secs(30), || async { said.exists() }).await;
    let env = fs::read_to_string(&said).unwrap();
    assert!(env.contains("SLURM_GPUS_ON_NODE=2"), "{env}");
    assert!(!env.contains("CUDA_VISIBLE_DEVICES"), "Slurm now sets the variable: {env}");
}

/// A REST deletion of a missing account fails with a number that elsewhere means that nothing has changed.
#[tokio::test]
async fn a_rest_deletion_of_a_missing_resource_reports_no_change() {
    let Some(cluster) = Cluster::shared() else { return };
    let (_, body) = cluster.rest("DELETE", "/slurmdb/v0.0.38/account/t-never", None, &cluster.token()).await;
    assert_eq!(body["errors"][0]["error_number"], json!(1900), "{body}");
}

/// A deletion that names the cluster keeps the account's name; ours removes it too.
#[tokio::test]
async fn an_account_without_associations_counts_as_missing_and_is_created_again() {
    let Some(cluster) = Cluster::shared() else { return };
    let (slurm, wanted) = (cluster.backend(), gpus(&[("prod", 1)]));
    let make = stamp("first");
    let first = repeated(|| slurm.create_account("gpu", "t-husk", "husk", &wanted, &make)).await;
    cluster.says(&["sacctmgr", "-i", "delete", "account", "where", "name=t-husk", "cluster=gpu"]);
    assert!(cluster.says(&["sacctmgr", "-nP", "show", "account", "format=account"]).contains("t-husk"));

    // slurmrestd notices only during a request that its connection to slurmdbd is gone; an engine retries as well.
    let (look, make) = (stamp("look"), stamp("second"));
    assert_eq!(repeated(|| slurm.account("gpu", "t-husk", &look)).await, None);
    let second = repeated(|| slurm.create_account("gpu", "t-husk", "husk", &wanted, &make)).await;

    assert_ne!(first.uid, second.uid);
    assert_eq!(second.step, "second");
    let delete = stamp("delete");
    repeated(|| slurm.delete_account("gpu", "t-husk", &second, &delete)).await;
    assert!(!cluster.says(&["sacctmgr", "-nP", "show", "account", "format=account"]).contains("t-husk"));
}

fn children_with(conf: &str) -> usize {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
        let name = String::from_utf8_lossy(&read("comm")).trim().to_owned();
        ["sacctmgr", "scontrol", "scancel"].contains(&name.as_str())
            && String::from_utf8_lossy(&read("environ")).contains(conf)
    })
    .count()
}

/// `sacctmgr` waits for munge without limit. The call ends at its deadline with an unknown outcome, and leaves no child
/// process.
#[tokio::test]
async fn a_hanging_tool_is_killed_at_the_deadline_and_leaves_no_child() {
    let Some(cluster) = Cluster::start(1) else { return };
    let slurm = cluster.backend();
    slurm.account("gpu", "t-hang", &stamp("warm up")).await.unwrap();
    cluster.kill("munged");
    let began = Instant::now();

    let hurried = CallMetadata { deadline: Duration::from_secs(3), ..stamp("make") };
    // `slurmrestd` uses tokens and needs no munge, so the account is looked up and then created.
    let unknown =
        slurm.create_account("gpu", "t-hang", "hang", &gpus(&[("prod", 1)]), &hurried).await.unwrap_err();

    assert_eq!((unknown.class, unknown.code.as_str()), (Class::Unknown, codes::NO_ANSWER), "{unknown}");
    assert!(began.elapsed() < Duration::from_secs(5));
    let conf = cluster.conf().display().to_string();
    until("no tool is left", Duration::from_secs(3), || async { children_with(&conf) == 0 }).await;

    cluster.restart("munged");
    let made =
        slurm.create_account("gpu", "t-hang", "hang", &gpus(&[("prod", 1)]), &stamp("make")).await.unwrap();
    assert_eq!(made.tenant, "hang");
    assert_eq!(cluster.limits("t-hang--prod"), format!("t-hang--prod|{GPU}=1"));
}

/// Dropping the future cancels the call: the tool and its child processes end.
#[tokio::test]
async fn a_cancelled_call_kills_its_tool_and_its_children() {
    let Some(cluster) = Cluster::shared() else { return };
    let pids = cluster.path().join("slow.pids");
    let text = format!("sleep 300 & echo $$ $! >{0}.part; mv {0}.part {0}; wait", pids.display());
    let slow = cluster.with(&json!({ "sacctmgr": cluster.tool("sacctmgr-slow", &text) }));
    let call = tokio::spawn(async move {
        slow.create_account("gpu", "t-drop", "drop", &gpus(&[]), &stamp("make")).await.map(drop)
    });
    until("the tool runs", Duration::from_secs(10), || async { pids.exists() }).await;
    let pids: Vec<String> =
        fs::read_to_string(&pids).unwrap().split_whitespace().map(str::to_owned).collect();

    call.abort();

    let ended = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    until("both have ended", Duration::from_secs(5), || async { pids.iter().all(ended) }).await;
}

/// A requeued job is completing for a while before it waits: it counts as running until its nodes are free.
#[tokio::test]
async fn a_requeued_job_exists_until_it_has_left_its_nodes() {
    let Some(cluster) = Cluster::shared() else { return };
    let (slurm, of) = (cluster.backend(), workload("lingers", "train"));
    slurm.create_account("gpu", "t-lingers", "lingers", &gpus(&[("prod", 4)]), &stamp("make")).await.unwrap();
    cluster.let_in("root", "t-lingers--prod");
    // The job ignores the first signal, so Slurm needs a while to end it.
    let script = "#!/bin/bash\ntrap '' TERM CONT\nfor i in $(seq 6000); do sleep 0.1; done\n".to_owned();
    let job = slurm.submit(&NewJob { script, ..sleeper(&of, 2) }, &stamp("0A/Lingers/1")).await.unwrap();
    running(&slurm, &of).await;
    tokio::time::sleep(Duration::from_millis(500)).await;

    let seen = slurm.observe(&of, &stamp("look")).await.unwrap().unwrap();
    slurm.evict(&of, &seen.uid, &stamp("evict")).await.unwrap();
    let leaving = slurm.observe(&of, &stamp("look")).await.unwrap().unwrap();
    assert!(leaving.pods, "it was reported as gone while it was {}", cluster.job_state(job));

    until("it has left", Duration::from_secs(30), || async {
        !slurm.observe(&of, &stamp("look")).await.unwrap().unwrap().pods
    })
    .await;
    let held = slurm.observe(&of, &stamp("look")).await.unwrap().unwrap();
    assert!(!held.active && held.gpus.is_empty());
    cluster.says(&["scancel", &job.to_string()]);
}

async fn running(slurm: &impl Workloads, of: &WorkloadRef) {
    until("it runs", Duration::from_secs(30), || async {
        slurm.observe(of, &stamp("look")).await.unwrap().is_some_and(|seen| seen.pods)
    })
    .await;
}
