//! Workloads are notified, evicted and forced on a real API server. Kueue's controller, kubelets and the disruption controller are
//! missing; the tests write their changes.

mod scene;

use super::{server::world, steps::CLUSTER};
use engine::Class;
use scene::Scene;
use serde_json::{Value, json};
use workflows::platform::*;

const KUEUE: &str = "/apis/kueue.x-k8s.io/v1beta1";
const GATEWAY: &str = "/apis/gateway.networking.k8s.io/v1";

fn labelled(name: &str) -> Value {
    json!({ "labels": { "tenure.dev/workload": name } })
}

/// An eviction affects only the observed workload, once; a namesake created since, a late call and a dry run do
/// nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_workload_is_evicted_by_its_identity_and_not_by_its_name() {
    let Some(world) = world().await else { return };
    let scene = Scene::new(&world, "lent").await;
    let of = scene.of("train");
    assert_eq!(scene.seen("train").await, None);
    scene.queued("train").await;
    let first = scene.seen("train").await.unwrap();
    assert!(first.active && first.pods, "a workload with quota counts as present: {first:?}");
    world.delete(&format!("{KUEUE}/namespaces/{}/workloads/train", scene.space)).await;
    scene.queued("train").await;
    scene.pod("train-0", "gpu-1", json!({ "annotations": { "kueue.x-k8s.io/workload": "train" } })).await;
    scene.pod("other-0", "gpu-1", json!({ "annotations": { "kueue.x-k8s.io/workload": "other" } })).await;
    let second = scene.seen("train").await.unwrap();
    let evict = scene.stamp("evict", 5);

    let error = scene.on.evict(&of, &first.uid, &evict).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.class), (codes::OBJECT_CHANGED, Class::Transient), "{error}");
    scene.on.evict(&of, &second.uid, &evict.as_dry_run()).await.unwrap();
    assert_eq!(scene.workload("train").await["spec"]["active"], true);

    scene.on.evict(&of, &second.uid, &evict).await.unwrap();
    let evicted = scene.workload("train").await;
    assert_eq!(evicted["spec"], json!({ "active": false, "queueName": "default" }));
    assert_eq!(evicted["metadata"]["annotations"]["theirs.example/x"], "stays");
    assert!(
        scene.live("train-0").await.unwrap()["metadata"]["deletionTimestamp"].is_null(),
        "only Kueue ends its pods"
    );
    scene.on.evict(&of, &second.uid, &evict).await.unwrap();
    assert_eq!(
        scene.workload("train").await["metadata"]["resourceVersion"],
        evicted["metadata"]["resourceVersion"]
    );

    // Kueue releases the quota once the pods are gone.
    let seen = scene.seen("train").await.unwrap();
    assert!(!seen.active && seen.pods, "{seen:?}");
    scene.gone("train-0").await;
    assert!(scene.seen("train").await.unwrap().pods, "it still holds quota");
    let released = json!({ "status": { "conditions": [{ "type": "QuotaReserved", "status": "False" }] } });
    world.merge(&format!("{KUEUE}/namespaces/{}/workloads/train/status", scene.space), released).await;
    assert!(!scene.seen("train").await.unwrap().pods);

    scene.on.requeue(&of, &scene.stamp("requeue", 5)).await.unwrap();
    assert_eq!(scene.workload("train").await["spec"]["active"], false, "it is held until it is admitted");
    scene.on.start(&of, &GpuSet::new(), false, &scene.stamp("start", 5)).await.unwrap();
    scene.on.evict(&of, &second.uid, &evict).await.unwrap();
    assert_eq!(scene.workload("train").await["spec"]["active"], true, "an old eviction has no effect");
    let late = scene.on.evict(&of, &second.uid, &scene.stamp("evict", 4)).await.unwrap_err();
    assert_eq!(late.code, codes::FENCED);
    assert_eq!(scene.seen("other").await, None, "a pod without our label is ignored");
    scene.end().await;
}

