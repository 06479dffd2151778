//! A tenant's ledger in memory, for decisions without a store.

use crate::{
    policy::PlatformPolicy,
    scheduling::admission::{self, Observation, ObservedKind, SubmitOutcome, WorkloadRequest, invariants},
    tenancy::{
        Allowance, Checkpoint, ClusterId, Gpu, Gpus, Isolation, Node, NodeAllocation, NodeId, NodeState,
        NodeUse, Occupancy, OwnerEpoch, Residency, Resource, SeenGpu, SeenWorkload, Tenant, TenantId,
        TenantState, Tier, Workload, WorkloadClass, WorkspaceClass,
    },
};
use engine::{ActionError, Entity, Undecided, View};
use std::collections::{BTreeMap, BTreeSet};
use store::{Document, ExecutionId, Key, Sequence, Timestamp};

/// Documents and a clock.
#[derive(Debug, Default)]
pub(crate) struct Books {
    documents: BTreeMap<Key, Document>,
    sequence: u64,
    pub(crate) now: Timestamp,
}

pub(crate) fn tenant() -> TenantId {
    "acme".parse().unwrap()
}

pub(crate) fn h100() -> Resource {
    "gpu/H100".parse().unwrap()
}

impl Books {
    /// Returns a tenant with `nodes` nodes of 8 GPUs in service and these nominal quotas. All GPUs were observed idle.
    pub(crate) fn new(nodes: u32, quotas: &[(&str, u64)]) -> Self {
        // 2026-01-15, in the middle of a month.
        let mut books = Self { now: Timestamp(1_768_435_200_000), ..Self::default() };
        let ids: Vec<NodeId> = (0..nodes).map(|n| format!("n-{n}").parse().unwrap()).collect();
        books.decide(|view| register(view, &ids));
        books.decide(|view| admission::serve_nodes(view, &tenant(), &ids));
        for (name, nominal) in quotas {
            let allowance = Allowance { nominal: *nominal, borrowing_limit: None, lending_limit: None };
            let all = [(name.parse().unwrap(), (WorkspaceClass::Batch, [(h100(), allowance)].into()))].into();
            books.decide(|view| admission::set_allowances(view, &tenant(), &all));
        }
        books.observe(&[]);
        books
    }

    /// Runs a decision and applies its writes.
    pub(crate) fn decide<T>(&mut self, decide: impl FnMut(&mut View) -> Result<T, Undecided>) -> T {
        self.try_decide(decide).unwrap()
    }

    pub(crate) fn try_decide<T>(
        &mut self,
        mut decide: impl FnMut(&mut View) -> Result<T, Undecided>,
    ) -> Result<T, ActionError> {
        let mut known: BTreeMap<Key, Option<Document>> = BTreeMap::new();
        loop {
            let mut view = View::new(self.now, known.clone());
            match decide(&mut view) {
                Ok(output) => {
                    self.sequence += 1;
                    for put in view.into_changes().1 {
                        let version = Sequence(self.sequence);
                        match put.body {
                            Some(body) => {
                                let document = Document { key: put.key.clone(), version, body };
                                self.documents.insert(put.key, document);
                            }
                            None => drop(self.documents.remove(&put.key)),
                        }
                    }
                    return Ok(output);
                }
                Err(Undecided::Failed(error)) => return Err(error),
                Err(Undecided::Needs(keys)) => {
                    known
                        .extend(keys.into_iter().map(|key| (key.clone(), self.documents.get(&key).cloned())));
                }
            }
        }
    }

    pub(crate) fn all<T: Entity>(&self) -> Vec<T> {
        let of_kind = self.documents.values().filter(|document| document.key.collection == T::COLLECTION);
        of_kind.map(|document| serde_json::from_slice(&document.body).unwrap()).collect()
    }

    pub(crate) fn find<T: Entity>(&self, id: &str) -> Option<T> {
        self.all::<T>().into_iter().find(|entity| entity.id() == id)
    }

    pub(crate) fn workload(&self, name: &str) -> Workload {
        self.find(&Workload::key(&tenant(), name)).unwrap()
    }

