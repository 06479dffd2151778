//! Changes of a tenant's nodes in its account: takes nodes into and out of service, partitions GPUs, and handles lost nodes.

use crate::{
    scheduling::admission::{
        AdmissionEffects,
        apply_loans::SettlementCause,
        codes,
        unit_of_work::{AdmissionTx, corrupt},
    },
    tenancy::{
        Entitlement, GpuBars, GpuOffer, GpuUse, Node, NodeId, NodeUse, Occupancy, Profile, TenantId,
        UuidsByNode, Workload, WorkloadState,
    },
};
use engine::{ActionError, Undecided, View};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Takes nodes of the tenant into service, so that their GPUs can be assigned, whole or as the slices that the tenant bought. Safe to repeat; a node that was
/// out of service returns with all workloads that run on it. Every node must belong to the tenant (S-40).
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `ledger.books_differ` for another tenant's node, `occupancy.full`.
pub fn serve_nodes(
    view: &mut View,
    tenant: &TenantId,
    nodes: &[NodeId],
) -> Result<AdmissionEffects, Undecided> {
    let ids = || nodes.iter().map(ToString::to_string);
    let mut desk =
        AdmissionTx::open(view, tenant, [view.prefetch::<Node>(ids()), view.prefetch::<NodeUse>(ids())])?;
    let bought = view.get::<Entitlement>(tenant.as_str())?;
    for id in nodes {
        let node = view.require::<Node>(id.as_str())?;
        if node.owner.as_ref() != Some(tenant) {
            return Err(corrupt(format!("node {id} is not tenant {tenant}'s")));
        }
        desk.occupancy.get_or_insert_with(|| {
            Arc::new(Occupancy {
                tenant: tenant.clone(),
                cluster: node.cluster.clone(),
                region: node.region.clone(),
                nodes: BTreeMap::new(),
                drifts: 0,
            })
        });
        let left = view.get::<NodeUse>(id.as_str())?.filter(|left| left.epoch != node.owner_epoch);
        if let Some(workload) =
            left.as_ref().and_then(|left| left.workloads().first().map(ToString::to_string))
        {
            return Err(corrupt(format!("node {id} lists {workload}, which belongs to an earlier owner")));
        }
        if let Some(left) = left.filter(|left| left.tenant == *tenant) {
            desk.count_node(&left, false);
        }
        let there = desk.node(view, id)?.filter(|there| there.epoch == node.owner_epoch).cloned();
        match there {
            Some(there) if there.serving => {}
            Some(_) => desk.change_node(view, id, |there| there.serving = true)?,
            None => desk.add_node(&node, &Entitlement::offer_of(bought.as_ref(), &node.gpu.model)),
        }
    }
    let listed = desk.occupancy.as_ref().map_or(0, |occupancy| occupancy.nodes.len());
    if listed > Occupancy::MOST_NODES {
        let problem = format!("tenant {tenant} would have {listed} nodes in service, more than the limit");
        return Err(ActionError::permanent(codes::OCCUPANCY_FULL, problem).into());
    }
    desk.settle_all(view)?;
    desk.admit_waiting(view)?;
    desk.save(view)
}

/// Takes nodes out of service: no new workload is placed on them. Returns the workloads that still run on each. Tolerates nodes that are not the tenant's.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn rest_nodes(
    view: &mut View,
    tenant: &TenantId,
    nodes: &[NodeId],
) -> Result<BTreeMap<NodeId, BTreeSet<String>>, Undecided> {
    let wants = view.prefetch::<NodeUse>(nodes.iter().map(ToString::to_string));
    let mut desk = AdmissionTx::open(view, tenant, [wants])?;
    let mut running = BTreeMap::new();
    for id in nodes {
        if desk.node(view, id)?.is_some() {
            desk.change_node(view, id, |node| node.serving = false)?;
        }
    }
    desk.drop_earmarks(view, nodes)?;
    for id in nodes {
        if let Some(node) = desk.node(view, id)? {
            running.insert(id.clone(), node.workloads().into_iter().map(ToOwned::to_owned).collect());
        }
    }
    desk.admit_waiting(view)?;
    desk.save(view)?;
    Ok(running)
}

