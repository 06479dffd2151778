//! The conformance kit for the backend: a resource quota is the object, its GPUs are the amount, and a proxy in front of the
//! real server injects the faults.

use super::{
    server::{World, world},
    steps::CLUSTER,
};
use async_trait::async_trait;
use backends::kubernetes::KubernetesCluster;
use engine::ActionError;
use serde_json::json;
use tests::kit::{
    Subject, Trouble,
    proxy::{Asked, Fault, Proxy, by_method},
    run, run_some,
};
use workflows::platform::*;

const NAMESPACE: &str = "kit";
const TENANT: &str = "kit";
const GPUS: &str = "requests.nvidia.com/gpu";

struct Quotas<'a> {
    world: &'a World,
    proxy: Proxy,
    cluster: KubernetesCluster,
    /// True to observe and remove it as a tenant's leftover, instead of as the object of a step.
    left: bool,
}

/// Returns true if the call can change the amount. Adopting a created object by apply precedes the change.
fn changes(asked: &Asked) -> bool {
    by_method(asked) && !String::from_utf8_lossy(&asked.body).contains("/metadata/managedFields")
}

impl<'a> Quotas<'a> {
    async fn of(world: &'a World, left: bool) -> Self {
        let (proxy, target) = world.proxied(changes).await;
        let cluster = KubernetesCluster::connect(&target).await.unwrap();
        Self { world, proxy, cluster, left }
    }

    fn path(thing: &str) -> String {
        format!("/api/v1/namespaces/{NAMESPACE}/resourcequotas/{thing}")
    }

    fn thing(thing: &str) -> TenantResource {
        TenantResource::new("kubernetes", CLUSTER, "ResourceQuota", &format!("{NAMESPACE}/{thing}"))
    }

    fn place(thing: &str) -> ObjectRef {
        ObjectRef::within(CLUSTER, ObjectKind::ResourceQuota, NAMESPACE, thing)
    }
}

#[async_trait]
impl Subject for Quotas<'_> {
    fn name(&self) -> &'static str {
        if self.left { "kubernetes 1.20.2, what is left" } else { "kubernetes 1.20.2" }
    }

    async fn make(&self, thing: &str, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        let spec = json!({ "hard": { GPUS: amount } });
        let manifest = Manifest { place: Self::place(thing), tenant: TENANT.into(), spec };
        self.cluster.apply(&manifest, stamp).await
    }

    async fn look(&self, thing: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        if self.left
            && self.cluster.read_resource(&Self::thing(thing), Observer::Platform, stamp).await?.is_none()
        {
            return Ok(None);
        }
        self.cluster.read(&Self::place(thing), stamp).await
    }

    async fn change(
        &self,
        thing: &str,
        from: u64,
        to: u64,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let hard = |amount: u64| json!({ GPUS: amount });
        let swap = FieldSwap { field: "hard".into(), from: hard(from), to: hard(to) };
        self.cluster.compare_and_set(&Self::place(thing), TENANT, &swap, stamp).await
    }

    async fn remove(
        &self,
        thing: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        if self.left {
            return TenantResources::remove(&self.cluster, &Self::thing(thing), &found.uid, stamp).await;
        }
        self.cluster.delete(&Self::place(thing), &found.uid, stamp).await
    }

    async fn really(&self, thing: &str) -> Option<u64> {
        let quota = self.world.get(&Self::path(thing)).await?;
        if quota["metadata"]["deletionTimestamp"].is_string() {
            return None;
        }
        quota["spec"]["hard"][GPUS].as_str()?.parse().ok()
    }

    async fn trouble(&self, next: Trouble) -> Result<(), &'static str> {
        self.proxy.fault(Fault::Of(next)).await.map_err(|_| "the proxy has lost its port")
    }

    fn excused(&self, case: &str) -> Option<&'static str> {
        match case {
            "fence.make" => Some("epochs are stored on the object and compared per object"),
            "fence.undone" => Some("the epoch is removed together with its object"),
            "repeat.key_reused" => {
                Some("keys are stored on the object, and not searched for on other objects")
            }
            _ => None,
        }
    }

    async fn plant(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": thing },
            "spec": { "hard": { GPUS: amount.to_string() } },
        });
        self.world.post(&format!("/api/v1/namespaces/{NAMESPACE}/resourcequotas"), quota).await;
        Ok(())
    }

    async fn tamper(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        self.world
            .merge(&Self::path(thing), json!({ "spec": { "hard": { GPUS: amount.to_string() } } }))
            .await;
        Ok(())
    }

    async fn vanish(&self, thing: &str) -> Result<(), &'static str> {
        self.world.remove(&Self::path(thing)).await;
        Ok(())
    }
}

async fn with_a_namespace(world: &World) {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    if world.get(&format!("/api/v1/namespaces/{NAMESPACE}")).await.is_none() {
        world.post("/api/v1/namespaces", namespace).await;
    }
}

/// The whole contract, on a real server, with the exceptions that `docs/backends/kubernetes.md` gives.
#[tokio::test(flavor = "multi_thread")]
async fn the_backend_fulfils_the_contract_of_backends() {
    let Some(world) = world().await else { return };
    with_a_namespace(&world).await;
    let quotas = Quotas::of(&world, false).await;

    let table = run(&quotas).await;

    println!("{table}");
    assert_eq!(table.broken(), [""; 0]);
    assert_eq!(table.blank(), [""; 0]);
    assert_eq!(table.on_record(), Ok(()));
    world.delete(&format!("/api/v1/namespaces/{NAMESPACE}")).await;
}

/// The survey and removal of leftovers keep the same promises, whatever faults the server has.
#[tokio::test(flavor = "multi_thread")]
async fn remaining_resources_are_surveyed_and_removed_as_the_contract_of_backends_requires() {
    let Some(world) = world().await else { return };
    with_a_namespace(&world).await;
    let quotas = Quotas::of(&world, true).await;

    let table = run_some(&quotas, |case| case.contains("look") || case.contains("remove")).await;

    println!("{table}");
    assert_eq!(table.broken(), [""; 0]);
    world.delete(&format!("/api/v1/namespaces/{NAMESPACE}")).await;
}
