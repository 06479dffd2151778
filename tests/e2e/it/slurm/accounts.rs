//! Accounts, and the limits of their workspaces.

use super::cluster::{Cluster, GPU, gpus, repeated, sleeper, stamp, until, workload};
use engine::Class;
use serde_json::{Value, json};
use std::{fs, time::Duration};
use tokio::task::JoinSet;
use workflows::platform::{Associations, CallMetadata, FieldSwap, FoundObject, Slurm, codes};

fn to(from: Value, to: &Associations) -> FieldSwap {
    FieldSwap { field: "associations".into(), from, to: json!(to) }
}

fn now(found: &FoundObject) -> Value {
    found.spec["associations"].clone()
}

#[tokio::test]
async fn an_account_is_created_once_with_its_workspaces_and_read_back() {
    let Some(cluster) = Cluster::shared() else { return };
    let (slurm, wanted) = (cluster.backend(), gpus(&[("prod", 8), ("dev", 2)]));
    let step = stamp("0A/CreatingAccount/1/Slot");

    let made = slurm.create_account("gpu", "t-once", "once", &wanted, &step).await.unwrap();
    let again = slurm.create_account("gpu", "t-once", "once", &wanted, &step).await.unwrap();
    let seen = slurm.account("gpu", "t-once", &step).await.unwrap().unwrap();

    assert_eq!((&made, &made), (&again, &seen));
    assert_eq!((made.tenant.as_str(), made.step.as_str()), ("once", step.step.as_str()));
    assert_eq!(now(&made), json!(wanted));
    assert_eq!(cluster.limits("t-once--prod"), format!("t-once--prod|{GPU}=8"));
    let other = slurm.create_account("gpu", "t-once", "other", &wanted, &stamp("other")).await.unwrap_err();
    assert_eq!((other.class, other.code.as_str()), (Class::Permanent, codes::OBJECT_FOREIGN));
    let differs = slurm.create_account("gpu", "t-once", "once", &gpus(&[("prod", 9)]), &stamp("later")).await;
    assert_eq!(differs.unwrap_err().code, codes::OBJECT_FOREIGN);
}

/// The limit is enforced by the running controller, also after the undo.
#[tokio::test]
async fn an_increased_quota_admits_the_next_job_and_its_undo_restores_the_limit() {
    let Some(cluster) = Cluster::shared() else { return };
    let (slurm, train) = (cluster.backend(), workload("grows", "train"));
    let made =
        slurm.create_account("gpu", "t-grows", "grows", &gpus(&[("prod", 1)]), &stamp("make")).await.unwrap();
    cluster.let_in("root", "t-grows--prod");
    let first = slurm.submit(&sleeper(&train, 1), &stamp("first")).await.unwrap();
    let second = slurm.submit(&sleeper(&train, 1), &stamp("second")).await.unwrap();
    until("the first runs", Duration::from_secs(20), || async { cluster.job_state(first) == "RUNNING" })
        .await;
    let why = cluster.says(&["squeue", "-h", "-j", &second.to_string(), "-o", "%T %r"]);
    assert!(why.starts_with("PENDING"), "{why}");

    let more = to(now(&made), &gpus(&[("prod", 2)]));
    let grown = slurm.compare_and_set("gpu", "t-grows", "grows", &more, &stamp("grow")).await.unwrap();
    assert_eq!(slurm.compare_and_set("gpu", "t-grows", "grows", &more, &stamp("grow")).await.unwrap(), grown);
    until("the second runs", Duration::from_secs(20), || async { cluster.job_state(second) == "RUNNING" })
        .await;

    let less = to(now(&grown), &gpus(&[("prod", 1)]));
    slurm.compare_and_set("gpu", "t-grows", "grows", &less, &stamp("grow/undo")).await.unwrap();
    assert_eq!(cluster.limits("t-grows--prod"), format!("t-grows--prod|{GPU}=1"));
    assert_eq!(cluster.job_state(second), "RUNNING", "a limit ends no running job");
    let third = slurm.submit(&sleeper(&train, 1), &stamp("third")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.job_state(third), "PENDING");
    cluster.says(&["scancel", &first.to_string(), &second.to_string(), &third.to_string()]);
}

