//! Removals: exactly the found object, with its data; a removal is complete when the object is gone.

use super::{
    server::{World, world},
    steps::{CLUSTER, Stage, namespace, onboarding},
    survey::found,
};
use engine::{ActionError, Class};
use serde_json::json;
use std::path::Path;
use workflows::platform::*;

fn thing(kind: &str, name: &str) -> TenantResource {
    TenantResource::new("kubernetes", CLUSTER, kind, name)
}

async fn look(stage: &Stage, thing: &TenantResource, eyes: Observer) -> Option<ObservedResource> {
    stage.on.tenant_resources.read_resource(thing, eyes, &stage.stamp("look", 100)).await.unwrap()
}

/// S57. Deleted is not gone: a terminating namespace is visible to every account, with its blockers, and no finalizer is removed.
/// Once an operator removes the finalizer, it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminating_namespace_still_exists_and_names_its_finalizers() {
    let Some(world) = world().await else { return };
    let stage = Stage::new(&world).await;
    let pairs: Vec<_> = onboarding("going", 1).into_iter().take(1).collect();
    stage.onboard(&pairs).await;
    let name = namespace("going");
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "held", "finalizers": ["storage.example/volume"] },
    });
    world.post(&format!("/api/v1/namespaces/{name}/configmaps"), held).await;
    let space = thing("Namespace", &name);
    let uid = look(&stage, &space, Observer::Platform).await.unwrap().uid;
    let removal = RemoveThing { thing: space.clone(), tenant: "going".into(), uid };

    let asked = stage.once(&removal, "removal", false).await.unwrap_err();
    assert_eq!(asked.code, codes::TERMINATING, "{asked}");
    world
        .until(|| async {
            let seen = look(&stage, &space, Observer::Verifier).await.unwrap();
            assert!(seen.terminating, "{seen:?}");
            seen.text("held").is_some_and(|held| held.contains("storage.example/volume"))
        })
        .await;
    let asked = stage.once(&removal, "removal", false).await.unwrap_err();
    assert!(asked.message.contains("storage.example/volume"), "{asked}");
    let stuck = stage.once(&DiagnoseRemoval { thing: space.clone() }, "diagnosis", false).await.unwrap_err();
    assert!(stuck.code == codes::STUCK && stuck.message.contains("NamespaceFinalizersRemaining"), "{stuck}");
    let gone = VerifyAbsent { things: vec![space.clone()] };
    assert_eq!(stage.once(&gone, "verify", false).await.unwrap_err().code, codes::REMAINS);
    // With the webhook's guard, which ends with its namespace.
    let left = [format!("Namespace/{name}"), format!("ValidatingAdmissionPolicy/{name}")];
    assert_eq!(found(&stage, "going", Observer::Verifier).await.unwrap(), left);

    let path = format!("/api/v1/namespaces/{name}/configmaps/held");
    world.merge(&path, json!({ "metadata": { "finalizers": null } })).await;
    stage.done(&removal, "removal", false).await;
    stage.done(&gone, "verify", false).await;
    assert_eq!(found(&stage, "going", Observer::Verifier).await.unwrap(), [""; 0]);
}

/// An object that was created again under the same name since the survey is another one, and stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_deletes_only_the_identity_that_was_found() {
    let Some(world) = world().await else { return };
    let stage = Stage::new(&world).await;
    let pairs: Vec<_> =
        onboarding("twice", 1).into_iter().filter(|one| ["namespace", "quota"].contains(&one.step)).collect();
    stage.onboard(&pairs).await;
    let quota = thing("ResourceQuota", &format!("{}/tenure", namespace("twice")));
    let first = look(&stage, &quota, Observer::Platform).await.unwrap();
    world.delete(&format!("/api/v1/namespaces/{}/resourcequotas/tenure", namespace("twice"))).await;
    stage.done(pairs[1].act.as_ref(), "quota-again", false).await;
    let second = look(&stage, &quota, Observer::Platform).await.unwrap();
    assert_ne!(first.uid, second.uid);

    let stamp = stage.stamp("removal", 100);
    let error: ActionError = stage.on.tenant_resources.remove(&quota, &first.uid, &stamp).await.unwrap_err();

    assert_eq!((error.code.as_str(), error.class), (codes::OBJECT_CHANGED, Class::Transient));
    assert_eq!(look(&stage, &quota, Observer::Verifier).await, Some(second.clone()));
    stage.on.tenant_resources.remove(&quota, &second.uid, &stamp.as_dry_run()).await.unwrap();
    assert_eq!(look(&stage, &quota, Observer::Verifier).await, Some(second.clone()), "only a dry run");
    stage.on.tenant_resources.remove(&quota, &second.uid, &stamp).await.unwrap();
    assert_eq!(look(&stage, &quota, Observer::Verifier).await, None);
    stage.roll_back(&pairs).await;
}

