//! Lists of several pages, on a server that loses its snapshot before the second page is requested.

use super::{
    server::world,
    steps::{CLUSTER, Stage, namespace},
    survey::found,
};
use backends::kubernetes::KubernetesCluster;
use serde_json::{Value, json};
use tests::kit::proxy::{Asked, by_method};
use workflows::platform::*;

/// One more than a page holds.
const MANY: usize = 501;

fn second_page(asked: &Asked) -> bool {
    asked.target.contains("continue=")
}

fn map(name: &str) -> Value {
    let labels = json!({ "tenure.dev/tenant": "many" });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "labels": labels } })
}

/// Between two pages one object is deleted and another is created, and etcd compacts the revision: the list starts again. Neither
/// the deleted object nor half a list is taken for the whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_survey_starts_again_after_its_list_has_expired() {
    let Some(world) = world().await else { return };
    let maps = "/api/v1/namespaces/default/configmaps";
    world.post_all(maps, (0..MANY).map(|n| map(&format!("many-{n:03}"))).collect()).await;
    let (proxy, target) = world.proxied(by_method).await;
    let stage = Stage::with(&target).await;

    let held = proxy.hold(second_page);
    let meanwhile = held.after(async {
        world.delete(&format!("{maps}/many-000")).await;
        world.post(maps, map("many-new")).await;
        world.compact().await;
    });
    let (seen, meanwhile) = tokio::join!(found(&stage, "many", Observer::Platform), meanwhile);

    meanwhile.unwrap();
    let mut wanted: Vec<String> = (1..MANY).map(|n| format!("ConfigMap/default/many-{n:03}")).collect();
    wanted.push("ConfigMap/default/many-new".into());
    assert_eq!(seen.unwrap(), wanted);
    world.remove(&format!("{maps}?labelSelector=tenure.dev/tenant=many")).await;
}

/// The same for the pods of a node: a GPU is not free because its pod is on the second page.
#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_node_are_listed_again_after_the_list_has_expired() {
    let Some(world) = world().await else { return };
    let space = namespace("many");
    let made = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": space } });
    world.post("/api/v1/namespaces", made).await;
    let account = format!("/api/v1/namespaces/{space}/serviceaccounts/default");
    world.until(|| async { world.get(&account).await.is_some() }).await;
    let pods = format!("/api/v1/namespaces/{space}/pods");
    let pod = |name: &str| {
        let limits = json!({ "limits": { "nvidia.com/gpu": "1" } });
        let main = json!({ "name": "main", "image": "registry.example/train", "resources": limits });
        let spec = json!({ "nodeName": "crowded", "containers": [main] });
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
    };
    world.post_all(&pods, (0..MANY).map(|n| pod(&format!("many-{n:03}"))).collect()).await;
    let (proxy, target) = world.proxied(by_method).await;
    let cluster = KubernetesCluster::connect(&target).await.unwrap();

    let held = proxy.hold(second_page);
    let meanwhile = held.after(async {
        world.delete(&format!("{pods}/many-000?gracePeriodSeconds=0")).await;
        world.post(&pods, pod("many-new")).await;
        world.compact().await;
    });
    let (stamp, gpus) = (Stage::new(&world).await.stamp("look", 1), [0].into());
    let looking = cluster.clients(CLUSTER, "crowded", &gpus, &stamp);
    let (seen, meanwhile) = tokio::join!(looking, meanwhile);

    meanwhile.unwrap();
    let mut wanted: Vec<String> = (1..MANY).map(|n| format!("{space}/many-{n:03}")).collect();
    wanted.push(format!("{space}/many-new"));
    assert_eq!(seen.unwrap(), wanted);
    world.remove(&format!("{pods}?gracePeriodSeconds=0")).await;
    world.delete(&format!("/api/v1/namespaces/{space}")).await;
}
