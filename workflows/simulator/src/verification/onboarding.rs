//! Scenarios for onboarding: requests that together reach all paths of the workflow.

use backends::simulated::{Fault, FaultKind, LocalWorld, Script, local_world, simulated_platform};
use engine::{
    ActionError, Engine, Entity, Error, SystemClock, Undecided, View,
    testing::{Report, Scenario, World, verify},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};
use store::{Key, Memory, Put, Store as _};
use workflows::{
    fleet::{import_nodes, import_sites, parse_nodes, parse_sites},
    onboarding::Onboarding,
    platform::Platform,
    policy::{
        Invalid, OnboardingRequest, PlatformPolicy, PolicyChange, PolicyInForce, PublishedPolicy, publish,
    },
    tenancy::{
        Cluster, ClusterClasses, ClusterKey, Entitlement, FreePool, FreePoolChunk, NameError, Node,
        NodeAllocation, Quota, Region, RegionIndex, Tenant, Waitlist, Workspace,
    },
};

const SITES: &str = "
regions: [{id: eu-west, jurisdiction: eu}]
clusters:
  - {id: west-1, region: eu-west}
  - {id: own-1, region: eu-west, tenancy: dedicated}
  - {id: slurm-1, region: eu-west, kind: slurm}
  - {id: metal-1, region: eu-west, kind: bare_metal}
";
/// Nodes of each cluster: prefix, count, GPUs per node, and model.
const NODES: [(&str, &str, u32, u32, &str); 4] = [
    ("west-1", "w", 4, 8, "H100"),
    ("own-1", "o", 2, 4, "H100"),
    ("slurm-1", "s", 3, 4, "A100"),
    ("metal-1", "m", 1, 8, "T4"),
];

/// The collections that a run may change and that its undo must restore.
pub(super) const LEDGER: [&str; 11] = [
    Tenant::COLLECTION,
    Workspace::COLLECTION,
    Entitlement::COLLECTION,
    Quota::COLLECTION,
    NodeAllocation::COLLECTION,
    Node::COLLECTION,
    FreePoolChunk::COLLECTION,
    Cluster::COLLECTION,
    Waitlist::COLLECTION,
    ClusterKey::COLLECTION,
    ClusterClasses::COLLECTION,
];
/// The other collections of a scenario.
pub(super) const GIVEN: [&str; 6] = [
    RegionIndex::COLLECTION,
    Region::COLLECTION,
    FreePool::COLLECTION,
    PublishedPolicy::COLLECTION,
    PolicyInForce::COLLECTION,
    PolicyChange::COLLECTION,
];

/// Verifies onboarding with all faults of the engine, in scenarios that together reach all its paths.
///
/// # Errors
///
/// If a scenario cannot be created.
pub async fn onboarding() -> Result<Report, Error> {
    let mut worlds = Vec::new();
    for case in cases() {
        worlds.push(case.set().await?);
    }
    let scenes: Vec<&dyn Scenario<Onboarding>> =
        worlds.iter().map(|world| world as &dyn Scenario<Onboarding>).collect();
    verify(&scenes).await
}

/// A request, changes to the built-in policy, and the nodes that will be unfit.
struct Case {
    name: &'static str,
    tier: &'static str,
    isolation: &'static str,
    residency: &'static str,
    model: &'static str,
    gpus: u32,
    tags: &'static str,
    policy: Option<(&'static str, &'static str)>,
    unfit: &'static str,
}

/// The case with the most approvals has the shortest path and is the first: later cases cover only the remaining paths.
fn cases() -> [Case; 5] {
    let usual = || Case {
        name: "",
        tier: "research",
        isolation: "dedicated",
        residency: "eu-only",
        model: "A100",
        gpus: 7,
        tags: "[]",
        policy: None,
        unfit: "",
    };
    [
        Case {
            name: "bare metal, with approval",
            tier: "standard",
            model: "T4",
            gpus: 8,
            tags: "[soc2]",
            policy: Some(("waitlist: 30d", "waitlist: 30m")),
            ..usual()
        },
        Case { name: "no cluster allowed", residency: "[jp]", ..usual() },
        Case { name: "slurm, one of two nodes is unfit and replaced", unfit: "s-0000", ..usual() },
        Case {
            name: "slurm, one node is unfit and none is replaced",
            policy: Some(("max_replacements: 3", "max_replacements: 0")),
            unfit: "s-0000",
            ..usual()
        },
        Case {
            name: "kubernetes, a cluster of its own, self-service",
            isolation: "dedicated_cluster",
            model: "H100",
            gpus: 8,
            ..usual()
        },
    ]
}

/// A case with its parsed request and its documents.
struct OnboardingScene {
    name: &'static str,
    request: OnboardingRequest,
    documents: Vec<Put>,
    unfit: &'static str,
}