    pub(crate) fn submit(&mut self, workspace: &str, name: &str, gpus: u64) -> SubmitOutcome {
        let request = WorkloadRequest {
            tenant: tenant(),
            workspace: workspace.parse().unwrap(),
            name: name.to_owned(),
            class: WorkloadClass::Batch,
            priority: 0,
            preemptible: true,
            checkpoint: Checkpoint::None,
            requests: [(h100(), gpus)].into(),
            together: 0,
            labels: BTreeSet::new(),
        };
        self.decide(|view| admission::submit(view, &request))
    }

    /// Advances the clock by a second and applies the cluster's facts about running workloads.
    pub(crate) fn observe(&mut self, running: &[SeenWorkload]) -> admission::ObservationResult {
        self.now = self.now.after(engine::SECOND);
        let kind = h100().gpu().unwrap().clone();
        let busy = |id: &NodeId| running.iter().filter(|one| one.node == *id).map(SeenWorkload::amount).sum();
        let nodes = self.all::<NodeUse>().into_iter().map(|node| {
            let seen = ObservedKind { usable: 8, busy: busy(&node.node) };
            (node.node, [(kind.clone(), seen)].into())
        });
        let seen = Observation { at: self.now, nodes: nodes.collect() };
        self.decide(|view| admission::observe_running(view, &tenant(), &seen, running))
    }

    /// Returns the indexes of a node's GPUs that are booked for a workload.
    pub(crate) fn booked(&self, name: &str, node: &str) -> BTreeSet<u16> {
        let placed = self.workload(name).placed.into_iter();
        placed.filter(|part| part.node.as_str() == node).flat_map(|part| part.gpus.into_keys()).collect()
    }

    /// Returns the indexes of a node's GPUs that are barred.
    pub(crate) fn barred(&self, node: &str) -> BTreeSet<u16> {
        let gpus = self.find::<NodeUse>(node).unwrap().gpus;
        (0_u16..).zip(gpus).filter(|(_, gpu)| gpu.barred.is_some()).map(|(index, _)| index).collect()
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        let all = invariants::AdmissionState {
            cohort: self.find("acme").unwrap(),
            occupancy: self.find::<Occupancy>("acme"),
            nodes: self.all(),
            workloads: self.all(),
            loans: self.all(),
            open: self.all(),
            queues: self.all(),
            running_lists: self.all(),
            decisions: self.all(),
        };
        invariants::violations(&all).iter().map(ToString::to_string).collect()
    }
}

/// Returns a fact that names each GPU.
pub(crate) fn seen(workload: &str, node: &str, gpus: &[u16]) -> SeenWorkload {
    let gpu = |index: &u16| SeenGpu { uuid: format!("GPU-{node}-{index}"), index: Some(*index) };
    SeenWorkload {
        workload: workload.to_owned(),
        uid: None,
        node: node.parse().unwrap(),
        node_uid: None,
        kind: None,
        count: None,
        gpus: gpus.iter().map(gpu).collect(),
        since: None,
    }
}

fn register(view: &mut View, nodes: &[NodeId]) -> Result<(), Undecided> {
    let by = ExecutionId::from_bytes([1; 16]);
    let cluster: ClusterId = "west-1".parse().unwrap();
    view.put(&Tenant {
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
        cluster: Some(cluster.clone()),
        onboarded_by: by,
        created_at: view.now(),
        activated_at: Some(view.now()),
        closed_at: None,
        multitenancy: None,
    })?;
    view.put(&NodeAllocation {
        tenant: tenant(),
        claimed_by: by,
        cluster: cluster.clone(),
        region: "eu-west".parse().unwrap(),
        model: "H100".parse().unwrap(),
        nodes: BTreeMap::new(),
        quarantined: BTreeSet::new(),
    })?;
    for id in nodes {
        view.put(&Node {
            id: id.clone(),
            cluster: cluster.clone(),
            region: "eu-west".parse().unwrap(),
            gpu: Gpu { model: "H100".parse().unwrap(), count: Gpus(8) },
            cpu_milli: 64_000,
            memory_mib: 262_144,
            chunk: 0,
            owner: Some(tenant()),
            owner_epoch: OwnerEpoch(1),
            claimed_by: Some(by),
            state: NodeState::InService,
            driver_version: None,
        })?;
    }
    Ok(())
}
