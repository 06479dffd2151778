//! The objects of an onboarding, and that its rollback leaves nothing.

use super::{
    queues::Controller,
    server::{Snapshot, differences, world},
    steps::{CLASS, NODE, Stage, namespace, onboarding},
};
use serde_json::{Value, json};
use workflows::platform::*;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/kubernetes-onboarding.json");

/// Returns the created or changed objects, without fields that differ from run to run.
fn made(before: &Snapshot, after: &Snapshot, tenant: &str) -> Value {
    let mut made = serde_json::Map::new();
    for (key, object) in after.iter().filter(|(key, object)| before.get(*key) != Some(object)) {
        // The control plane's own, in every namespace.
        if ["serviceaccounts", "secrets", "configmaps"]
            .iter()
            .any(|kind| key.starts_with(&format!("/api/v1/{kind}")))
        {
            continue;
        }
        let mut object = object.clone();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|field, _| ["labels", "annotations", "finalizers"].contains(&field.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            for key in ["tenure.dev/step", "tenure.dev/calls"] {
                if annotations.contains_key(key) {
                    annotations.insert(key.into(), json!("…"));
                }
            }
        }
        object.as_object_mut().unwrap().remove("status");
        made.insert(
            key.replace(tenant, "TENANT"),
            serde_json::from_str(&object.to_string().replace(tenant, "TENANT")).unwrap(),
        );
    }
    Value::Object(made)
}

/// S11. A rollback removes everything but the spent epoch of the node, which stays so that a late claim is refused.
/// `BLESS=1` writes the golden objects.
#[tokio::test(flavor = "multi_thread")]
async fn an_onboarding_creates_exactly_the_golden_objects_and_a_rollback_leaves_none() {
    let Some(world) = world().await else { return };
    let _kueue = Controller::beside(&world);
    world.node(NODE).await;
    let stage = Stage::new(&world).await;
    let epoch = free_epoch(&world).await;
    let (before, pairs) = (world.snapshot().await, onboarding("golden", epoch));

    stage.onboard(&pairs).await;
    // The controllers have finished once the quota has a status.
    let quota = format!("/api/v1/namespaces/{}/resourcequotas/tenure", namespace("golden"));
    world
        .until(|| async { world.get(&quota).await.is_some_and(|quota| quota["status"]["hard"].is_object()) })
        .await;
    let mut after = world.snapshot().await;
    after.extend([world.class(CLASS).await.unwrap()]);
    let seen = made(&before, &after, "golden");
    // A repeat with the same keys changes nothing.
    let once = world.snapshot().await;
    stage.onboard(&pairs).await;
    assert_eq!(differences(&once, &world.snapshot().await), [""; 0]);
    stage.roll_back(&pairs).await;
    stage.roll_back(&pairs).await;

    let left = differences(&before, &world.snapshot().await);
    assert_eq!(left.len(), 1, "{left:#?}");
    assert!(left[0].contains("spent-epoch") && left[0].contains(NODE), "{left:#?}");
    let mut seen = seen;
    if let Some(epoch) = seen.pointer_mut(&format!("/~1api~1v1~1nodes ~1{NODE}/metadata/annotations")) {
        epoch["tenure.dev/owner-epoch"] = json!("…");
        epoch.as_object_mut().unwrap().remove("tenure.dev/spent-epoch");
    }
    seen.sort_all_objects();
    let text = format!("{}\n", serde_json::to_string_pretty(&seen).unwrap());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(GOLDEN, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(GOLDEN).unwrap_or_default(), "run the test with BLESS=1");
}

/// The first owner epoch that no earlier test has spent.
pub async fn free_epoch(world: &super::server::World) -> u64 {
    let node = world.get(&format!("/api/v1/nodes/{NODE}")).await.unwrap();
    let spent = node["metadata"]["annotations"]["tenure.dev/spent-epoch"].as_str();
    spent.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) + 1
}

