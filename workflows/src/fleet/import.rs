//! Applies an inventory to the ledger in one decision: the whole file or nothing.

use super::{
    folded_names,
    nodes::NodeRow,
    site_import::{join, keep, keep_region, made},
    sites::{ClusterRow, RegionRow, presumed},
};
use crate::{
    ledger::pool_index::PoolIndex,
    policy::{self, GpuModels},
    tenancy::{
        Buffer, Cluster, ClusterId, ClusterKind, FreePool, FreePoolChunk, Gpu, GpuModel, Node, NodeState,
        OwnerEpoch, Region, RegionId, canonical_gpu_name,
    },
};
use engine::{ActionError, Undecided, View};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Counts of one GPU model in an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModelReport {
    /// Nodes in the file.
    pub nodes: u32,
    /// Their GPUs.
    pub gpus: u32,
    /// New nodes.
    pub added: u32,
    /// Nodes that already matched the file.
    pub unchanged: u32,
    /// Changed nodes.
    pub changed: u32,
}

/// The result of an import of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Import {
    /// The cluster.
    pub cluster: ClusterId,
    /// The region.
    pub region: RegionId,
    /// By GPU model.
    pub models: BTreeMap<GpuModel, ModelReport>,
    /// Nodes in the file.
    pub nodes: u32,
    /// Their GPUs.
    pub gpus: u32,
    /// New nodes.
    pub added: u32,
    /// Nodes that already matched the file.
    pub unchanged: u32,
    /// Changed nodes.
    pub changed: u32,
    /// Nodes of the cluster that the file does not contain. They are not changed.
    pub missing: u32,
    /// Skipped nodes of the file without GPUs.
    pub without_gpus: u32,
    /// True if the cluster has no real target.
    pub simulated: bool,
    /// Assumptions that an operator should check.
    pub notes: Vec<String>,
}

/// Imports nodes into `cluster` in `region`. Creates both if they are unknown: a simulated Kubernetes cluster, and a region in the jurisdiction that its name
/// begins with. Run it with [`engine::decide`] and commit its reads and writes.
///
/// # Errors
/// Undecided until the view has loaded every needed document. Permanent, naming every row: `fleet.region_differs`, and `fleet.rows_refused` for nodes that
/// belong to another cluster or changes of a node in use.
pub fn import_nodes(
    view: &mut View,
    rows: &[NodeRow],
    cluster: &ClusterId,
    region: &RegionId,
) -> Result<Import, Undecided> {
    let mut notes = Vec::new();
    let mut home = site(view, cluster, region, &mut notes)?;
    let catalogue = policy::in_force(view)?.gpu_models;
    let rows = &by_aliases(&catalogue, rows, &mut notes);
    unknown_models(&catalogue, rows, &mut notes);
    let existing = existing(view, rows, &home)?;
    let mut report = Import {
        cluster: cluster.clone(),
        region: region.clone(),
        models: BTreeMap::new(),
        nodes: 0,
        gpus: 0,
        added: 0,
        unchanged: 0,
        changed: 0,
        missing: 0,
        without_gpus: 0,
        simulated: home.is_simulated(),
        notes,
    };
    let mut shelves = PoolIndex::default();
    let mut refused = Vec::new();
    for (row, old) in rows.iter().zip(existing) {
        if old.as_ref().is_some_and(|old| old.state == NodeState::Retired) {
            report.notes.push(format!("line {}: node {} is retired and unchanged", row.line, row.node));
            continue;
        }
        let fate = apply(view, &mut shelves, row, old, (&home, &catalogue), &mut refused)?;
        count(&mut report, row, fate);
    }
    if !refused.is_empty() {
        return Err(ActionError::permanent("fleet.rows_refused", refused.join("\n")).into());
    }
    home.models.extend(rows.iter().map(|row| row.model.clone()));
    let known = total(view, &shelves, &home)?;
    report.missing = known.saturating_sub(report.nodes);
    if report.added > 0 || report.changed > 0 {
        shelves.save(view)?;
    }
    keep(view, &home)?;
    Ok(report)
}