/// Pods outside of Kueue are evicted one by one by identity; a blocking disruption budget is named, and the eviction is retried.
#[tokio::test(flavor = "multi_thread")]
async fn a_disruption_budget_is_respected_and_named() {
    let Some(world) = world().await else { return };
    let scene = Scene::new(&world, "budgeted").await;
    let of = scene.of("serve");
    for name in ["serve-0", "serve-1"] {
        scene.pod(name, "gpu-1", labelled("serve")).await;
    }
    scene.pod("neighbour", "gpu-1", labelled("else")).await;
    let budgets = format!("/apis/policy/v1beta1/namespaces/{}/poddisruptionbudgets", scene.space);
    let budget = json!({
        "apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": { "name": "keep-one" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "tenure.dev/workload": "serve" } } },
    });
    world.post(&budgets, budget).await;
    // Sets the allowed disruptions of two healthy pods, as the real controller would.
    let allow = async |n: u64| {
        let at = format!("{budgets}/keep-one");
        world.merge(&at, json!({ "spec": { "minAvailable": 2 - n } })).await;
        let counted = async || {
            let now = world.get(&at).await.unwrap();
            let seen = now["status"]["observedGeneration"] == now["metadata"]["generation"];
            seen && now["status"]["disruptionsAllowed"] == n
        };
        world.until(counted).await;
    };
    allow(0).await;
    let seen = scene.seen("serve").await.unwrap();
    assert!(seen.active && seen.pods && seen.uid.contains(','), "{seen:?}");
    let evict = scene.stamp("evict", 1);

    let error = scene.on.evict(&of, &seen.uid, &evict).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.class), (codes::PROTECTED, Class::Transient), "{error}");
    assert!(error.message.contains("keep-one") && error.message.contains("serve-0"), "{error}");
    assert!(scene.live("serve-0").await.unwrap()["metadata"]["deletionTimestamp"].is_null());
    allow(1).await;
    scene.on.evict(&of, &seen.uid, &CallMetadata { dry_run: true, ..scene.stamp("dry", 1) }).await.unwrap();
    assert!(
        scene.live("serve-0").await.unwrap()["metadata"]["deletionTimestamp"].is_null(),
        "a dry run evicts no workload"
    );
    let error = scene.on.evict(&of, &seen.uid, &evict).await.unwrap_err();
    assert!(
        error.code == codes::PROTECTED && error.message.contains("serve-1"),
        "one pod may be evicted, and no more: {error}"
    );
    assert!(scene.live("serve-0").await.unwrap()["metadata"]["deletionTimestamp"].is_string());

    // A new pod is not one of the observed ones.
    scene.gone("serve-0").await;
    scene.pod("serve-0", "gpu-1", labelled("serve")).await;
    allow(2).await;
    let error = scene.on.evict(&of, &seen.uid, &evict).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.class), (codes::OBJECT_CHANGED, Class::Transient), "{error}");
    let again = scene.seen("serve").await.unwrap();
    scene.on.evict(&of, &again.uid, &evict).await.unwrap();
    let ending = scene.seen("serve").await.unwrap();
    assert!(!ending.active && ending.pods, "a terminating workload is still present: {ending:?}");
    scene.gone("serve-0").await;
    scene.gone("serve-1").await;
    assert_eq!(scene.seen("serve").await, None);
    assert!(scene.live("neighbour").await.unwrap()["metadata"]["deletionTimestamp"].is_null());
    scene.end().await;
}