/// Removes nodes from the tenant's account. They must run no workload. Tolerates removed nodes.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `node.busy`.
pub fn forget_nodes(view: &mut View, tenant: &TenantId, nodes: &[NodeId]) -> Result<(), Undecided> {
    let wants = view.prefetch::<NodeUse>(nodes.iter().map(ToString::to_string));
    let mut desk = AdmissionTx::open(view, tenant, [wants])?;
    for id in nodes {
        let Some(node) = desk.node(view, id)?.cloned() else { continue };
        if let Some(workload) = node.workloads().first() {
            let problem = format!("workload {workload} of tenant {tenant} runs on node {id}");
            return Err(ActionError::permanent(codes::NODE_BUSY, problem).into());
        }
        desk.count_node(&node, false);
        desk.update_occupancy(&NodeUse { serving: false, ..node });
        desk.keep_node(id, None);
    }
    desk.settle_all(view)?;
    desk.save(view)?;
    Ok(())
}

/// Records the loss of nodes with all their workloads. The workloads return to their old places in the queue, even if they also ran on other nodes, and their
/// loans are written off. Returns these workloads.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn lose_nodes(
    view: &mut View,
    tenant: &TenantId,
    nodes: &[NodeId],
) -> Result<(BTreeSet<String>, AdmissionEffects), Undecided> {
    let wants = view.prefetch::<NodeUse>(nodes.iter().map(ToString::to_string));
    let mut desk = AdmissionTx::open(view, tenant, [wants])?;
    let mut lost = BTreeSet::new();
    for id in nodes {
        let Some(node) = desk.node(view, id)? else { continue };
        lost.extend(node.workloads().into_iter().map(ToOwned::to_owned));
        desk.change_node(view, id, |node| node.serving = false)?;
    }
    view.prefetch::<Workload>(lost.iter().map(|name| Workload::key(tenant, name)))?;
    desk.drop_earmarks(view, nodes)?;
    let mut gone = BTreeSet::new();
    for name in lost {
        let workload = desk.need_workload(view, &name)?;
        match workload.state {
            WorkloadState::Admitted | WorkloadState::Reclaimed { .. } => {
                desk.vacate(view, &workload, SettlementCause::Lost(&name))?;
                desk.requeue(view, workload, None)?;
                gone.insert(name);
            }
            WorkloadState::Waiting | WorkloadState::Finished | WorkloadState::Rejected => {}
        }
    }
    desk.admit_waiting(view)?;
    Ok((gone, desk.save(view)?))
}

/// Partitions GPUs of a node into `slices` slices of `profile`, or makes them whole again. Partitions only unused GPUs (S-44).
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `node.busy` while a GPU is in use, `ledger.books_differ` for unknown GPUs.
pub fn cut_gpus(
    view: &mut View,
    tenant: &TenantId,
    node: &NodeId,
    gpus: &BTreeSet<u16>,
    cut: Option<(&Profile, u16)>,
) -> Result<AdmissionEffects, Undecided> {
    let mut desk = AdmissionTx::open(view, tenant, [view.prefetch::<NodeUse>([node.to_string()])])?;
    let found =
        desk.node(view, node)?.ok_or_else(|| corrupt(format!("tenant {tenant} has no node {node}")))?;
    for index in gpus {
        let gpu = found.gpus.get(usize::from(*index));
        let gpu = gpu.ok_or_else(|| corrupt(format!("node {node} has no GPU {index}")))?;
        if let Some(user) = gpu.users.first() {
            let problem = format!("GPU {index} of node {node} is used by {}", user.workload);
            return Err(ActionError::permanent(codes::NODE_BUSY, problem).into());
        }
    }
    desk.change_node(view, node, |node| {
        for index in gpus {
            if let Some(gpu) = node.gpus.get_mut(usize::from(*index)) {
                gpu.profile = cut.map(|(profile, _)| profile.clone());
                gpu.slices = cut.map_or(1, |(_, slices)| slices);
            }
        }
    })?;
    desk.settle_all(view)?;
    desk.admit_waiting(view)?;
    desk.save(view)
}

