//! Other writers to the same cluster.

use super::{
    server::{differences, world},
    steps::{CLUSTER, Pair, Stage, namespace, onboarding},
};
use engine::Class;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use tests::kit::proxy::by_method;
use workflows::platform::*;

fn some(tenant: &str, steps: &[&str]) -> Vec<Pair> {
    onboarding(tenant, 1).into_iter().filter(|pair| steps.contains(&pair.step)).collect()
}

fn quota(tenant: &str) -> (ObjectRef, String) {
    let name = namespace(tenant);
    let path = format!("/api/v1/namespaces/{name}/resourcequotas/tenure");
    (ObjectRef::within(CLUSTER, ObjectKind::ResourceQuota, &name, "tenure"), path)
}

/// Returns the swap of the GPUs in a quota as found.
fn gpus(found: &FoundObject, to: u64) -> FieldSwap {
    let from = found.spec["hard"].clone();
    let mut hard = from.clone();
    hard["requests.nvidia.com/gpu"] = json!(to);
    FieldSwap { field: "hard".into(), from, to: hard }
}

/// A field of another manager is never taken back: the refusal names the manager and the field, so that the owners can
/// agree.
#[tokio::test(flavor = "multi_thread")]
async fn another_field_manager_is_named_and_never_overridden() {
    let Some(world) = world().await else { return };
    let (stage, before) = (Stage::new(&world).await, world.snapshot().await);
    let pairs = some("foreign", &["namespace", "quota"]);
    stage.onboard(&pairs).await;
    let (place, path) = quota("foreign");
    let theirs = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "tenure" },
        "spec": { "hard": { "requests.nvidia.com/gpu": "64" } },
    });
    world.apply(&path, theirs).await;

    let stamp = stage.stamp("change", 100);
    let found = stage.on.kubernetes.read(&place, &stamp).await.unwrap().unwrap();
    assert_eq!(found.spec["hard"]["requests.nvidia.com/gpu"], 64, "the actual value is read");
    let error =
        stage.on.kubernetes.compare_and_set(&place, "foreign", &gpus(&found, 8), &stamp).await.unwrap_err();

    assert_eq!((error.code.as_str(), error.class), (codes::QUOTA_DRIFTED, Class::Permanent));
    assert!(error.message.contains("argocd") && error.message.contains("requests.nvidia.com/gpu"), "{error}");
    assert_eq!(world.get(&path).await.unwrap()["spec"]["hard"]["requests.nvidia.com/gpu"], "64");
    // The creating step finds its object changed by another manager, and names it.
    let again = stage.stamp("another", 100);
    let manifest =
        Manifest { place, tenant: "foreign".into(), spec: json!({ "hard": super::steps::hard() }) };
    let error = stage.on.kubernetes.apply(&manifest, &again).await.unwrap_err();
    assert!(error.code == codes::OBJECT_FOREIGN && error.message.contains("argocd"), "{error}");
    stage.roll_back(&pairs).await;
    assert_eq!(differences(&before, &world.snapshot().await), [""; 0]);
}

/// Another manager sets the field between our read and our write. The server refuses the write (409), and the other value stays. After
/// the next read the change is refused because of the other owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_concurrent_change_by_another_field_manager_is_not_overwritten() {
    let Some(world) = world().await else { return };
    let before = world.snapshot().await;
    let (proxy, target) = world.proxied(by_method).await;
    let stage = Stage::with(&target).await;
    let pairs = some("moment", &["namespace", "quota"]);
    stage.onboard(&pairs).await;
    let (place, path) = quota("moment");
    let theirs = json!({ "spec": { "hard": { "requests.nvidia.com/gpu": "64" } } });
    let stamp = stage.stamp("change", 100);
    let found = stage.on.kubernetes.read(&place, &stamp).await.unwrap().unwrap();

    let held = proxy.hold(|asked| asked.method == "PATCH" && asked.target.contains("resourcequotas/tenure"));
    let swap = gpus(&found, 8);
    let meanwhile = held.after(world.merge(&path, theirs));
    let (ours, meanwhile) =
        tokio::join!(stage.on.kubernetes.compare_and_set(&place, "moment", &swap, &stamp), meanwhile);

    meanwhile.unwrap();
    let error = ours.unwrap_err();
    assert_eq!((error.code.as_str(), error.class), (codes::OBJECT_CHANGED, Class::Transient), "{error}");
    assert_eq!(world.get(&path).await.unwrap()["spec"]["hard"]["requests.nvidia.com/gpu"], "64");
    stage.roll_back(&pairs).await;
    assert_eq!(differences(&before, &world.snapshot().await), [""; 0]);
}

/// An object of another manager under our name is neither adopted nor removed.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_another_owner_is_not_changed() {
    let Some(world) = world().await else { return };
    let stage = Stage::new(&world).await;
    let name = namespace("theirs");
    let theirs = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    world.post("/api/v1/namespaces?fieldManager=kubectl-create", theirs).await;
    let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
    world
        .until(|| async { world.get(&account).await.is_some_and(|account| account["secrets"].is_array()) })
        .await;
    let before = world.snapshot().await;
    let pairs = some("theirs", &["namespace"]);

    let error = stage.once(pairs[0].act.as_ref(), "namespace", false).await.unwrap_err();
    assert!(error.code == codes::OBJECT_FOREIGN && error.message.contains("kubectl-create"), "{error}");
    stage.done(pairs[0].undo.as_ref(), "namespace", true).await;

    assert_eq!(differences(&before, &world.snapshot().await), [""; 0]);
    world.delete(&format!("/api/v1/namespaces/{name}")).await;
}

