//! A tenant in service as the start of scenarios: nodes, workspaces, quotas, and running and queued workloads, in the
//! ledger and on the platform.

use backends::simulated::{LocalWorld, simulated_platform};
use engine::{ActionError, Engine, Error, ManualClock, Undecided, View};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use store::{ExecutionId, Memory, Put, Store as _, Timestamp};
use workflows::{
    fleet::{import_nodes, import_sites, parse_nodes, parse_sites},
    platform::StartWorkload,
    policy::{PlatformPolicy, publish},
    reclaim,
    scheduling::admission::{self, Observation, ObservedKind, WorkloadRequest},
    tenancy::{
        Allowance, Checkpoint, Gpu, Gpus, Isolation, Node, NodeAllocation, NodeId, NodeState, Occupancy,
        OwnerEpoch, Residency, Resource, Tenant, TenantId, TenantState, Tier, Workload, WorkloadClass,
        WorkspaceClass, WorkspaceName,
    },
};

/// 2025-12-01, a month before the runs, so that loans are overdue from the start.
const LONG_AGO: Timestamp = Timestamp(1_764_547_200_000);

const SITES: &str = "regions: [{id: eu-west, jurisdiction: eu}]\nclusters: [{id: west-1, region: eu-west}]\n";

/// A workspace: name, class and GPU quota.
pub(super) type WorkspaceRow = (&'static str, WorkspaceClass, Allowance);

/// A workload: name, workspace, GPUs, class and checkpoint type.
pub(super) type JobRow = (&'static str, &'static str, u64, WorkloadClass, Checkpoint);

/// The start of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Fixture {
    /// The number of nodes, with four GPUs each.
    pub(super) nodes: u32,
    pub(super) workspaces: Vec<WorkspaceRow>,
    /// Submitted in order, one minute apart.
    pub(super) jobs: Vec<JobRow>,
    /// Changes to the built-in policy.
    pub(super) policy: Vec<(&'static str, &'static str)>,
}

/// The documents of a scenario and its running workloads.
#[derive(Clone, Debug)]
pub(super) struct FixtureDocuments {
    pub(super) documents: Vec<Put>,
    pub(super) running: Vec<StartWorkload>,
}

fn wrong(what: impl std::fmt::Display) -> Undecided {
    ActionError::permanent("proof.stage", what.to_string()).into()
}

/// Converts an error of the set-up.
pub(super) fn failed(undecided: Undecided) -> Error {
    match undecided {
        Undecided::Failed(error) => Error::Undecided(error),
        Undecided::Needs(_) => Error::Undecided(ActionError::permanent("proof.stage", "asks for documents")),
    }
}

/// Returns the only tenant.
pub(super) fn tenant() -> Result<TenantId, Undecided> {
    "acme".parse().map_err(wrong)
}

/// Returns the only kind of GPU.
pub(super) fn h100() -> Result<Resource, Undecided> {
    "gpu/H100".parse().map_err(wrong)
}