impl Case {
    async fn set(&self) -> Result<OnboardingScene, Error> {
        let text = format!(
            "name: acme\ntenant: {{tier: {}, isolation: {}, data_residency: {}, allow_preemption: true, \
             allow_gpu_sharing: false}}\nentitlement: {{gpu_model: {}, gpus: {}}}\ncompliance: {}\n",
            self.tier, self.isolation, self.residency, self.model, self.gpus, self.tags
        );
        let request = OnboardingRequest::from_yaml(&text)
            .map_err(|invalid| Error::Undecided(ActionError::permanent("policy.invalid", invalid)))?;
        let store = Arc::new(Memory::new());
        let platform = simulated_platform(Arc::new(LocalWorld::new()));
        let engine = Engine::new(store.clone(), Arc::new(SystemClock), platform);
        engine.transact(true, |view| self.begin(view)).await?;
        let mut documents = Vec::new();
        for collection in LEDGER.iter().chain(&GIVEN) {
            let found = store.documents(collection, "", None, 10_000).await?;
            documents
                .extend(found.items.into_iter().map(|found| Put { key: found.key, body: Some(found.body) }));
        }
        Ok(OnboardingScene { name: self.name, request, documents, unfit: self.unfit })
    }

    /// Writes the fleet, and the policy if it is changed.
    fn begin(&self, view: &mut View) -> Result<(), Undecided> {
        let wrong = |invalid: Invalid| ActionError::permanent("policy.invalid", invalid);
        import_sites(view, &parse_sites(SITES).map_err(wrong)?)?;
        for (cluster, letter, count, gpus, model) in NODES {
            let mut text = String::from("sn,cpu_milli,memory_mib,gpu,model\n");
            for number in 0..count {
                let _ = writeln!(text, "{letter}-{number:04},96000,786432,{gpus},{model}");
            }
            let name = |e: NameError| ActionError::permanent("name.invalid", e);
            let rows = parse_nodes(&text).map_err(wrong)?;
            let (cluster, region) = (cluster.parse().map_err(name)?, "eu-west".parse().map_err(name)?);
            import_nodes(view, &rows, &cluster, &region)?;
        }
        if let Some((from, to)) = self.policy {
            let text = PlatformPolicy::amended(&[(from, to)]).unwrap_or_default();
            publish(view, &text, "verify")?;
        }
        Ok(())
    }
}

impl Scenario<Onboarding> for OnboardingScene {
    fn name(&self) -> String {
        self.name.into()
    }

    fn data(&self) -> Onboarding {
        Onboarding::new(self.request.clone(), Some("ab".into()))
    }

    fn world(&self) -> World<Platform> {
        let world = LocalWorld::new();
        if !self.unfit.is_empty() {
            let unfit = Fault::on("DiagnoseNode", FaultKind::NodeUnfit).named(self.unfit).times(0);
            world.script(Script { faults: vec![unfit], random: None });
        }
        let platform = simulated_platform(Arc::new(world));
        World { platform, documents: self.documents.clone(), collections: LEDGER.to_vec() }
    }

    fn snapshot(&self, platform: &Platform, documents: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
        let mut all = local_world(platform).map(LocalWorld::snapshot).unwrap_or_default();
        all.extend(
            documents.iter().filter_map(|(key, body)| Some((format!("ledger {key}"), matter(key, body)?))),
        );
        all.insert("ledger lists what is free".into(), unlisted(documents));
        all
    }

    fn violations(&self, platform: &Platform) -> Vec<String> {
        local_world(platform).map(LocalWorld::violations).unwrap_or_default()
    }
}

/// Returns the part of a document that is compared after a run, without times, executions and numbers of attempts.
pub(super) fn matter(key: &Key, body: &Value) -> Option<Value> {
    let field = |name: &str| body.get(name).cloned().unwrap_or(Value::Null);
    match key.collection.as_str() {
        // A node that was found unfit stays quarantined, whatever happens to its tenant.
        Node::COLLECTION if field("state") == json!("quarantined") => Some(json!([null, "free"])),
        Node::COLLECTION => Some(json!([field("owner"), field("state")])),
        FreePoolChunk::COLLECTION => None,
        Waitlist::COLLECTION => {
            let waiters = field("waiters");
            let tenants: Vec<_> =
                waiters.as_array()?.iter().map(|waiter| waiter.get("tenant").cloned()).collect();
            (!tenants.is_empty()).then(|| json!(tenants))
        }
        ClusterKey::COLLECTION => field("revoked_at").is_null().then(|| field("tenant")),
        NodeAllocation::COLLECTION => {
            Some(json!([field("nodes").as_object()?.keys().collect::<Vec<_>>(), field("quarantined")]))
        }
        _ => {
            let mut body = body.clone();
            for name in ["created_at", "closed_at", "activated_at", "onboarded_by", "set_by"] {
                body.as_object_mut()?.remove(name);
            }
            Some(body)
        }
    }
}

/// Returns nodes that are free but not listed, or listed but not free.
pub(super) fn unlisted(documents: &BTreeMap<Key, Value>) -> Value {
    let of = |kind: &'static str| documents.iter().filter(move |(key, _)| key.collection == kind);
    let is_free = |node: &Value| node.get("state") == Some(&json!("free"));
    let mut free: Vec<&String> =
        of(Node::COLLECTION).filter(|(_, node)| is_free(node)).map(|(key, _)| &key.id).collect();
    let mut listed: Vec<&String> = of(FreePoolChunk::COLLECTION)
        .filter_map(|(_, chunk)| chunk.get("free").and_then(Value::as_object))
        .flat_map(|nodes| nodes.keys())
        .collect();
    free.sort();
    listed.sort();
    if free == listed { json!([]) } else { json!({ "free": free, "listed": listed }) }
}