#[tokio::test]
async fn a_limit_of_another_owner_is_not_overwritten() {
    let Some(cluster) = Cluster::shared() else { return };
    let slurm = cluster.backend();
    let (wanted, step) = (gpus(&[("prod", 4)]), stamp("make"));
    let made = repeated(|| slurm.create_account("gpu", "t-drift", "drift", &wanted, &step)).await;
    cluster.says(&[
        "sacctmgr",
        "-i",
        "modify",
        "account",
        "where",
        "name=t-drift--prod",
        "set",
        &format!("GrpTRES={GPU}=5"),
    ]);

    let refused = slurm
        .compare_and_set("gpu", "t-drift", "drift", &to(now(&made), &gpus(&[("prod", 6)])), &stamp("grow"))
        .await;

    let refused = refused.unwrap_err();
    assert_eq!((refused.class, refused.code.as_str()), (Class::Transient, codes::OBJECT_CHANGED));
    assert_eq!(cluster.limits("t-drift--prod"), format!("t-drift--prod|{GPU}=5"));
}

/// `sacctmgr` shows 64000 MiB as `62.50G`; and jobs have a different limit than resources.
#[tokio::test]
async fn memory_is_read_in_mebibytes_and_jobs_are_counted() {
    let Some(cluster) = Cluster::shared() else { return };
    let slurm = cluster.backend();
    let limits = [("mem", 64_000), ("jobs", 3), ("cpu", 16)].map(|(name, n)| (name.to_owned(), n));
    let wanted = Associations::from([("prod".to_owned(), limits.into())]);

    let made = slurm.create_account("gpu", "t-units", "units", &wanted, &stamp("make")).await.unwrap();

    assert_eq!(now(&made), json!(wanted));
    assert_eq!(cluster.limits("t-units--prod"), "t-units--prod|cpu=16,mem=62.50G");
    let none = Associations::new();
    let bare = slurm
        .compare_and_set("gpu", "t-units", "units", &to(now(&made), &none), &stamp("off"))
        .await
        .unwrap();
    assert_eq!(bare.spec, json!({}));
}

/// A resource that the cluster does not count cannot be limited, and the message names the setting.
#[tokio::test]
async fn a_resource_that_slurm_does_not_track_is_refused_with_the_remedy() {
    let Some(cluster) = Cluster::shared() else { return };
    let wanted = Associations::from([("prod".to_owned(), [("gres/gpu:b300".to_owned(), 1)].into())]);
    let refused =
        cluster.backend().create_account("gpu", "t-odd", "odd", &wanted, &stamp("make")).await.unwrap_err();
    assert_eq!((refused.class, refused.code.as_str()), (Class::Permanent, codes::REFUSED));
    assert!(refused.message.contains("AccountingStorageTRES"), "{refused}");
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let Some(cluster) = Cluster::shared() else { return };
    let (slurm, dry) = (cluster.backend(), stamp("make").as_dry_run());
    let made = slurm.create_account("gpu", "t-dry", "dry", &gpus(&[("prod", 4)]), &dry).await.unwrap();
    assert_eq!(now(&made), json!(gpus(&[("prod", 4)])));
    assert_eq!(slurm.account("gpu", "t-dry", &dry).await.unwrap(), None);
}

/// Rows of the accounting whose numbers are outside of their parent's.
const OUTSIDE: &str = "select count(*) from gpu_assoc_table child left join gpu_assoc_table parent \
    on parent.acct = child.parent_acct and parent.user = '' and parent.deleted = 0 \
    where child.deleted = 0 and child.parent_acct != '' \
    and (parent.lft is null or child.lft <= parent.lft or child.rgt >= parent.rgt)";

/// Half of the tenants use another path to the same settings, as an engine on another machine would; only the shared lock file separates
/// them. Without the lock some calls fail, and some accounts are created where the removal of their parent misses them.
#[tokio::test]
async fn concurrent_onboardings_keep_the_account_tree_consistent() {
    let Some(cluster) = Cluster::start(1) else { return };
    let elsewhere = cluster.path().join("elsewhere.conf");
    fs::copy(cluster.conf(), &elsewhere).unwrap();
    let mut coming = JoinSet::new();
    for n in 0..6 {
        let slurm = if n % 2 == 0 { cluster.backend() } else { cluster.with(&json!({ "conf": elsewhere })) };
        coming.spawn(async move {
            let patient = CallMetadata { deadline: Duration::from_secs(90), ..stamp("make") };
            let (account, tenant) = (format!("t-many{n}"), format!("many{n}"));
            slurm.create_account("gpu", &account, &tenant, &gpus(&[("prod", 1)]), &patient).await
        });
    }
    for made in coming.join_all().await {
        made.unwrap();
    }
    let socket = cluster.path().join("mysql/m.sock").display().to_string();
    let outside = cluster.says(&[
        "mariadb",
        "--no-defaults",
        "-uroot",
        "-S",
        &socket,
        "-N",
        "accounting",
        "-e",
        OUTSIDE,
    ]);
    assert_eq!(outside, "0");
}