/// Returns the rows with aliases replaced by their models. Each replacement is noted.
fn by_aliases(known: &GpuModels, rows: &[NodeRow], notes: &mut Vec<String>) -> Vec<NodeRow> {
    let names: BTreeSet<&GpuModel> = rows.iter().map(|row| &row.model).collect();
    for name in names {
        let model = known.named(name);
        if model != *name {
            notes.push(format!("{name} is an alias of {model} in the policy"));
        }
    }
    rows.iter().map(|row| NodeRow { model: known.named(&row.model), ..row.clone() }).collect()
}

/// Notes models that policy does not know, each with the most similar known model.
fn unknown_models(known: &GpuModels, rows: &[NodeRow], notes: &mut Vec<String>) {
    let models: BTreeSet<&GpuModel> = rows.iter().map(|row| &row.model).collect();
    let unknown = models.into_iter().filter_map(|model| known.unknown(model));
    notes.extend(unknown.take(MOST_UNKNOWN));
}

/// The most notes on unknown models.
const MOST_UNKNOWN: usize = 8;

/// The action for one row.
enum Fate {
    Added,
    Unchanged,
    Changed,
    Refused,
}

fn apply(
    view: &mut View,
    shelves: &mut PoolIndex,
    row: &NodeRow,
    old: Option<Node>,
    (home, catalogue): (&Cluster, &GpuModels),
    refused: &mut Vec<String>,
) -> Result<Fate, Undecided> {
    let Some(old) = old else {
        if let Some(other) = folded_names::same_name(view, &row.node)? {
            refused.push(format!(
                "line {}: the name of node {} differs from node {other} only in upper and lower case; use another name",
                row.line, row.node
            ));
            return Ok(Fate::Refused);
        }
        folded_names::list(view, &row.node)?;
        let mut node = fresh(row, home);
        shelves.enlist(view, &mut node)?;
        view.put(&node)?;
        return Ok(Fate::Added);
    };
    if old.cluster != home.id {
        let (line, node, cluster) = (row.line, &row.node, &old.cluster);
        refused.push(format!(
            "line {line}: node {node} belongs to cluster {cluster}; if it is free, move it with `tenure nodes move {node} --cluster {}`",
            home.id
        ));
        return Ok(Fate::Refused);
    }
    let mut node =
        Node { gpu: gpu(row), cpu_milli: row.cpu_milli, memory_mib: row.memory_mib, ..old.clone() };
    folded_names::list(view, &row.node)?;
    if node == old {
        return Ok(Fate::Unchanged);
    }
    if old.state != NodeState::Free {
        if is_respelled(&old, &node, catalogue) {
            return Ok(Fate::Unchanged);
        }
        let (state, owner) =
            (<&str>::from(old.state), old.owner.as_ref().map_or("nobody", |owner| owner.as_str()));
        refused.push(format!(
            "line {}: node {} is {state} and belongs to {owner}; it can be changed only while it is free",
            row.line, row.node
        ));
        return Ok(Fate::Refused);
    }
    shelves.delist(view, &old)?;
    shelves.enlist(view, &mut node)?;
    view.put(&node)?;
    Ok(Fate::Changed)
}

/// Returns true if `new` only has another name of the same model, which changes nothing for a tenant.
fn is_respelled(old: &Node, new: &Node, catalogue: &GpuModels) -> bool {
    let respelled = Node { gpu: Gpu { model: old.gpu.model.clone(), ..new.gpu.clone() }, ..new.clone() };
    let model = &new.gpu.model;
    let same = canonical_gpu_name(old.gpu.model.as_str()).0 == model.as_str();
    respelled == *old && (same || catalogue.named(&old.gpu.model) == *model)
}

fn count(report: &mut Import, row: &NodeRow, fate: Fate) {
    let model = report.models.entry(row.model.clone()).or_default();
    for (nodes, gpus) in [(&mut model.nodes, &mut model.gpus), (&mut report.nodes, &mut report.gpus)] {
        *nodes = nodes.saturating_add(1);
        *gpus = gpus.saturating_add(row.gpus.0);
    }
    let counters = match fate {
        Fate::Added => [&mut model.added, &mut report.added],
        Fate::Unchanged => [&mut model.unchanged, &mut report.unchanged],
        Fate::Changed => [&mut model.changed, &mut report.changed],
        Fate::Refused => return,
    };
    for counter in counters {
        *counter = counter.saturating_add(1);
    }
}

