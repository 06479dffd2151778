//! All objects of a tenant in a cluster are found, whichever program made them, and incomplete searches are reported.

use super::{
    objects::free_epoch,
    queues::Controller,
    server::{World, world},
    steps::{CLUSTER, NODE, Stage, namespace, onboarding},
};
use backends::kubernetes::{KubernetesCluster, KubernetesTarget};
use engine::{ActionError, Class};
use serde_json::{Value, json};
use workflows::platform::*;

/// Returns the findings of a survey, as `Kind/name`.
pub async fn found(stage: &Stage, tenant: &str, eyes: Observer) -> Result<Vec<String>, ActionError> {
    let all =
        stage.on.tenant_resources.survey("kubernetes", tenant, eyes, &stage.stamp("survey", 100)).await?;
    assert!(all.iter().all(|seen| seen.tenant == tenant && seen.thing.place == CLUSTER), "{all:#?}");
    Ok(all.into_iter().map(|seen| format!("{}/{}", seen.thing.kind, seen.thing.name)).collect())
}

/// Returns an object with a tenant's label.
fn marked(kind: &str, version: &str, name: &str, tenant: &str) -> Value {
    json!({
        "apiVersion": version, "kind": kind,
        "metadata": { "name": name, "labels": { "tenure.dev/tenant": tenant } },
    })
}

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Every kind is searched, with the platform's account and with the verifier's, which find the same. Objects in the tenant's own
/// namespace are deleted with it; only those in the records are named.
#[tokio::test(flavor = "multi_thread")]
async fn every_resource_with_the_mark_of_a_tenant_is_found_even_if_no_step_created_it() {
    let Some(world) = world().await else { return };
    let _kueue = Controller::beside(&world);
    world.node(NODE).await;
    world.node("strange").await;
    let stage = Stage::new(&world).await;
    let pairs = onboarding("left", free_epoch(&world).await);
    stage.onboard(&pairs).await;
    world.post(ROLES, marked("ClusterRole", "rbac.authorization.k8s.io/v1", "left-extra", "left")).await;
    let mut class = marked("PriorityClass", "scheduling.k8s.io/v1", "left-extra", "left");
    class["value"] = json!(7);
    world.post(CLASSES, class).await;
    world.post(MAPS, marked("ConfigMap", "v1", "left-extra", "left")).await;
    world.post(MAPS, marked("ConfigMap", "v1", "others", "left-over")).await;
    world.post(SECRETS, marked("Secret", "v1", "left-extra", "left")).await;
    let inner = format!("/api/v1/namespaces/{}/configmaps", namespace("left"));
    world.post(&inner, marked("ConfigMap", "v1", "inner", "left")).await;
    let taint = json!({ "key": "tenure.dev/tenant", "value": "left", "effect": "NoSchedule" });
    world.merge("/api/v1/nodes/strange", json!({ "spec": { "taints": [taint] } })).await;

    let platform = found(&stage, "left", Observer::Platform).await.unwrap();
    let verifier = found(&stage, "left", Observer::Verifier).await.unwrap();

    assert_eq!(
        platform,
        [
            "ClusterQueue/t-left--prod",
            "ClusterRole.rbac.authorization.k8s.io/left-extra",
            "Cohort/t-left",
            "ConfigMap/default/left-extra",
            "LocalQueue/t-left--prod/gpus",
            "Namespace/t-left--prod",
            "NetworkPolicy/t-left--prod/default-deny",
            "Node/gpu-1",
            "Node/strange",
            "PriorityClass.scheduling.k8s.io/left-extra",
            "ResourceFlavor/t-left--h100",
            "ResourceQuota/t-left--prod/tenure",
            "RoleBinding/t-left--prod/tenant",
            // The webhook's guard, which replaces the policy.
            "ValidatingAdmissionPolicy/t-left--prod",
        ]
    );
    assert_eq!(platform, verifier);
    // The platform may not delete objects of other kinds: that is reported, and nothing is deleted.
    let map = TenantResource::new("kubernetes", CLUSTER, "ConfigMap", "default/left-extra");
    let stamp = stage.stamp("removal", 100);
    let seen =
        stage.on.tenant_resources.read_resource(&map, Observer::Platform, &stamp).await.unwrap().unwrap();
    let denied = stage.on.tenant_resources.remove(&map, &seen.uid, &stamp).await.unwrap_err();
    assert!(denied.code == codes::DENIED && denied.message.contains("configmaps"), "{denied}");

    for path in [ROLES, CLASSES, MAPS, SECRETS] {
        world.delete(&format!("{path}/left-extra")).await;
    }
    world.delete(&format!("{MAPS}/others")).await;
    world.delete("/api/v1/nodes/strange").await;
    stage.roll_back(&pairs).await;
    assert_eq!(found(&stage, "left", Observer::Verifier).await.unwrap(), [""; 0]);
}

