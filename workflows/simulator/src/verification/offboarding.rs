//! Scenarios for offboarding: a small tenant that has run workloads, with one object of each kind.

use super::{
    node_sanitisation::stamp,
    onboarding::{self, GIVEN, LEDGER},
};
use backends::simulated::{Fault, LocalWorld, Script, local_world, simulated_platform};
use engine::{
    ActionError, Engine, Entity, Error, ManualClock, Person, Undecided, View,
    testing::{Report, Scenario, World, verify},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use store::{Key, Memory, Put, Store as _, Timestamp};
use workflows::{
    destruction::{
        Holds, SanitisationRecord,
        certificate::{ErasureBasis, LegalBasis, StoredCertificate},
    },
    fleet::{import_nodes, import_sites, parse_nodes, parse_sites},
    offboarding::Offboarding,
    onboarding::Onboarding,
    platform::{Platform, TenantResource},
    policy::{Invalid, OnboardingRequest},
    scheduling::admission::{self, MAX_ENDED_PER_COMMIT, Observation, ObservedKind},
    signing::{Digest, Moment},
    tenancy::{
        Admission, Checkpoint, Cohort, LastObservation, Loan, NameError, NodeRoom, NodeUse, Occupancy,
        OpenLoans, Resource, RunningList, TenantId, Workload, WorkloadClass, WorkspaceQueue,
    },
};

const SITES: &str = "
regions: [{id: eu-west, jurisdiction: eu}]
clusters:
  - {id: west-1, region: eu-west}
  - {id: slurm-1, region: eu-west, kind: slurm}
";
/// The collections of admission.
const BOOKS: [&str; 10] = [
    Cohort::COLLECTION,
    Occupancy::COLLECTION,
    LastObservation::COLLECTION,
    NodeUse::COLLECTION,
    Workload::COLLECTION,
    RunningList::COLLECTION,
    WorkspaceQueue::COLLECTION,
    OpenLoans::COLLECTION,
    Loan::COLLECTION,
    Admission::COLLECTION,
];
/// The bytes of pages of the certificate that one commit writes.
const BYTES_AT_ONCE: u32 = 4 << 10;
/// More plans than approvers see of a tenant that keeps changing.
const MANY_PLANS: u32 = 100;
/// The start of every scenario: 2026-01-01.
pub(super) const BEGIN: Timestamp = Timestamp(1_767_225_600_000);

/// A tenant in service, ready for its offboarding.
#[derive(Debug)]
pub struct Ready {
    /// The tenant.
    pub tenant: TenantId,
    /// The platform with the tenant's objects.
    pub world: LocalWorld,
    /// The ledger.
    pub documents: Vec<Put>,
}

/// Onboards `acme` with `nodes` nodes of one GPU: on Kubernetes for `H100`, on Slurm for `A100`.
///
/// # Errors
///
/// If the onboarding fails.
pub async fn ready(model: &str, nodes: u32) -> Result<Ready, Error> {
    let store = Arc::new(Memory::new());
    let world = Arc::new(LocalWorld::new());
    let clock = Arc::new(ManualClock::starting_at(Timestamp(BEGIN.0 - 86_400_000)));
    let engine = Engine::new(store.clone(), clock.clone(), simulated_platform(world.clone()));
    let engine = engine.with_workflow::<Onboarding>().map_err(|e| wrong("workflow.unsound", e))?;
    engine.transact(true, |view| fleet(view, nodes)).await?;
    let text = format!(
        "name: acme\ntenant: {{tier: research, isolation: dedicated, data_residency: eu-only, allow_preemption: true, \
         allow_gpu_sharing: false}}\nworkspaces: [{{name: prod, class: research}}]\n\
         entitlement: {{gpu_model: {model}, gpus: {nodes}}}\n"
    );
    let request = OnboardingRequest::from_yaml(&text).map_err(|invalid| wrong("policy.invalid", invalid))?;
    let by = engine::Request::by(&Person::new("rita", ["platform_ops"]));
    let id = engine.start(Onboarding::new(request, None), by).await?.id;
    while engine.record(id).await?.open {
        if engine.run_until_idle().await? == 0 {
            clock.advance(engine::MINUTE);
        }
    }
    engine.transact(true, work).await?;
    let mut documents = Vec::new();
    for collection in LEDGER.iter().chain(&GIVEN).chain(&BOOKS) {
        let found = store.documents(collection, "", None, 10_000).await?;
        documents.extend(found.items.into_iter().map(|found| Put { key: found.key, body: Some(found.body) }));
    }
    // Machines are created at their first read; reading them now avoids later changes.
    for node in 0..nodes {
        for (cluster, letter) in [("west-1", "w"), ("slurm-1", "s")] {
            let name = format!("{letter}-{node:04}");
            let looked = engine.platform().machines.devices(cluster, &name, 1, &stamp()).await;
            looked.map_err(Error::Undecided)?;
        }
    }
    let world = world.fork();
    let tenant = "acme".parse().map_err(|e| wrong("name.invalid", e))?;
    Ok(Ready { tenant, world, documents })
}

/// Runs one workload and queues more than one commit can end.
fn work(view: &mut View) -> Result<(), Undecided> {
    let name = |e: NameError| ActionError::permanent("name.invalid", e);
    let tenant: TenantId = "acme".parse().map_err(name)?;
    let occupancy = view.require::<Occupancy>(tenant.as_str())?;
    let seen = |room: &NodeRoom| ObservedKind { usable: room.capacity, busy: 0 };
    let kinds = |kinds: &BTreeMap<workflows::tenancy::GpuKind, NodeRoom>| {
        kinds.iter().map(|(kind, room)| (kind.clone(), seen(room))).collect()
    };
    let nodes = occupancy.nodes.iter().map(|(node, rooms)| (node.clone(), kinds(rooms))).collect();
    admission::observe(view, &tenant, &Observation { at: view.now(), nodes })?;
    let kind = occupancy.nodes.values().flat_map(BTreeMap::keys).next().cloned();
    let kind = kind.ok_or_else(|| ActionError::permanent("proof.stage", "it has no GPUs"))?;
    for number in 0..=MAX_ENDED_PER_COMMIT {
        let (workload, gpus) =
            (format!("w-{number:02}"), if number == 0 { 1 } else { occupancy.nodes.len() as u64 });
        let request = admission::WorkloadRequest {
            tenant: tenant.clone(),
            workspace: "prod".parse().map_err(name)?,
            name: workload,
            class: WorkloadClass::Batch,
            priority: 0,
            preemptible: true,
            checkpoint: Checkpoint::Signal,
            requests: BTreeMap::from([(Resource::Gpu(kind.clone()), gpus)]),
            together: 0,
            labels: BTreeSet::new(),
        };
        admission::submit(view, &request)?;
    }
    Ok(())
}

pub(super) fn wrong(code: &str, why: impl std::fmt::Display) -> Error {
    Error::Undecided(ActionError::permanent(code, why))
}

fn fleet(view: &mut View, nodes: u32) -> Result<(), Undecided> {
    let wrong = |invalid: Invalid| ActionError::permanent("policy.invalid", invalid);
    let name = |e: NameError| ActionError::permanent("name.invalid", e);
    import_sites(view, &parse_sites(SITES).map_err(wrong)?)?;
    for (cluster, letter, model) in [("west-1", "w", "H100"), ("slurm-1", "s", "A100")] {
        let mut text = String::from("sn,cpu_milli,memory_mib,gpu,model\n");
        for number in 0..nodes {
            text.push_str(&format!("{letter}-{number:04},96000,786432,1,{model}\n"));
        }
        let rows = parse_nodes(&text).map_err(wrong)?;
        import_nodes(view, &rows, &cluster.parse().map_err(name)?, &"eu-west".parse().map_err(name)?)?;
    }
    Ok(())
}

/// Adds an object of each kind that a tenant can leave behind.
pub fn left_behind(world: &LocalWorld, tenant: &str) {
    let furnish = |system, place, kind, name: &str, spec| {
        world.furnish(&TenantResource::new(system, place, kind, name), tenant, spec);
    };
    let bucket = format!("t-{tenant}--eu-west");
    let held = json!({ "class": "workload", "versions": 2, "markers": 1, "uploads": 1 });
    furnish("objects", "eu-west", "Bucket", &bucket, held);
    furnish("storage", "eu-west", "Volume", "pv-1", json!({ "class": "workload" }));
    furnish(
        "keys",
        "",
        "WrappedKey",
        "escrow",
        json!({ "class": "secret", "copy_of": format!("t-{tenant}") }),
    );
    let key = format!("t-{tenant}");
    let kept = json!({ "class": "backup", "kept_until": "2026-03-01T00:00:00.000Z", "key": key });
    furnish("backups", "eu-west", "Backup", "weekly", kept);
    furnish("logs", "eu-west", "Stream", "audit", json!({ "class": "audit" }));
}

/// Verifies offboarding and the sanitisation of its node with all faults of the engine.
///
/// # Errors
///
/// If the scenario cannot be created.
pub async fn offboarding() -> Result<Report, Error> {
    let ready = ready("A100", 1).await?;
    left_behind(&ready.world, ready.tenant.as_str());
    verify::<Offboarding>(&[&OffboardingScene(ready)]).await
}

struct OffboardingScene(Ready);

impl Scenario<Offboarding> for OffboardingScene {
    fn name(&self) -> String {
        "slurm, one node, something of each kind".into()
    }

    fn data(&self) -> Offboarding {
        let basis = LegalBasis { basis: ErasureBasis::ContractEnd, reference: "contract 7".into() };
        let at = Moment::from(BEGIN);
        let data = Offboarding::new(
            self.0.tenant.clone(),
            basis,
            "requester".into(),
            at,
            "the contract has ended".into(),
        );
        // Several commits write the certificate, so that there is a crash between them. The first inventory differs from an earlier one, and
        // many plans were replaced before, so that the writes must stop first.
        let inventory = Some(Digest::from_bytes(b"an earlier inventory"));
        Offboarding { bytes_at_once: Some(BYTES_AT_ONCE), inventory, replaced_plans: MANY_PLANS, ..data }
    }

    fn world(&self) -> World<Platform> {
        staged(&self.0, None)
    }

    fn snapshot(&self, platform: &Platform, documents: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
        snapshot(platform, documents)
    }

    fn violations(&self, platform: &Platform) -> Vec<String> {
        local_world(platform).map(LocalWorld::violations).unwrap_or_default()
    }
}

pub(super) fn staged(ready: &Ready, fault: Option<Fault>) -> World<Platform> {
    let world = ready.world.fork();
    world.script(Script { faults: fault.into_iter().collect(), random: None });
    let mut collections = LEDGER.to_vec();
    collections.extend([Holds::COLLECTION, SanitisationRecord::COLLECTION, StoredCertificate::COLLECTION]);
    // Running and queued workloads end permanently. The undo restores the account and its nodes.
    collections.extend([Cohort::COLLECTION, Occupancy::COLLECTION, NodeUse::COLLECTION]);
    World { platform: simulated_platform(Arc::new(world)), documents: ready.documents.clone(), collections }
}

pub(super) fn snapshot(platform: &Platform, documents: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
    let mut all = local_world(platform).map(LocalWorld::snapshot).unwrap_or_default();
    let shown = documents.iter().filter_map(|(key, body)| Some((name(key), matter(key, body)?)));
    all.extend(shown);
    all
}

/// Returns the name of a document without the execution's id, which differs between runs.
fn name(key: &Key) -> String {
    let id = match key.collection.as_str() {
        SanitisationRecord::COLLECTION => key.id.split_once('/').map_or(key.id.as_str(), |(_, asset)| asset),
        StoredCertificate::COLLECTION => "certificate",
        _ => &key.id,
    };
    format!("ledger {}/{id}", key.collection)
}

fn matter(key: &Key, body: &Value) -> Option<Value> {
    let field = |name: &str| body.get(name).cloned().unwrap_or(Value::Null);
    match key.collection.as_str() {
        // Without times.
        SanitisationRecord::COLLECTION => {
            let result = field("result").get("is").cloned();
            Some(json!([result, field("technique"), field("method")]))
        }
        StoredCertificate::COLLECTION => {
            Some(json!([field("kind"), field("exceptions"), !field("signature").is_null()]))
        }
        Cohort::COLLECTION => Some(json!(crate::verification::incident_response::admitting(body))),
        Occupancy::COLLECTION => Some(json!(field("nodes").as_object()?.keys().collect::<Vec<_>>())),
        NodeUse::COLLECTION => Some(field("serving")),
        Holds::COLLECTION => {
            let some = |name| field(name).as_array().is_some_and(|list| !list.is_empty());
            (some("open") || some("pivots")).then(|| json!([some("open"), some("pivots")]))
        }
        _ => onboarding::matter(key, body),
    }
}
