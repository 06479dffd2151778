//! Limit ranges and priority classes, as an API server's admission applies them.

use super::{
    objects::free_epoch,
    server::{CLASSES, World, differences, world},
    steps::{CLASS, CLUSTER, NODE, Pair, Stage, WORKSPACE, namespace, onboarding},
};
use serde_json::{Value, json};
use workflows::{platform::*, tenancy::Tier};

/// Returns a namespace with its hard limits, after its priority class.
fn limited(tenant: &str) -> Vec<Pair> {
    let wanted = |pair: &Pair| ["namespace", "quota"].contains(&pair.step);
    onboarding(tenant, 1).into_iter().filter(wanted).collect()
}

/// Returns the result of admission for a dry-run pod.
async fn admitted(world: &World, tenant: &str, resources: Value, class: Option<&str>) -> (u16, Value) {
    let space = namespace(tenant);
    // A new namespace has neither its account nor the status of its quota yet.
    let [account, quota] = ["serviceaccounts/default", "resourcequotas/tenure"]
        .map(|one| format!("/api/v1/namespaces/{space}/{one}"));
    world.until(|| async { world.get(&account).await.is_some() }).await;
    world
        .until(|| async { world.get(&quota).await.is_some_and(|is| is["status"]["hard"].is_object()) })
        .await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "tried" },
        "spec": {
            "priorityClassName": class,
            "automountServiceAccountToken": false,
            "containers": [{ "name": "one", "image": "registry.example/acme/one", "resources": resources }],
        },
    });
    world.try_post(&format!("/api/v1/namespaces/{space}/pods?dryRun=All"), pod).await
}

fn range(tenant: &str) -> String {
    format!("/api/v1/namespaces/{}/limitranges/tenure", namespace(tenant))
}

/// S-122. A container without requests gets defaults and is held to them, and none is larger than the workspace.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_without_requests_is_counted_and_limited_by_the_defaults() {
    let Some(world) = world().await else { return };
    let stage = Stage::new(&world).await;
    let (before, pairs) = (world.snapshot().await, limited("ranged"));
    stage.onboard(&pairs).await;

    let (status, pod) = admitted(&world, "ranged", json!({}), None).await;
    assert_eq!(status, 201, "{pod}");
    let given = &pod["spec"]["containers"][0]["resources"];
    assert_eq!(given["requests"], json!({ "cpu": "1", "memory": "4294967296" }), "{given}");
    assert_eq!(given["limits"], json!({ "cpu": "1" }), "the quota counts only cores: {given}");

    let (status, refused) = admitted(&world, "ranged", json!({ "limits": { "cpu": "2001" } }), None).await;
    assert_eq!(status, 403, "{refused}");
    assert!(
        refused["message"].as_str().unwrap().contains("maximum cpu usage per Container is 2k"),
        "{refused}"
    );

    stage.roll_back(&pairs).await;
    assert_eq!(differences(&before, &world.snapshot().await), [""; 0]);
}

/// The container limit equals the workspace's size, also after its quota was raised, lowered and restored. The quota of a
/// workspace without a limit range is changed all the same.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_container_follows_the_quota() {
    let Some(world) = world().await else { return };
    let stage = Stage::new(&world).await;
    let (before, pairs) = (world.snapshot().await, limited("follows"));
    stage.onboard(&pairs).await;
    let of = LimitNames {
        cluster: CLUSTER.into(),
        tenant: "follows".into(),
        workspace: WORKSPACE.into(),
        hard: Some("requests.cpu".into()),
        ..LimitNames::default()
    };
    let largest = || async { world.get(&range("follows")).await.unwrap()["spec"]["limits"][0].clone() };
    let change = |from, to| ChangeResourceQuota { of: of.clone(), from: Some(from), to: Some(to) };

    stage.done(&change(2000, 3000), "raise", false).await;
    assert_eq!(largest().await["max"]["cpu"], "3k");
    stage.done(&change(3000, 0), "lower", false).await;
    let none = largest().await;
    assert_eq!((&none["max"]["cpu"], &none["default"]["cpu"]), (&json!("0"), &json!("0")), "{none}");
    stage.done(&RestoreResourceQuota { change: change(3000, 0) }, "lower", true).await;
    stage.done(&RestoreResourceQuota { change: change(2000, 3000) }, "raise", true).await;
    let again = largest().await;
    assert_eq!((&again["max"]["cpu"], &again["default"]["cpu"]), (&json!("2k"), &json!("1")), "{again}");

    // A setting of another manager is reported.
    let theirs = json!({
        "type": "Container", "max": { "cpu": "9k" }, "default": { "cpu": "1" },
        "defaultRequest": { "cpu": "1", "memory": "4Gi" },
    });
    world.merge(&range("follows"), json!({ "spec": { "limits": [theirs] } })).await;
    let drifted = stage.once(&keep(&of, 2000), "keep", false).await.unwrap_err();
    assert_eq!(drifted.code, codes::QUOTA_DRIFTED, "{drifted}");
    assert!(drifted.message.contains("limits") || drifted.message.contains("9000"), "{drifted}");

    world.delete(&range("follows")).await;
    stage.done(&change(2000, 2500), "without", false).await;
    stage.done(&keep(&of, 2500), "keep-without", false).await;
    assert!(world.get(&range("follows")).await.is_none());
    stage.roll_back(&pairs).await;
    assert_eq!(differences(&before, &world.snapshot().await), [""; 0]);
}