/// The notice, the request and the drained route are restored; an answer to an earlier request is not one to a later request.
#[tokio::test(flavor = "multi_thread")]
async fn the_notice_to_a_borrower_is_withdrawn() {
    let Some(world) = world().await else { return };
    let scene = Scene::new(&world, "told").await;
    let of = scene.of("llm");
    scene.queued("llm").await;
    scene.pod("llm-0", "gpu-1", labelled("llm")).await;
    let (workload, pod) =
        (format!("{KUEUE}/namespaces/{}/workloads/llm", scene.space), format!("{}/llm-0", scene.pods()));
    let unrouted = scene
        .on
        .set_notice(&of, &WorkloadNotice::Weight(0), &scene.stamp("drain-early", 1))
        .await
        .unwrap_err();
    assert!(
        unrouted.code == codes::UNSUPPORTED && unrouted.message.contains("tenure.dev/route"),
        "{unrouted}"
    );
    scene.on.set_notice(&of, &WorkloadNotice::Weight(100), &scene.stamp("restore-early", 1)).await.unwrap();
    world
        .merge(&workload, json!({ "metadata": { "annotations": { "tenure.dev/route": "chat/llm" } } }))
        .await;
    let routes = format!("{GATEWAY}/namespaces/{}/httproutes", scene.space);
    let rules = json!([
        { "backendRefs": [{ "name": "llm", "port": 80, "weight": 30 }, { "name": "old", "port": 80, "weight": 70 }] },
        { "matches": [{ "path": { "value": "/v2" } }], "backendRefs": [{ "name": "llm", "port": 80 }] },
    ]);
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": { "name": "chat" },
        "spec": { "rules": rules },
    });
    let before = world.post(&routes, route).await;
    let before_told = scene.seen("llm").await.unwrap();
    assert_eq!(
        (before_told.weight, before_told.reclaim_at, before_told.checkpointed),
        (Some(100), None, false)
    );

    let ends_at = 1_800_000_000_123;
    scene.on.set_notice(&of, &WorkloadNotice::EndsAt(ends_at), &scene.stamp("notify", 1)).await.unwrap();
    scene.on.set_notice(&of, &WorkloadNotice::Weight(0), &scene.stamp("drain", 1)).await.unwrap();
    scene.on.set_notice(&of, &WorkloadNotice::Weight(0), &scene.stamp("drain", 1)).await.unwrap();
    assert!(!scene.on.checkpoint(&of, &scene.stamp("save", 1)).await.unwrap());
    let drained = world.get(&format!("{routes}/chat")).await.unwrap();
    let weights = |route: &Value| -> Vec<u64> {
        let rules = route["spec"]["rules"].as_array().unwrap();
        rules
            .iter()
            .flat_map(|rule| rule["backendRefs"].as_array().unwrap())
            .map(|one| one["weight"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(weights(&drained), [0, 70, 0]);
    let told = scene.seen("llm").await.unwrap();
    assert_eq!((told.weight, told.reclaim_at, told.checkpointed), (Some(0), Some(ends_at), false));
    let bears = world.get(&pod).await.unwrap()["metadata"]["annotations"].clone();
    assert_eq!(bears["tenure.dev/reclaim-at"], "2027-01-15T08:00:00.123Z", "the pod can read it too");
    let asked = bears["tenure.dev/checkpoint"].as_str().unwrap().to_owned();
    let answer = json!({ "metadata": { "annotations": { "tenure.dev/checkpointed": asked } } });
    world.merge(&pod, answer.clone()).await;
    assert!(scene.on.checkpoint(&of, &scene.stamp("save", 1)).await.unwrap(), "every pod has answered");

    scene.on.set_notice(&of, &WorkloadNotice::GoesOn, &scene.stamp("withdraw", 1)).await.unwrap();
    scene.on.set_notice(&of, &WorkloadNotice::Weight(100), &scene.stamp("restore", 1)).await.unwrap();
    let after = world.get(&format!("{routes}/chat")).await.unwrap();
    assert_eq!(after["spec"], before["spec"]);
    assert!(after["metadata"]["annotations"]["tenure.dev/weights"].is_null(), "{after}");
    assert_eq!(scene.seen("llm").await.unwrap(), before_told);
    // A late call of the notice has no effect.
    scene.on.set_notice(&of, &WorkloadNotice::EndsAt(ends_at), &scene.stamp("notify", 1)).await.unwrap();
    assert_eq!(scene.seen("llm").await.unwrap().reclaim_at, None);
    // The owner's late answer belongs to a request that no longer exists.
    world.merge(&workload, answer).await;
    assert!(!scene.on.checkpoint(&of, &scene.stamp("save-again", 1)).await.unwrap());
    assert!(!scene.seen("llm").await.unwrap().checkpointed);
    scene.end().await;
}

/// While a node may still run a pod its record stays. Once the node is fenced and silent, only this workload's pods are
/// deleted.
#[tokio::test(flavor = "multi_thread")]
async fn no_pod_is_forced_off_a_node_that_is_not_fenced() {
    let Some(world) = world().await else { return };
    let scene = Scene::new(&world, "stuck").await;
    let (of, nodes) = (scene.of("hang"), ["hang-1", "hang-2"]);
    for node in nodes {
        world.delete(&format!("/api/v1/nodes/{node}")).await;
        world.node(node).await;
    }
    let ready = async |node: &str, status: &str| {
        let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } });
        world.merge(&format!("/api/v1/nodes/{node}/status"), status).await
    };
    for node in nodes {
        ready(node, "True").await;
        scene.pod(&format!("pod-on-{node}"), node, labelled("hang")).await;
    }
    scene.pod("neighbour", "hang-1", labelled("else")).await;
    let uid = scene.seen("hang").await.unwrap().uid;
    scene.on.evict(&of, &uid, &scene.stamp("evict", 1)).await.unwrap();
    let fence = json!({ "spec": { "taints": [{ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" }] } });
    let refused = async || {
        let error = scene.on.force_remove(&of, &uid, &scene.stamp("force", 1)).await.unwrap_err();
        assert_eq!((error.code.as_str(), error.class), (codes::NODE_ALIVE, Class::Permanent), "{error}");
        assert!(scene.seen("hang").await.unwrap().pods && scene.live("pod-on-hang-1").await.is_some());
        error.message
    };

    refused().await;
    ready("hang-1", "Unknown").await;
    refused().await;
    world.merge("/api/v1/nodes/hang-1", fence.clone()).await;
    assert!(refused().await.contains("hang-2"), "all pods or none");
    world.merge("/api/v1/nodes/hang-2", fence).await;
    assert!(refused().await.contains("hang-2"), "a node that responds is not off, whatever was reported");
    ready("hang-2", "False").await;
    scene.on.force_remove(&of, "somebody-else", &scene.stamp("force", 1)).await.unwrap_err();
    scene.on.force_remove(&of, &uid, &scene.stamp("force", 1).as_dry_run()).await.unwrap();
    assert!(scene.live("pod-on-hang-1").await.is_some());

    scene.on.force_remove(&of, &uid, &scene.stamp("force", 1)).await.unwrap();
    assert_eq!(scene.seen("hang").await, None);
    assert!(scene.live("neighbour").await.unwrap()["metadata"]["deletionTimestamp"].is_null());
    scene.end().await;
    for node in nodes {
        world.delete(&format!("/api/v1/nodes/{node}")).await;
    }
}

/// Every pod that requests GPUs of a node is named until it has ended; indexes are reported only if they are known.
#[tokio::test(flavor = "multi_thread")]
async fn gpus_count_as_held_until_no_pod_on_the_node_requests_any() {
    let Some(world) = world().await else { return };
    let scene = Scene::new(&world, "counted").await;
    world.delete("/api/v1/nodes/gpu-9").await;
    world.node("gpu-9").await;
    let has = |n: &str| json!({ "status": { "capacity": { "nvidia.com/gpu": n }, "allocatable": { "nvidia.com/gpu": n } } });
    world.merge("/api/v1/nodes/gpu-9/status", has("4")).await;
    let clients = async || {
        let on = scene.on.clients(CLUSTER, "gpu-9", &[0].into(), &scene.stamp("look", 1)).await;
        on.unwrap()
    };
    assert_eq!(clients().await, [""; 0]);
    scene.pod("half", "gpu-9", labelled("train")).await;
    scene.pod("elsewhere", "gpu-8", labelled("other")).await;
    assert_eq!(scene.seen("train").await.unwrap().gpus, GpuSet::from([("gpu-9".into(), [].into())]));
    scene.pod("whole", "gpu-9", labelled("train")).await;
    assert_eq!(
        scene.seen("train").await.unwrap().gpus,
        GpuSet::from([("gpu-9".into(), [0, 1, 2, 3].into())])
    );
    let said = json!({ "metadata": { "annotations": { "tenure.dev/gpus": "3,5" } } });
    world.merge(&format!("{}/elsewhere", scene.pods()), said).await;
    assert_eq!(scene.seen("other").await.unwrap().gpus, GpuSet::from([("gpu-8".into(), [3, 5].into())]));

    let held = ["half", "whole"].map(|name| format!("{}/{name}", scene.space));
    assert_eq!(clients().await, held);
    let uid = scene.seen("train").await.unwrap().uid;
    scene.on.evict(&scene.of("train"), &uid, &scene.stamp("evict", 1)).await.unwrap();
    assert_eq!(clients().await, held, "a terminating workload keeps its allocation");
    scene.gone("half").await;
    world.merge(&format!("{}/whole/status", scene.pods()), json!({ "status": { "phase": "Failed" } })).await;
    assert_eq!(clients().await, [""; 0]);
    let scrub =
        scene.on.scrub(CLUSTER, "gpu-9", &[0].into(), ScrubLevel::Verified, &scene.stamp("scrub", 1)).await;
    assert_eq!(scrub.unwrap_err().code, codes::UNSUPPORTED);
    scene.end().await;
    world.delete("/api/v1/nodes/gpu-9").await;
}

/// Each right of the shipped role for workloads is used: without it a call is denied, and the refusal names it.
#[tokio::test(flavor = "multi_thread")]
async fn every_permission_on_workloads_is_needed_and_named_when_missing() {
    const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tenure-workloads";
    const TENURE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tenure";
    const PROBES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tenure-probes";
    const SURVEY: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/tenure-survey";
    let Some(world) = world().await else { return };
    let rules = world.get(ROLE).await.unwrap()["rules"].clone();
    let rights: Vec<(String, String)> = rules
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|rule| {
            let resource = rule["resources"][0].as_str().unwrap().to_owned();
            let verbs = rule["verbs"].as_array().unwrap().clone();
            verbs.into_iter().map(move |verb| (resource.clone(), verb.as_str().unwrap().to_owned()))
        })
        // Without a watch there is one more read instead of a wait.
        .filter(|(_, verb)| verb != "watch")
        .collect();
    assert_eq!(rights.len(), 9);
    // The roles of probes, surveys and offboardings also contain some of them.
    let own = world.get(TENURE).await.unwrap()["rules"].clone();
    let evicting = json!(["pods/eviction"]);
    let others: Value =
        own.as_array().unwrap().iter().filter(|rule| rule["resources"] != evicting).cloned().collect();
    world.merge(TENURE, json!({ "rules": others })).await;
    let probes = world.get(PROBES).await.unwrap()["rules"].clone();
    world.merge(PROBES, json!({ "rules": [] })).await;
    let surveyors = world.get(SURVEY).await.unwrap()["subjects"].clone();
    world.merge(SURVEY, json!({ "subjects": [] })).await;
    let scene = Scene::new(&world, "rights").await;
    world.delete("/api/v1/nodes/off").await;
    world.node("off").await;
    let off = json!({ "spec": { "taints": [{ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" }] } });
    world.merge("/api/v1/nodes/off", off).await;
    let routes = format!("{GATEWAY}/namespaces/{}/httproutes", scene.space);
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": { "name": "chat" },
        "spec": { "rules": [{ "backendRefs": [{ "name": "llm", "weight": 2 }] }] },
    });
    world.post(&routes, route).await;
    scene.queued("kueued").await;
    let routed = json!({ "metadata": { "annotations": { "tenure.dev/route": "chat/llm" } } });
    world.merge(&format!("{KUEUE}/namespaces/{}/workloads/kueued", scene.space), routed).await;

    for (n, (resource, verb)) in rights.into_iter().enumerate() {
        let mut left = rules.clone();
        for rule in left.as_array_mut().unwrap() {
            if rule["resources"][0] == resource.as_str() {
                rule["verbs"].as_array_mut().unwrap().retain(|one| *one != verb.as_str());
            }
        }
        left.as_array_mut().unwrap().retain(|rule| !rule["verbs"].as_array().unwrap().is_empty());
        let pod = format!("bare-{n}");
        scene.pod(&pod, "off", labelled("bare")).await;
        let uid = scene.seen("bare").await.unwrap().uid;
        world.merge(ROLE, json!({ "rules": left })).await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;

        let stamp = |step: &str| scene.stamp(&format!("{step}-{n}"), 1);
        let (bare, kueued) = (scene.of("bare"), scene.of("kueued"));
        let answers = [
            scene.on.set_notice(&kueued, &WorkloadNotice::Weight(0), &stamp("drain")).await,
            scene.on.set_notice(&kueued, &WorkloadNotice::EndsAt(1), &stamp("notify")).await,
            scene.on.evict(&bare, &uid, &stamp("evict")).await,
            scene.on.force_remove(&bare, &uid, &stamp("force")).await,
        ];
        let denied: Vec<String> = answers
            .into_iter()
            .filter_map(Result::err)
            .filter(|error| error.code == codes::DENIED)
            .map(|error| error.message)
            .collect();
        let missed = format!("cannot {verb} resource \"{resource}\"");
        assert!(denied.iter().any(|said| said.contains(&missed)), "{verb} {resource}: {denied:?}");
        world.merge(ROLE, json!({ "rules": rules })).await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        scene.on.set_notice(&kueued, &WorkloadNotice::Weight(100), &stamp("restore")).await.unwrap();
        scene.gone(&pod).await;
    }
    world.merge(PROBES, json!({ "rules": probes })).await;
    world.merge(SURVEY, json!({ "subjects": surveyors })).await;
    world.merge(TENURE, json!({ "rules": own })).await;
    scene.end().await;
    world.delete("/api/v1/nodes/off").await;
}