/// Repeats the survey until it has the expected result: rights and discovery follow a change with a delay.
async fn comes_to(
    world: &World,
    stage: &Stage,
    eyes: Observer,
    wanted: impl Fn(&Result<Vec<String>, ActionError>) -> bool,
) -> Result<Vec<String>, ActionError> {
    let last = std::sync::Mutex::new(Ok(Vec::new()));
    let so = || async {
        let now = found(stage, "gaps", eyes).await;
        let so = wanted(&now);
        *last.lock().unwrap() = now;
        so
    };
    if tokio::time::timeout(std::time::Duration::from_secs(60), world.until(so)).await.is_err() {
        panic!("the survey stays {:?}", last.lock().unwrap());
    }
    last.into_inner().unwrap()
}

/// A kind without the right to list it, and a group whose server is down, may contain anything: the survey fails with their names
/// while they exist, whatever else it finds.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_cannot_be_listed_is_an_error_that_names_it() {
    let Some(world) = world().await else { return };
    let stage = Stage::new(&world).await;
    assert_eq!(found(&stage, "gaps", Observer::Platform).await.unwrap(), [""; 0]);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.org" },
        "spec": {
            "group": "example.org", "scope": "Cluster",
            "names": { "kind": "Widget", "plural": "widgets", "singular": "widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } } }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.post(definitions, definition).await;
    world.until(|| async { world.get("/apis/example.org/v1/widgets").await.is_some() }).await;
    world.post("/apis/example.org/v1/widgets", marked("Widget", "example.org/v1", "w", "gaps")).await;

    for eyes in [Observer::Platform, Observer::Verifier] {
        let error = comes_to(&world, &stage, eyes, Result::is_err).await.unwrap_err();
        assert_eq!((error.code.as_str(), error.class), (codes::DENIED, Class::Permanent), "{error}");
        assert!(error.message.contains("widgets.example.org"), "{error}");
    }
    let mut role = marked("ClusterRole", "rbac.authorization.k8s.io/v1", "survey-widgets", "nobody");
    role["metadata"]["labels"] = json!({ "tenure.dev/survey": "true" });
    role["rules"] = json!([{ "apiGroups": ["example.org"], "resources": ["widgets"], "verbs": ["list"] }]);
    world.post(ROLES, role).await;
    let seen = comes_to(&world, &stage, Observer::Verifier, Result::is_ok).await.unwrap();
    assert_eq!(seen, ["Widget.example.org/w"]);

    let dead = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": "v1.dead.example" },
        "spec": {
            "group": "dead.example", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "service": { "namespace": "default", "name": "nobody" }, "insecureSkipTLSVerify": true,
        },
    });
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    world.post(services, dead).await;
    let error = comes_to(&world, &stage, Observer::Platform, Result::is_err).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.class), (codes::UNAVAILABLE, Class::Transient), "{error}");
    assert!(error.message.contains("dead.example/v1"), "{error}");

    world.delete(&format!("{services}/v1.dead.example")).await;
    world.delete(&format!("{definitions}/widgets.example.org")).await;
    world.delete(&format!("{ROLES}/survey-widgets")).await;
    assert_eq!(comes_to(&world, &stage, Observer::Verifier, Result::is_ok).await.unwrap(), [""; 0]);
}

/// The account that removes objects does not verify the removal. Without a verifier nothing is verified, and an account that may
/// delete is no verifier.
#[tokio::test(flavor = "multi_thread")]
async fn only_credentials_without_delete_permission_verify() {
    let Some(world) = world().await else { return };
    let thing = TenantResource::new("kubernetes", CLUSTER, "Namespace", "t-gone--prod");
    for (verifier, says) in [(None, "set verifier_kubeconfig"), (Some("admin"), "may delete")] {
        let verifier_kubeconfig = verifier.map(|who| world.kubeconfig(who));
        let stage = Stage::with(&KubernetesTarget { verifier_kubeconfig, ..world.target() }).await;
        let stamp = stage.stamp("verify", 1);

        let look =
            stage.on.tenant_resources.read_resource(&thing, Observer::Verifier, &stamp).await.unwrap_err();
        let survey = found(&stage, "gone", Observer::Verifier).await.unwrap_err();

        assert_eq!((look.code.as_str(), survey.code.as_str()), (codes::REFUSED, codes::REFUSED));
        assert!(look.message.contains(says) && survey.message.contains(says), "{look} {survey}");
        assert_eq!(
            stage.on.tenant_resources.read_resource(&thing, Observer::Platform, &stamp).await.unwrap(),
            None
        );
    }
    let itself = KubernetesTarget { verifier_kubeconfig: Some(world.kubeconfig("tenure")), ..world.target() };
    assert!(KubernetesCluster::connect(&itself).await.is_err());
    let stage = Stage::new(&world).await;
    assert_eq!(
        stage
            .on
            .tenant_resources
            .read_resource(&thing, Observer::Verifier, &stage.stamp("verify", 1))
            .await
            .unwrap(),
        None
    );
}
