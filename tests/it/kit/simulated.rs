//! The simulated platform as subjects of the kit: behind HTTP, with the kit's proxy in front of it.

use super::in_process::TroubledWorld;
use async_trait::async_trait;
use backends::simulated::{LocalWorld, RemoteWorld, Simulated};
use engine::ActionError;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use store::Epoch;
use tests::kit::{
    Subject, Trouble,
    proxy::{Asked, Proxy},
};
use workflows::platform::*;

pub(super) const NO_CHANGE: &str = "it has no amount to change";
pub(super) const ALL_ALIKE: &str = "objects of one name are equal: there is no other owner to reject";
const TENANT: &str = "acme";
const CLUSTER: &str = "eu-1";
/// The number of forced removals before an object counts as permanent.
const FORCED: usize = 20;
static FORCED_CALLS: AtomicU64 = AtomicU64::new(0);

/// The tested capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capability {
    Kubernetes,
    Namespace,
    Slurm,
    Objects,
    Keys,
}

impl Capability {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "simulated kubernetes",
            Self::Namespace => "simulated namespaces",
            Self::Slurm => "simulated slurm",
            Self::Objects => "simulated objects",
            Self::Keys => "simulated keys",
        }
    }

    fn at(self, thing: &str) -> TenantResource {
        match self {
            Self::Kubernetes => {
                TenantResource::new("kubernetes", CLUSTER, "ResourceQuota", &format!("t-acme/{thing}"))
            }
            Self::Namespace => TenantResource::new("kubernetes", CLUSTER, "Namespace", thing),
            Self::Slurm => TenantResource::new("slurm", CLUSTER, "Account", thing),
            Self::Objects => TenantResource::new("objects", CLUSTER, "Bucket", thing),
            Self::Keys => TenantResource::new("keys", "", "Key", thing),
        }
    }

    fn place(self, thing: &str) -> ObjectRef {
        match self {
            Self::Namespace => ObjectRef::new(CLUSTER, ObjectKind::Namespace, thing),
            _ => ObjectRef::within(CLUSTER, ObjectKind::ResourceQuota, "t-acme", thing),
        }
    }
}

/// Where faults are injected on the way to the simulated platform.
enum Way {
    /// In a proxy between client and world server.
    Proxy(Proxy),
    /// A layer in this process. Needs no socket, so that the clock can be paused.
    InProcess(Arc<TroubledWorld>),
}

/// A capability of a platform that is called with faults.
pub(super) struct Through {
    of: Capability,
    world: Arc<LocalWorld>,
    far: Simulated,
    near: Simulated,
    way: Way,
    /// Keys have no amount: the test stores one.
    amounts: Mutex<BTreeMap<String, u64>>,
}

/// All calls to a world use one method: their body shows if they change anything.
fn changes(asked: &Asked) -> bool {
    let call: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    !["read", "check", "list"].iter().any(|verb| call["verb"] == *verb)
}

impl Through {
    pub(super) async fn a_proxy(of: Capability) -> Self {
        let world = Arc::new(LocalWorld::new());
        let address = tests::servers::world::serve_here(world.clone()).await.unwrap();
        let remote = RemoteWorld::new(&format!("http://{address}")).unwrap();
        drop(remote);
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let proxy = Proxy::with(&format!("http://{address}"), client, changes).await.unwrap();
        let far = Simulated::new(Arc::new(RemoteWorld::new(&proxy.url()).unwrap()));
        let near = Simulated::new(world.clone());
        Self { of, world, far, near, way: Way::Proxy(proxy), amounts: Mutex::default() }
    }

    pub(super) fn in_process(of: Capability) -> Self {
        let world = Arc::new(LocalWorld::new());
        let troubled = Arc::new(TroubledWorld::before(world.clone()));
        let (far, near) = (Simulated::new(troubled.clone()), Simulated::new(world.clone()));
        Self { of, world, far, near, way: Way::InProcess(troubled), amounts: Mutex::default() }
    }

    fn associations(amount: u64) -> Associations {
        BTreeMap::from([("prod".into(), BTreeMap::from([("gres/gpu:h100".into(), amount)]))])
    }

    fn amount(&self, thing: &str, spec: &Value) -> Option<u64> {
        match self.of {
            Capability::Kubernetes | Capability::Namespace => spec["amount"].as_u64(),
            Capability::Slurm => spec["associations"]["prod"]["gres/gpu:h100"].as_u64(),
            Capability::Objects => spec["key"].as_str()?.strip_prefix('k')?.parse().ok(),
            Capability::Keys => self.amounts.lock().unwrap().get(thing).copied(),
        }
    }

    fn spec(&self, amount: u64) -> Value {
        match self.of {
            Capability::Kubernetes | Capability::Namespace => json!({ "amount": amount }),
            Capability::Slurm => json!({ "jobs": 0, "associations": Self::associations(amount) }),
            Capability::Objects => {
                json!({ "name": "", "region": CLUSTER, "key": format!("k{amount}"), "versioned": true })
            }
            Capability::Keys => json!({}),
        }
    }

    fn swap(&self, from: u64, to: u64) -> FieldSwap {
        let (field, of): (_, fn(u64) -> Value) = match self.of {
            Capability::Slurm => ("associations", |n| json!(Self::associations(n))),
            _ => ("amount", |n| json!(n)),
        };
        FieldSwap { field: field.into(), from: of(from), to: of(to) }
    }