/// 409: an object that changes all the time is read again, and the change succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_changes_under_a_write_is_read_again() {
    let Some(world) = world().await else { return };
    let (stage, before) = (Stage::new(&world).await, world.snapshot().await);
    let pairs = some("restless", &["namespace", "quota"]);
    stage.onboard(&pairs).await;
    let (place, path) = quota("restless");
    let stop = AtomicBool::new(false);
    let writing = async {
        let mut count = 0_u32;
        while !stop.load(Ordering::SeqCst) {
            count += 1;
            let noise =
                json!({ "metadata": { "annotations": { "noise.example/count": count.to_string() } } });
            world.merge(&path, noise).await;
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        }
        count
    };
    let changing = async {
        let mut refused = 0;
        for amount in 9..29 {
            let stamp = stage.stamp(&format!("change-{amount}"), 100);
            loop {
                let found = stage.on.kubernetes.read(&place, &stamp).await.unwrap().unwrap();
                match stage
                    .on
                    .kubernetes
                    .compare_and_set(&place, "restless", &gpus(&found, amount), &stamp)
                    .await
                {
                    Ok(changed) => {
                        assert_eq!(changed.spec["hard"]["requests.nvidia.com/gpu"], amount);
                        break;
                    }
                    Err(error) => {
                        assert_eq!(
                            (error.code.as_str(), error.class),
                            (codes::OBJECT_CHANGED, Class::Transient)
                        );
                        refused += 1;
                    }
                }
            }
        }
        stop.store(true, Ordering::SeqCst);
        refused
    };
    let (written, refused) = tokio::join!(writing, changing);

    println!("{written} writes by others; given up {refused} times and tried again");
    assert!(written > 5);
    stage.roll_back(&pairs).await;
    assert_eq!(differences(&before, &world.snapshot().await), [""; 0]);
}

/// A deletion names the found identity, so that a later object of that name is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_object_is_not_adopted() {
    let Some(world) = world().await else { return };
    let (stage, before) = (Stage::new(&world).await, world.snapshot().await);
    let pairs = some("again", &["namespace", "quota"]);
    stage.onboard(&pairs).await;
    let (place, path) = quota("again");
    let stamp = stage.stamp("removal", 100);
    let first = stage.on.kubernetes.read(&place, &stamp).await.unwrap().unwrap();
    world.delete(&path).await;
    stage.done(pairs[1].act.as_ref(), "quota-again", false).await;
    let second = stage.on.kubernetes.read(&place, &stamp).await.unwrap().unwrap();
    assert_ne!(first.uid, second.uid);

    let error = stage.on.kubernetes.delete(&place, &first.uid, &stamp).await.unwrap_err();

    assert_eq!((error.code.as_str(), error.class), (codes::OBJECT_CHANGED, Class::Transient));
    assert_eq!(stage.on.kubernetes.read(&place, &stamp).await.unwrap().unwrap().uid, second.uid);
    // The undo of the first step finds the second's object, and keeps it.
    stage.done(pairs[1].undo.as_ref(), "quota", true).await;
    assert!(world.get(&path).await.is_some());
    stage.done(pairs[1].undo.as_ref(), "quota-again", true).await;
    stage.done(pairs[0].undo.as_ref(), "namespace", true).await;
    assert_eq!(differences(&before, &world.snapshot().await), [""; 0]);
}

/// Of two workers on one step, every call of the one with the expired lease is refused; a call that took effect is answered
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_an_expired_lease_is_refused() {
    let Some(world) = world().await else { return };
    let (stage, before) = (Stage::new(&world).await, world.snapshot().await);
    let pairs = some("late", &["namespace", "quota"]);
    stage.onboard(&pairs).await;
    let (place, _) = quota("late");
    let on = &stage.on.kubernetes;
    let newer = stage.stamp("change", 7);
    let found = on.read(&place, &newer).await.unwrap().unwrap();
    let swap = gpus(&found, 9);
    on.compare_and_set(&place, "late", &swap, &newer).await.unwrap();

    let older = stage.stamp("change", 6);
    let now = on.read(&place, &older).await.unwrap().unwrap();
    let error = on.compare_and_set(&place, "late", &gpus(&now, 10), &older).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.class), (codes::FENCED, Class::Permanent));
    assert_eq!(on.delete(&place, &now.uid, &older).await.unwrap_err().code, codes::FENCED);
    // The same key again, after a later change by another caller: it is answered, and nothing changes.
    let other = stage.stamp("other", 1);
    on.compare_and_set(&place, "late", &gpus(&now, 11), &other).await.unwrap();
    let repeated = on.compare_and_set(&place, "late", &swap, &newer).await.unwrap();
    assert_eq!(repeated.spec["hard"]["requests.nvidia.com/gpu"], 11);
    stage.roll_back(&pairs).await;
    assert_eq!(differences(&before, &world.snapshot().await), [""; 0]);
}
