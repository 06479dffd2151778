//! A tenant's account for tests of admission: nodes, workspaces and quotas in plain documents, and the invariants that
//! hold after every event.

use crate::books::Books;
use engine::{ActionError, Undecided, View};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::{ExecutionId, Timestamp};
use workflows::{
    policy::PlatformPolicy,
    scheduling::admission::{self, Allowances, Observation, ObservedKind, WorkloadRequest, invariants},
    tenancy::*,
};

/// The only tenant here.
///
/// # Panics
/// Never.
#[must_use]
pub fn tenant() -> TenantId {
    "acme".parse().unwrap()
}

/// Whole GPUs of the only model here.
///
/// # Panics
/// Never.
#[must_use]
pub fn h100() -> Resource {
    "gpu/H100".parse().unwrap()
}

/// The workspace of this name.
///
/// # Panics
/// If it is no name.
#[must_use]
pub fn workspace(name: &str) -> WorkspaceName {
    name.parse().unwrap()
}

/// Returns the GPU allowances of a workspace.
#[must_use]
pub fn gpus(nominal: u64, borrowing_limit: Option<u64>, lending_limit: Option<u64>) -> Allowances {
    [(h100(), Allowance { nominal, borrowing_limit, lending_limit })].into()
}

/// A tenant's account.
#[derive(Clone, Debug)]
pub struct World {
    /// The documents.
    pub books: Books,
}

impl World {
    /// A tenant with `nodes` nodes of 8 GPUs in service, observed just now.
    ///
    /// # Panics
    /// If the ledger refuses it.
    #[must_use]
    pub fn new(nodes: u32) -> Self {
        let mut world = Self { books: Books::default() };
        // 2026-01-15, in the middle of a month.
        world.books.now = Timestamp(1_768_435_200_000);
        let by = ExecutionId::from_bytes([1; 16]);
        let registered = Tenant {
            id: tenant(),
            tier: Tier::Standard,
            isolation: Isolation::DedicatedNodes,
            data_residency: Residency::Any,
            allow_preemption: true,
            allow_gpu_sharing: false,
            compliance: BTreeSet::new(),
            policy: PlatformPolicy::built_in().unwrap().reference,
            state: TenantState::Active,
            workspaces: Vec::new(),
            cluster: Some("west-1".parse().unwrap()),
            onboarded_by: by,
            created_at: world.books.now,
            activated_at: Some(world.books.now),
            closed_at: None,
            multitenancy: None,
        };
        world.decide(|view| view.put(&registered)).unwrap();
        world.add_nodes(0..nodes);
        world.see();
        world
    }

    /// Takes nodes into service.
    ///
    /// # Panics
    /// If the ledger refuses it.
    pub fn add_nodes(&mut self, numbers: std::ops::Range<u32>) {
        let ids: Vec<NodeId> = numbers.map(|n| format!("n-{n:04}").parse().unwrap()).collect();
        self.decide(|view| {
            for id in &ids {
                view.put(&Node {
                    id: id.clone(),
                    cluster: "west-1".parse().unwrap(),
                    region: "eu-west".parse().unwrap(),
                    gpu: Gpu { model: "H100".parse().unwrap(), count: Gpus(8) },
                    cpu_milli: 64_000,
                    memory_mib: 262_144,
                    chunk: 0,
                    owner: Some(tenant()),
                    owner_epoch: OwnerEpoch(1),
                    claimed_by: Some(ExecutionId::from_bytes([1; 16])),
                    state: NodeState::InService,
                    driver_version: None,
                })?;
            }
            Ok(())
        })
        .unwrap();
        self.decide(|view| admission::serve_nodes(view, &tenant(), &ids)).unwrap();
    }

    /// The same with workspaces of class `batch`.
    ///
    /// # Panics
    /// If the ledger refuses it.
    #[must_use]
    pub fn with(mut self, workspaces: &[(&str, Allowances)]) -> Self {
        for (name, allowances) in workspaces {
            self.allow(name, WorkspaceClass::Batch, allowances.clone());
        }
        self
    }