/// A limit is read, changed, refused when it has changed since, and restored.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_changed_only_if_it_is_unchanged_since_it_was_read() {
    let Some(world) = world().await else { return };
    world.node(NODE).await;
    let stage = Stage::new(&world).await;
    let epoch = free_epoch(&world).await;
    let (before, pairs) = (world.snapshot().await, onboarding("limits", epoch));
    stage.onboard(&pairs).await;
    let of = LimitNames {
        cluster: super::steps::CLUSTER.into(),
        tenant: "limits".into(),
        workspace: super::steps::WORKSPACE.into(),
        cohort: Some("prod/gpu/H100".into()),
        queue: Some("H100".into()),
        hard: Some("requests.nvidia.com/gpu".into()),
        association: None,
    };
    let read = || async { read_limits(&stage.on, &of, &stage.stamp("reading", 100)).await.unwrap() };
    let first = read().await;
    assert_eq!((first.cohort, first.hard), (Some(8), Some(8)));
    let eight = first.queue.clone().unwrap();
    let twelve = FlavorQuota { nominal: 12, ..eight.clone() };

    let queue = ChangeQueueQuota { of: of.clone(), from: Some(eight), to: Some(twelve.clone()) };
    let hard = ChangeResourceQuota { of: of.clone(), from: Some(8), to: Some(12) };
    let cohort = ChangeCohortQuota { of: of.clone(), from: Some(8), to: Some(12) };
    let labels = ChangeNamespaceLabels {
        cluster: of.cluster.clone(),
        tenant: of.tenant.clone(),
        workspace: of.workspace.clone(),
        from: [("class", "batch"), ("preemption", "allowed"), ("priority", "100")]
            .map(|(k, v)| (k.into(), v.into()))
            .into(),
        to: [("class".into(), "serving".into())].into(),
        priority_class: None,
    };
    stage.done(&queue, "change-queue", false).await;
    stage.done(&hard, "change-hard", false).await;
    stage.done(&cohort, "change-cohort", false).await;
    stage.done(&labels, "change-labels", false).await;
    let changed = read().await;
    assert_eq!((changed.cohort, changed.hard, changed.queue), (Some(12), Some(12), Some(twelve)));
    let path = format!("/api/v1/namespaces/{}", namespace("limits"));
    let namespace = world.get(&path).await.unwrap();
    assert_eq!(namespace["metadata"]["labels"]["class"], "serving");
    assert!(
        namespace["metadata"]["labels"]["priority"].is_null(),
        "a label that is no longer requested is gone"
    );

    let late = ChangeResourceQuota { of: of.clone(), from: Some(8), to: Some(99) };
    assert_eq!(stage.once(&late, "change-late", false).await.unwrap_err().code, codes::QUOTA_DRIFTED);
    stage.done(&RestoreNamespaceLabels { change: labels }, "change-labels", true).await;
    stage.done(&RestoreCohortQuota { change: cohort }, "change-cohort", true).await;
    stage.done(&RestoreResourceQuota { change: hard }, "change-hard", true).await;
    stage.done(&RestoreQueueQuota { change: queue }, "change-queue", true).await;
    assert_eq!(read().await, first);
    stage.roll_back(&pairs).await;
    assert_eq!(differences(&before, &world.snapshot().await).len(), 1);
}

/// S57. A finalizer that no controller removes holds a namespace. The wait names it, removes nothing by itself, and ends once
/// an operator has removed it.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_stays_terminating_names_its_finalizers() {
    let Some(world) = world().await else { return };
    let stage = Stage::new(&world).await;
    let pairs: Vec<_> = onboarding("stuck", 1).into_iter().take(1).collect();
    let before = world.snapshot().await;
    stage.onboard(&pairs).await;
    let name = namespace("stuck");
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "held", "finalizers": ["storage.example/volume"] },
    });
    world.post(&format!("/api/v1/namespaces/{name}/configmaps"), held).await;
    let undo = pairs[0].undo.as_ref();

    let mut said = String::new();
    for _ in 0..100 {
        let error = stage.once(undo, "namespace", true).await.unwrap_err();
        assert_eq!(error.code, codes::TERMINATING, "{error}");
        assert!(matches!(error.class, engine::Class::Pending { .. }));
        said = error.message;
        if said.contains("storage.example/volume") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(
        said.contains("NamespaceFinalizersRemaining") && said.contains("storage.example/volume"),
        "{said}"
    );
    // A terminating namespace accepts no new object, which is also a wait with the same text.
    let quota = &onboarding("stuck", 1)[5];
    let error = stage.once(quota.act.as_ref(), "quota", false).await.unwrap_err();
    assert_eq!(error.code, codes::TERMINATING, "{error}");
    let again = stage.once(pairs[0].act.as_ref(), "namespace-again", false).await.unwrap_err();
    assert!(again.code == codes::TERMINATING && again.message.contains("storage.example/volume"), "{again}");

    let path = format!("/api/v1/namespaces/{name}/configmaps/held");
    world.merge(&path, json!({ "metadata": { "finalizers": null } })).await;
    stage.done(undo, "namespace", true).await;
    assert_eq!(differences(&before, &world.snapshot().await), [""; 0]);
}

/// A queue with admitted work stays, and the wait names Kueue's finalizer.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_in_use_stays_until_its_workloads_have_ended() {
    let Some(world) = world().await else { return };
    let kueue = Controller::beside(&world);
    let stage = Stage::new(&world).await;
    let all = onboarding("busy", 1);
    let pairs: Vec<_> = all.into_iter().filter(|pair| ["namespace", "queue"].contains(&pair.step)).collect();
    let before = world.snapshot().await;
    stage.onboard(&pairs).await;
    kueue.hold(true);
    let path = format!("/apis/kueue.x-k8s.io/v1beta1/clusterqueues/{}", namespace("busy"));
    world.until(|| async { world.get(&path).await.unwrap()["metadata"]["finalizers"].is_array() }).await;

    let error = stage.once(pairs[1].undo.as_ref(), "queue", true).await.unwrap_err();
    assert!(error.code == codes::TERMINATING && error.message.contains(super::queues::IN_USE), "{error}");

    kueue.hold(false);
    stage.roll_back(&pairs).await;
    assert_eq!(differences(&before, &world.snapshot().await), [""; 0]);
}

/// An API server of 1.20 has no admission policies: the error names this and a remedy, and no guard is silently
/// skipped.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_admission_policies_is_reported() {
    let Some(world) = world().await else { return };
    let target = backends::kubernetes::KubernetesTarget { admission_webhook: None, ..world.target() };
    let stage = Stage::with(&target).await;
    let place = ObjectRef::new(super::steps::CLUSTER, ObjectKind::ValidatingAdmissionPolicy, "t-none--prod");

    let error = stage.on.kubernetes.read(&place, &stage.stamp("look", 1)).await.unwrap_err();
    assert_eq!(error.code, codes::UNSUPPORTED);
    assert!(
        error.message.contains("1.30") && error.message.contains("validatingadmissionpolicies"),
        "{error}"
    );
}