    /// Reads once, through one of the two.
    async fn find(
        &self,
        on: &Simulated,
        thing: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        match self.of {
            Capability::Kubernetes | Capability::Namespace => {
                Kubernetes::read(on, &self.of.place(thing), stamp).await
            }
            Capability::Slurm => on.account(CLUSTER, thing, stamp).await,
            Capability::Objects => {
                Ok(Objects::read(on, CLUSTER, thing, stamp).await?.map(|(found, _)| found))
            }
            Capability::Keys => Ok(Keys::read(on, thing, stamp).await?.map(|(found, _)| found)),
        }
    }

    async fn delete(
        &self,
        on: &Simulated,
        thing: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        match self.of {
            Capability::Kubernetes | Capability::Namespace => {
                Kubernetes::delete(on, &self.of.place(thing), &found.uid, stamp).await
            }
            Capability::Slurm => on.delete_account(CLUSTER, thing, found, stamp).await,
            Capability::Objects => Objects::delete(on, CLUSTER, thing, found, stamp).await,
            Capability::Keys => on.destroy(thing, found, stamp).await,
        }
    }
}

#[async_trait]
impl Subject for Through {
    fn name(&self) -> &'static str {
        self.of.name()
    }

    async fn make(&self, thing: &str, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        let tenant = TENANT.to_owned();
        match self.of {
            Capability::Kubernetes | Capability::Namespace => {
                let manifest = Manifest { place: self.of.place(thing), tenant, spec: self.spec(amount) };
                self.far.apply(&manifest, stamp).await
            }
            Capability::Slurm => {
                let associations = Self::associations(amount);
                self.far.create_account(CLUSTER, thing, TENANT, &associations, stamp).await
            }
            Capability::Objects => {
                let (name, region) = (thing.to_owned(), CLUSTER.to_owned());
                let bucket = Bucket { name, region, key: format!("k{amount}"), versioned: true };
                Objects::create(&self.far, &bucket, TENANT, stamp).await
            }
            Capability::Keys => {
                self.amounts.lock().unwrap().entry(thing.to_owned()).or_insert(amount);
                Keys::create(&self.far, thing, TENANT, stamp).await?;
                let spec = Value::Null;
                let made = Keys::read(&self.far, thing, stamp).await?.map(|(found, _)| found);
                let as_if = || FoundObject {
                    uid: "dry".into(),
                    tenant,
                    step: stamp.step.clone(),
                    spec,
                    terminating: false,
                };
                Ok(made.unwrap_or_else(as_if))
            }
        }
    }

    async fn look(&self, thing: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        self.find(&self.far, thing, stamp).await
    }

    async fn change(
        &self,
        thing: &str,
        from: u64,
        to: u64,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let swap = self.swap(from, to);
        match self.of {
            Capability::Slurm => {
                Slurm::compare_and_set(&self.far, CLUSTER, thing, TENANT, &swap, stamp).await
            }
            _ => Kubernetes::compare_and_set(&self.far, &self.of.place(thing), TENANT, &swap, stamp).await,
        }
    }

    async fn remove(
        &self,
        thing: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.delete(&self.far, thing, found, stamp).await?;
        if self.of == Capability::Keys && self.really(thing).await.is_none() {
            self.amounts.lock().unwrap().remove(thing);
        }
        Ok(())
    }

    async fn really(&self, thing: &str) -> Option<u64> {
        let snapshot = self.world.snapshot();
        let object = snapshot.get(&self.of.at(thing).to_string())?;
        if object["terminating"] == true {
            return None;
        }
        self.amount(thing, &object["spec"])
    }

    async fn trouble(&self, next: Trouble) -> Result<(), &'static str> {
        match &self.way {
            Way::Proxy(proxy) => proxy.trouble(next).await.map_err(|_| "the proxy's port is taken"),
            Way::InProcess(troubled) => {
                troubled.trouble(next);
                Ok(())
            }
        }
    }

    fn excused(&self, case: &str) -> Option<&'static str> {
        super::excuses(self.of).get(case).copied()
    }

    async fn plant(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        let mut spec = self.spec(amount);
        if self.of == Capability::Objects {
            spec["name"] = json!(thing);
        }
        self.world.furnish(&self.of.at(thing), "umbrella", spec);
        Ok(())
    }

    async fn tamper(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        self.world.furnish(&self.of.at(thing), TENANT, self.spec(amount));
        Ok(())
    }

    async fn vanish(&self, thing: &str) -> Result<(), &'static str> {
        // Each call has its own key: the platform repeats its answer to a repeated key, and removes nothing then.
        for _ in 0..FORCED {
            let number = FORCED_CALLS.fetch_add(1, Ordering::Relaxed);
            let key = format!("behind/{thing}/{number}");
            let stamp = CallMetadata {
                action: "Behind",
                step: key.clone(),
                key,
                epoch: Epoch(1),
                undo: false,
                deadline: Duration::from_secs(1),
                dry_run: false,
            };
            let Ok(Some(found)) = self.find(&self.near, thing, &stamp).await else { return Ok(()) };
            let deleted = self.delete(&self.near, thing, &found, &stamp).await;
            deleted.map_err(|_| "the platform does not release it")?;
        }
        Err("it reappears on the platform repeatedly")
    }
}