    /// Sets the allowances of a workspace.
    ///
    /// # Panics
    /// If the ledger refuses it.
    pub fn allow(
        &mut self,
        name: &str,
        class: WorkspaceClass,
        allowances: Allowances,
    ) -> admission::AdmissionEffects {
        let all = BTreeMap::from([(workspace(name), (class, allowances))]);
        self.decide(|view| admission::set_allowances(view, &tenant(), &all)).unwrap()
    }

    /// Records that the tenant bought `count` GPUs.
    ///
    /// # Panics
    /// If the ledger refuses it.
    pub fn buy(&mut self, count: u32) {
        let bought = Entitlement {
            tenant: tenant(),
            gpu_model: "H100".parse().unwrap(),
            gpus: Gpus(count),
            region: None,
            from: None,
            to: None,
            slicing: None,
        };
        self.decide(|view| view.put(&bought)).unwrap();
    }

    /// Sets the scheduler of the tenant's cluster.
    ///
    /// # Panics
    /// If the ledger refuses it.
    pub fn on(&mut self, kind: ClusterKind) {
        let cluster = Cluster {
            id: "west-1".parse().unwrap(),
            region: "eu-west".parse().unwrap(),
            provider: String::new(),
            kind,
            tenancy: Tenancy::Shared,
            backend: Cluster::SIMULATED.to_owned(),
            models: BTreeSet::new(),
            unready: Vec::new(),
        };
        self.decide(|view| view.put(&cluster)).unwrap();
    }

    /// Decides and applies.
    ///
    /// # Errors
    /// The refusal.
    pub fn decide<T>(
        &mut self,
        decide: impl FnMut(&mut View) -> Result<T, Undecided>,
    ) -> Result<T, ActionError> {
        self.books.decide(decide)
    }

    /// Advances the clock.
    pub fn pass(&mut self, span: Duration) {
        self.books.now = self.books.now.after(span);
    }

    /// Sends an observation that equals the ledger.
    ///
    /// # Panics
    /// If the ledger refuses it.
    pub fn see(&mut self) -> admission::ObservationResult {
        let nodes = self.occupancy().nodes;
        let seen = |room: NodeRoom| ObservedKind { usable: room.capacity, busy: room.capacity - room.free };
        let nodes = nodes
            .into_iter()
            .map(|(node, kinds)| (node, kinds.into_iter().map(|(kind, room)| (kind, seen(room))).collect()));
        let observation = Observation { at: self.books.now, nodes: nodes.collect() };
        self.decide(|view| admission::observe(view, &tenant(), &observation)).unwrap()
    }

    /// The tenant's occupancy.
    ///
    /// # Panics
    /// If it is missing.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        self.books.find::<Occupancy>("acme").unwrap()
    }

    /// The tenant's account.
    ///
    /// # Panics
    /// If it is missing.
    #[must_use]
    pub fn cohort(&self) -> Cohort {
        self.books.find::<Cohort>("acme").unwrap()
    }

    /// A workspace's balance of GPUs.
    ///
    /// # Panics
    /// If it has no account.
    #[must_use]
    pub fn balance(&self, name: &str) -> Balance {
        self.cohort().accounts[&workspace(name)].balance(&h100())
    }

    /// A workload.
    ///
    /// # Panics
    /// If it is missing.
    #[must_use]
    pub fn workload(&self, name: &str) -> Workload {
        self.books.find::<Workload>(&format!("acme/{name}")).unwrap()
    }

    /// Submits a workload.
    ///
    /// # Errors
    /// The refusal.
    pub fn submit(&mut self, request: &WorkloadRequest) -> Result<admission::SubmitOutcome, ActionError> {
        self.decide(|view| admission::submit(view, request))
    }

    /// Ends a workload.
    ///
    /// # Errors
    /// The refusal.
    pub fn finish(&mut self, name: &str) -> Result<admission::FinishOutcome, ActionError> {
        self.decide(|view| admission::finish(view, &tenant(), name))
    }
}