impl Fixture {
    /// Creates the documents.
    ///
    /// # Errors
    ///
    /// If admission rejects the fixture.
    pub(super) async fn set(&self, collections: &[&'static str]) -> Result<FixtureDocuments, Error> {
        let store = Arc::new(Memory::new());
        let platform = simulated_platform(Arc::new(LocalWorld::new()));
        let engine = Engine::new(store.clone(), Arc::new(ManualClock::starting_at(LONG_AGO)), platform);
        engine.transact(true, |view| self.begin(view)).await?;
        engine.transact(true, |view| self.open(view)).await?;
        engine.transact(true, observe).await?;
        for job in &self.jobs {
            engine.transact(true, |view| ask(view, job)).await?;
        }
        let mut running = Vec::new();
        for (name, ..) in &self.jobs {
            let start = engine.transact(false, |view| self.start_of(view, name)).await?;
            running.extend(start.filter(|start| !start.gpus.is_empty()));
        }
        let mut documents = Vec::new();
        for collection in collections {
            let found = store.documents(collection, "", None, 10_000).await?;
            documents
                .extend(found.items.into_iter().map(|found| Put { key: found.key, body: Some(found.body) }));
        }
        Ok(FixtureDocuments { documents, running })
    }

    fn start_of(&self, view: &mut View, name: &str) -> Result<Option<StartWorkload>, Undecided> {
        let tenant = tenant()?;
        view.require::<Workload>(&Workload::key(&tenant, name))?;
        reclaim::ledger::start_command(view, &tenant, name)
    }

    fn begin(&self, view: &mut View) -> Result<(), Undecided> {
        if !self.policy.is_empty() {
            let text =
                PlatformPolicy::amended(&self.policy).ok_or_else(|| wrong("the policy has other words"))?;
            publish(view, &text, "verify")?;
        }
        let by = ExecutionId::from_bytes([1; 16]);
        let (id, cluster, region) =
            (tenant()?, "west-1".parse().map_err(wrong)?, "eu-west".parse().map_err(wrong)?);
        let mut holding = NodeAllocation {
            tenant: id.clone(),
            claimed_by: by,
            cluster,
            region,
            model: "H100".parse().map_err(wrong)?,
            nodes: BTreeMap::new(),
            quarantined: BTreeSet::new(),
        };
        let names: Vec<WorkspaceName> =
            self.workspaces.iter().map(|(name, ..)| name.parse().map_err(wrong)).collect::<Result<_, _>>()?;
        view.put(&Tenant {
            id: id.clone(),
            tier: Tier::Standard,
            isolation: Isolation::DedicatedNodes,
            data_residency: Residency::Any,
            allow_preemption: true,
            allow_gpu_sharing: false,
            compliance: BTreeSet::new(),
            policy: PlatformPolicy::built_in().map_err(wrong)?.reference,
            state: TenantState::Active,
            workspaces: names,
            cluster: Some(holding.cluster.clone()),
            onboarded_by: by,
            created_at: view.now(),
            activated_at: Some(view.now()),
            closed_at: None,
            multitenancy: None,
        })?;
        for id in self.node_names()? {
            let node = Node {
                id: id.clone(),
                cluster: holding.cluster.clone(),
                region: holding.region.clone(),
                gpu: Gpu { model: holding.model.clone(), count: Gpus(4) },
                cpu_milli: 64_000,
                memory_mib: 262_144,
                chunk: 0,
                owner: Some(holding.tenant.clone()),
                owner_epoch: OwnerEpoch(1),
                claimed_by: Some(by),
                state: NodeState::InService,
                driver_version: None,
            };
            view.put(&node)?;
            holding
                .nodes
                .insert(id, workflows::tenancy::AllocatedNode { gpus: Gpus(4), epoch: OwnerEpoch(1) });
        }
        view.put(&holding)
    }

    fn node_names(&self) -> Result<Vec<NodeId>, Undecided> {
        (0..self.nodes).map(|number| format!("n-{number}").parse().map_err(wrong)).collect()
    }

    fn open(&self, view: &mut View) -> Result<(), Undecided> {
        let tenant = tenant()?;
        admission::serve_nodes(view, &tenant, &self.node_names()?)?;
        let kind = h100()?;
        let mut all = BTreeMap::new();
        for (name, class, allowance) in &self.workspaces {
            let allowances = [(kind.clone(), *allowance)].into();
            all.insert(name.parse::<WorkspaceName>().map_err(wrong)?, (*class, allowances));
        }
        admission::set_allowances(view, &tenant, &all).map(drop)
    }
}

/// Returns the documents of a region with free nodes.
pub(super) async fn fleet(collections: &[&'static str]) -> Result<Vec<Put>, Error> {
    let store = Arc::new(Memory::new());
    let platform = simulated_platform(Arc::new(LocalWorld::new()));
    let engine = Engine::new(store.clone(), Arc::new(ManualClock::starting_at(LONG_AGO)), platform);
    engine
        .transact(true, |view| {
            let sites = parse_sites(SITES).map_err(wrong)?;
            import_sites(view, &sites)?;
            let rows =
                parse_nodes("sn,cpu_milli,memory_mib,gpu,model\nw-0,96000,786432,8,H100\n").map_err(wrong)?;
            import_nodes(view, &rows, &"west-1".parse().map_err(wrong)?, &"eu-west".parse().map_err(wrong)?)
        })
        .await?;
    let mut documents = Vec::new();
    for collection in collections {
        let found = store.documents(collection, "", None, 10_000).await?;
        documents.extend(found.items.into_iter().map(|found| Put { key: found.key, body: Some(found.body) }));
    }
    Ok(documents)
}

fn observe(view: &mut View) -> Result<(), Undecided> {
    let tenant = tenant()?;
    let occupancy = view.require::<Occupancy>(tenant.as_str())?;
    let seen = |room: &workflows::tenancy::NodeRoom| ObservedKind {
        usable: room.capacity,
        busy: room.capacity.saturating_sub(room.free),
    };
    let nodes = occupancy.nodes.iter().map(|(node, kinds)| {
        (node.clone(), kinds.iter().map(|(kind, room)| (kind.clone(), seen(room))).collect())
    });
    let observation = Observation { at: view.now(), nodes: nodes.collect() };
    admission::observe(view, &tenant, &observation).map(drop)
}

fn ask(view: &mut View, (name, workspace, gpus, class, checkpoint): &JobRow) -> Result<(), Undecided> {
    let request = WorkloadRequest {
        tenant: tenant()?,
        workspace: workspace.parse().map_err(wrong)?,
        name: (*name).to_owned(),
        class: *class,
        priority: 0,
        preemptible: true,
        checkpoint: *checkpoint,
        requests: [(h100()?, *gpus)].into(),
        together: 0,
        labels: BTreeSet::new(),
    };
    admission::submit(view, &request).map(drop)
}