/// A volume in a folder of this machine, bound to a tenant's claim, with data in it.
async fn volume(world: &World, tenant: &str, name: &str, policy: &str, folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    std::fs::write(folder.join("weights"), "of the tenant").unwrap();
    let (space, size) = (namespace(tenant), json!({ "storage": "1Gi" }));
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": {
            "capacity": size, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "persistentVolumeReclaimPolicy": policy, "hostPath": { "path": folder },
            "claimRef": { "namespace": space, "name": name },
        },
    });
    world.post("/api/v1/persistentvolumes", volume).await;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": name,
            "resources": { "requests": size },
        },
    });
    world.post(&format!("/api/v1/namespaces/{space}/persistentvolumeclaims"), claim).await;
    let path = format!("/api/v1/persistentvolumes/{name}");
    world.until(|| async { world.get(&path).await.unwrap()["status"]["phase"] == "Bound" }).await;
}

/// A volume has no label and outlives its namespace. Its driver deletes its data, and then it is gone. A volume that would leave
/// its data is refused before its claim is touched, and is also found after its namespace has gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_removed_with_its_data_and_one_that_keeps_data_is_refused() {
    let Some(world) = world().await else { return };
    let stage = Stage::new(&world).await;
    let pairs: Vec<_> = onboarding("vols", 1).into_iter().take(1).collect();
    stage.onboard(&pairs).await;
    let folder = tempfile::Builder::new().prefix("tenure-volumes-").tempdir_in("/tmp").unwrap();
    let [goes, stays] = ["goes", "stays"].map(|name| folder.path().join(name));
    volume(&world, "vols", "vols-goes", "Delete", &goes).await;
    volume(&world, "vols", "vols-stays", "Retain", &stays).await;
    let [space, guard] =
        ["Namespace", "ValidatingAdmissionPolicy"].map(|kind| format!("{kind}/{}", namespace("vols")));
    let both = ["PersistentVolume/vols-goes", "PersistentVolume/vols-stays"];
    let all = [space.as_str(), both[0], both[1], guard.as_str()];
    assert_eq!(found(&stage, "vols", Observer::Verifier).await.unwrap(), all);
    let mut removals = Vec::new();
    for name in ["vols-goes", "vols-stays"] {
        let thing = thing("PersistentVolume", name);
        let uid = look(&stage, &thing, Observer::Platform).await.unwrap().uid;
        removals.push(RemoveThing { thing, tenant: "vols".into(), uid });
    }

    stage.done(&removals[0], "goes", false).await;
    assert!(!goes.exists(), "its data remains");
    let error = stage.once(&removals[1], "stays", false).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.class), (codes::REFUSED, Class::Permanent));
    let (says, at) = (error.message.as_str(), stays.display().to_string());
    assert!(says.contains("persistentVolumeReclaimPolicy \"Retain\"") && says.contains(&at), "{says}");
    let claim = format!("/api/v1/namespaces/{}/persistentvolumeclaims/vols-stays", namespace("vols"));
    assert!(world.get(&claim).await.unwrap()["metadata"]["deletionTimestamp"].is_null());

    stage.roll_back(&pairs).await;
    assert_eq!(found(&stage, "vols", Observer::Verifier).await.unwrap(), [both[1]]);
    assert!(stays.join("weights").exists());
    let policy = json!({ "spec": { "persistentVolumeReclaimPolicy": "Delete" } });
    world.merge("/api/v1/persistentvolumes/vols-stays", policy).await;
    stage.done(&removals[1], "stays", false).await;
    assert!(!stays.exists(), "its data remains");
    assert_eq!(found(&stage, "vols", Observer::Verifier).await.unwrap(), [""; 0]);
}