/// A batch job that may be evicted.
#[must_use]
pub fn job(workspace_name: &str, name: &str, gpus: u64) -> WorkloadRequest {
    WorkloadRequest {
        tenant: tenant(),
        workspace: workspace(workspace_name),
        name: name.to_owned(),
        class: WorkloadClass::Batch,
        priority: 0,
        preemptible: true,
        checkpoint: Checkpoint::None,
        requests: [(h100(), gpus)].into(),
        together: 0,
        labels: BTreeSet::new(),
    }
}

/// Returns a fence for a workload of this workspace that requests whole GPUs, and for no other.
#[must_use]
pub fn fencing(
    execution: ExecutionId,
    workspace_name: &str,
    workload: &str,
    victims: BTreeSet<String>,
) -> admission::Fence {
    admission::Fence {
        tenant: tenant(),
        resource: h100(),
        execution,
        workspace: workspace(workspace_name),
        workload: Some(workload.to_owned()),
        more: 0,
        others: Vec::new(),
        victims,
        deadline: Timestamp::default(),
    }
}

impl World {
    /// Returns every invariant that is violated now.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let books = &self.books;
        let Some(cohort) = books.find::<Cohort>("acme") else { return Vec::new() };
        let all = invariants::AdmissionState {
            cohort,
            occupancy: books.find("acme"),
            nodes: books.all(),
            workloads: books.all(),
            loans: books.all(),
            open: books.all(),
            queues: books.all(),
            running_lists: books.all(),
            decisions: books.all(),
        };
        invariants::violations(&all).iter().map(ToString::to_string).collect()
    }

    /// Returns the queued workloads of a workspace, in order.
    #[must_use]
    pub fn waiting(&self, name: &str) -> Vec<QueuedWorkload> {
        self.books
            .find::<WorkspaceQueue>(&format!("acme/{name}"))
            .map(|line| line.waiting)
            .unwrap_or_default()
    }

    /// Returns the running workloads of a workspace, newest first.
    #[must_use]
    pub fn running(&self, name: &str) -> Vec<(String, RunningEntry)> {
        let rosters = self.books.all::<RunningList>();
        let ours = rosters.into_iter().filter(|roster| roster.workspace.as_str() == name);
        let mut running: Vec<_> = ours.flat_map(|roster| roster.running).collect();
        running.sort_by_key(|(name, running)| (std::cmp::Reverse(running.admitted_at), name.clone()));
        running
    }

    /// Chooses victims for a demand by a simple rule: the newest evictable workload of the workspace furthest above its
    /// nominal quota, until the demand fits. Returns no victims if it never fits.
    #[must_use]
    pub fn victims(&self, demand: &admission::ReclaimDemand) -> BTreeSet<String> {
        let mut cohort = self.cohort();
        let mut victims = BTreeSet::new();
        while cohort.available(&demand.workspace, &demand.resource) < demand.wanted {
            let mut above: Vec<_> = cohort
                .balances(&demand.resource)
                .filter(|(name, balance)| **name != demand.workspace && balance.over_nominal() > 0)
                .map(|(name, balance)| (std::cmp::Reverse(balance.over_nominal()), name.clone()))
                .collect();
            above.sort();
            let next = above.iter().find_map(|(_, name)| {
                let mut running = self.running(name.as_str()).into_iter();
                running
                    .find(|(workload, running)| {
                        running.preemptible && !running.reclaimed && !victims.contains(workload)
                    })
                    .map(|(workload, running)| (name.clone(), workload, running))
            });
            let Some((name, workload, running)) = next else { return BTreeSet::new() };
            let freed = running.requests.get(&demand.resource).copied().unwrap_or(0);
            let account = cohort.accounts.get_mut(&name).unwrap();
            account.balances.get_mut(&demand.resource).unwrap().used -= freed;
            victims.insert(workload);
        }
        victims
    }
}