fn keep(of: &LimitNames, cores: u64) -> KeepLimits {
    KeepLimits { of: of.clone(), limits: LayerLimits { hard: Some(cores), ..LayerLimits::default() } }
}

/// S-54. The class of a service level is made once for all tenants, ranks their pods, and stays after them. A different class of
/// the same name is reported and left unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn a_shared_priority_class_is_created_once_and_stays() {
    let Some(world) = world().await else { return };
    let stage = Stage::new(&world).await;
    let path = format!("{CLASSES}/{CLASS}");
    world.delete(&path).await;
    let (first, second) = (limited("first"), limited("second"));

    let rehearsal = Manifest {
        place: ObjectRef::new(CLUSTER, ObjectKind::PriorityClass, CLASS),
        tenant: String::new(),
        spec: json!({ "value": 100, "preemption": "Never" }),
    };
    stage.on.kubernetes.apply(&rehearsal, &stage.stamp("rehearsal", 1).as_dry_run()).await.unwrap();
    assert!(world.get(&path).await.is_none(), "only a dry run");

    stage.onboard(&first).await;
    let class = world.get(&path).await.unwrap();
    assert_eq!((&class["value"], &class["preemptionPolicy"]), (&json!(100), &json!("Never")));
    assert!(class["metadata"]["labels"].is_null(), "the class has no owner: {class}");
    stage.onboard(&second).await;
    assert_eq!(world.get(&path).await.unwrap(), class, "the second tenant finds it and does not change it");
    let (status, pod) = admitted(&world, "first", json!({}), Some(CLASS)).await;
    assert_eq!(status, 201, "{pod}");
    assert_eq!((&pod["spec"]["priority"], &pod["spec"]["preemptionPolicy"]), (&json!(100), &json!("Never")));
    stage.roll_back(&first).await;
    stage.roll_back(&second).await;
    assert_eq!(world.get(&path).await.unwrap(), class, "other tenants may use it");

    let other = PriorityClass::new(Tier::Research, 77);
    let theirs = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": other.name }, "value": 5,
    });
    world.post(CLASSES, theirs).await;
    let make = CreateNamespace {
        cluster: CLUSTER.into(),
        tenant: "third".into(),
        workspace: WORKSPACE.into(),
        labels: [].into(),
        priority_class: Some(other.clone()),
    };
    let error = stage.once(&make, "third", false).await.unwrap_err();
    assert_eq!(error.code, codes::OBJECT_FOREIGN, "{error}");
    assert!(error.message.contains(&other.name) && error.message.contains("\"value\":5"), "{error}");
    assert!(world.get(&format!("/api/v1/namespaces/{}", namespace("third"))).await.is_none());
    world.delete(&format!("{CLASSES}/{}", other.name)).await;
}

/// The limit range is deleted with its namespace: an offboarding finds nothing of it to name.
#[tokio::test(flavor = "multi_thread")]
async fn a_survey_names_neither_the_limit_range_nor_the_class() {
    let Some(world) = world().await else { return };
    world.node(NODE).await;
    let stage = Stage::new(&world).await;
    let pairs = onboarding("surveyed", free_epoch(&world).await);
    stage.onboard(&pairs[..1]).await;
    stage.onboard(&pairs[5..6]).await;

    let found = stage
        .on
        .tenant_resources
        .survey("kubernetes", "surveyed", Observer::Platform, &stage.stamp("survey", 1))
        .await;
    let mut kinds: Vec<_> = found.unwrap().into_iter().map(|seen| seen.thing.kind).collect();
    kinds.sort();

    assert_eq!(kinds, ["Namespace", "ResourceQuota", "ValidatingAdmissionPolicy"]);
    world.delete(&format!("/api/v1/namespaces/{}", namespace("surveyed"))).await;
    assert!(world.get(&range("surveyed")).await.is_none());
}