/// Bars a GPU from assignment, for example after a failed scrub, or lifts the bar. A workload that uses it keeps running.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `ledger.books_differ` for an unknown GPU.
pub fn bar_gpu(
    view: &mut View,
    tenant: &TenantId,
    node: &NodeId,
    gpu: u16,
    why: Option<&str>,
) -> Result<AdmissionEffects, Undecided> {
    bar_gpus(view, tenant, &[(node.clone(), gpu)], why)
}

/// Bars several GPUs, or lifts their bars. No workload is admitted until all are barred.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `ledger.books_differ` for an unknown GPU.
pub fn bar_gpus(
    view: &mut View,
    tenant: &TenantId,
    gpus: &[(NodeId, u16)],
    why: Option<&str>,
) -> Result<AdmissionEffects, Undecided> {
    bar_known(view, tenant, gpus, &BTreeMap::new(), why)
}

/// Bars the GPUs that `workload` used last. A GPU whose UUID was observed with the workload stays barred at any index.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `ledger.books_differ` for an unknown GPU.
pub fn bar_gpus_after(
    view: &mut View,
    tenant: &TenantId,
    gpus: &[(NodeId, u16)],
    workload: &str,
    why: &str,
) -> Result<AdmissionEffects, Undecided> {
    let last = view.get::<Workload>(&Workload::key(tenant, workload))?;
    let seen = last.and_then(|workload| workload.observed);
    let uuids = seen.map(|seen| seen.uuids()).unwrap_or_default();
    bar_known(view, tenant, gpus, &uuids, Some(why))
}

fn bar_known(
    view: &mut View,
    tenant: &TenantId,
    gpus: &[(NodeId, u16)],
    uuids: &UuidsByNode,
    why: Option<&str>,
) -> Result<AdmissionEffects, Undecided> {
    let wants = view.prefetch::<NodeUse>(gpus.iter().map(|(node, _)| node.to_string()));
    let mut desk = AdmissionTx::open(view, tenant, [wants])?;
    for (node, gpu) in gpus {
        let found = desk.node(view, node)?.and_then(|found| found.gpus.get(usize::from(*gpu)));
        found.ok_or_else(|| corrupt(format!("tenant {tenant} has no GPU {gpu} on node {node}")))?;
        desk.change_node(view, node, |node| {
            let uuid = uuids.get(&node.node).and_then(|uuids| uuids.get(gpu));
            node.bar(*gpu, uuid.map(String::as_str), why);
        })?;
    }
    let nodes: BTreeSet<NodeId> = gpus.iter().map(|(node, _)| node.clone()).collect();
    desk.drop_earmarks(view, &nodes.into_iter().collect::<Vec<_>>())?;
    desk.admit_waiting(view)?;
    desk.save(view)
}

impl AdmissionTx {
    fn add_node(&mut self, node: &Node, offer: &GpuOffer) {
        let profile = offer.kind.profile.clone();
        let free = GpuUse { profile, slices: offer.per_gpu, users: Vec::new(), barred: None };
        let use_ = NodeUse {
            node: node.id.clone(),
            tenant: self.tenant.id.clone(),
            epoch: node.owner_epoch,
            gpus: vec![free; usize::try_from(node.gpu.count.0).unwrap_or(0)],
            model: node.gpu.model.clone(),
            serving: true,
            changed_at: self.now,
            bars: GpuBars::default(),
        };
        self.count_node(&use_, true);
        self.update_occupancy(&use_);
        self.keep_node(&node.id, Some(use_));
    }
}