fn gpu(row: &NodeRow) -> Gpu {
    Gpu { model: row.model.clone(), count: row.gpus }
}

fn fresh(row: &NodeRow, home: &Cluster) -> Node {
    Node {
        id: row.node.clone(),
        cluster: home.id.clone(),
        region: home.region.clone(),
        gpu: gpu(row),
        cpu_milli: row.cpu_milli,
        memory_mib: row.memory_mib,
        chunk: 0,
        owner: None,
        owner_epoch: OwnerEpoch::default(),
        claimed_by: None,
        state: NodeState::Free,
        driver_version: None,
    }
}

/// Returns the existing nodes of the rows. Requests all documents of the decision in two rounds.
fn existing(view: &mut View, rows: &[NodeRow], home: &Cluster) -> Result<Vec<Option<Node>>, Undecided> {
    view.prefetch::<Node>(rows.iter().map(|row| row.node.to_string()))?;
    folded_names::prefetch(view, rows.iter().map(|row| &row.node))?;
    let models: BTreeSet<&GpuModel> = home.models.iter().chain(rows.iter().map(|row| &row.model)).collect();
    view.prefetch::<FreePool>(models.iter().map(|model| FreePool::key(&home.id, model)))?;
    let mut chunks = Vec::new();
    for model in models {
        let pool = view.get::<FreePool>(&FreePool::key(&home.id, model))?;
        let have = pool.map_or(0, |pool| pool.chunks.len());
        let coming = rows.iter().filter(|row| row.model == *model).count();
        let most = have + coming.div_ceil(FreePool::CHUNK_NODES as usize) + 1;
        chunks.extend(
            (0..u32::try_from(most).unwrap_or(u32::MAX))
                .map(|number| FreePoolChunk::key(&home.id, model, number)),
        );
    }
    view.prefetch::<FreePoolChunk>(chunks)?;
    rows.iter().map(|row| view.get::<Node>(row.node.as_str())).collect()
}

/// Returns the number of the cluster's nodes after the import.
fn total(view: &mut View, shelves: &PoolIndex, home: &Cluster) -> Result<u32, Undecided> {
    let mut sum = 0_u32;
    for model in &home.models {
        let key = FreePool::key(&home.id, model);
        let pool = match shelves.changed(&key) {
            Some(pool) => Some(pool.clone()),
            None => view.get::<FreePool>(&key)?,
        };
        sum = sum.saturating_add(pool.map_or(0, |pool| pool.nodes()));
    }
    Ok(sum)
}

/// Returns the cluster; creates it with its region if it is unknown.
fn site(
    view: &mut View,
    cluster: &ClusterId,
    region: &RegionId,
    notes: &mut Vec<String>,
) -> Result<Cluster, Undecided> {
    if let Some(known) = view.get::<Cluster>(cluster.as_str())? {
        if known.region != *region {
            let problem = format!("cluster {cluster} is in region {}, not {region}", known.region);
            return Err(ActionError::permanent("fleet.region_differs", problem).into());
        }
        return Ok(known);
    }
    if view.get::<Region>(region.as_str())?.is_none() {
        let law = presumed(region).ok_or_else(|| {
            ActionError::permanent(
                "fleet.region_unknown",
                format!("import region {region} with a YAML file first"),
            )
        })?;
        notes.push(format!("region {region} is new, and is assumed to be under the law of {law}"));
        let row = RegionRow { id: region.clone(), jurisdiction: law, buffer: Buffer::default() };
        keep_region(view, &row)?;
    }
    notes.push(format!("cluster {cluster} is new, and is assumed to be a shared Kubernetes cluster"));
    let row = ClusterRow {
        id: cluster.clone(),
        region: region.clone(),
        provider: "unknown".into(),
        kind: ClusterKind::Kubernetes,
        dedicated: false,
        backend: Cluster::SIMULATED.into(),
    };
    join(view, &row)?;
    Ok(made(&row, None))
}
