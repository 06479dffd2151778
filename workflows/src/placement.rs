//! Chooses free nodes for a tenant: a pure function that explains the effect of each constraint.
//!
//! A placement is in one cluster, because GPUs of one tenant share one interconnect and a workflow acts on one cluster (S-5). A node has one owner, so GPUs
//! beyond the requested number are wasted; the choice wastes as few as possible. Invariant (I-22): the chosen nodes are within the residency and have the
//! requested model.

mod anti_colocation;
pub(crate) mod best_fit;

pub use anti_colocation::ClassesApart;

use crate::tenancy::{
    ClusterId, ClusterKind, GpuModel, Gpus, Isolation, Jurisdiction, NodeId, RegionId, Residency, Tenancy,
    TenantId, WorkspaceClass,
};
use anti_colocation::beside_a_class_kept_apart;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The requested nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRequest {
    /// The only allowed model.
    pub model: GpuModel,
    /// The number of GPUs.
    pub gpus: Gpus,
}

/// The constraints of a placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraints {
    /// The tenant.
    pub tenant: TenantId,
    /// The allowed locations of workloads and data.
    pub residency: Residency,
    /// The regions that were bought or approved; `None` for any.
    pub regions: Option<BTreeSet<RegionId>>,
    /// The only allowed cluster, if nodes join others.
    pub cluster: Option<ClusterId>,
    /// Selects shared or dedicated clusters.
    pub isolation: Isolation,
    /// The approved kind of cluster, which determines the objects to create.
    pub kind: Option<ClusterKind>,
    /// True if the approved clusters were simulated.
    pub simulated: Option<bool>,
    /// GPUs that policy reserves in each region.
    pub buffer: Gpus,
    /// The reserve by region, where it differs.
    pub buffers: BTreeMap<RegionId, Gpus>,
    /// The allowed driver versions of a node, as prefixes. A node with an unknown version may be chosen.
    pub drivers: Vec<String>,
    /// The pins of the tenant's labels to clusters (S-13). It may be in no other cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pins: BTreeMap<String, ClusterId>,
    /// Classes that may not be in the same cluster as a class of the tenant (S-14). Checked only for a tenant's first nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<ClassesApart>,
}

impl Constraints {
    /// Returns true if a node with this driver may be chosen.
    #[must_use]
    pub fn allows_driver(&self, version: Option<&str>) -> bool {
        version.is_none_or(|version| self.drivers.iter().any(|allowed| version.starts_with(allowed.as_str())))
    }
}

/// A cluster, with the facts for a choice. Counts are for the requested model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The cluster.
    pub cluster: ClusterId,
    /// The region.
    pub region: RegionId,
    /// The jurisdiction.
    pub jurisdiction: Jurisdiction,
    /// The scheduler.
    pub kind: ClusterKind,
    /// True if it has no real target.
    pub simulated: bool,
    /// The tenancy.
    pub tenancy: Tenancy,
    /// All GPUs.
    pub total: Gpus,
    /// Free GPUs.
    pub free: Gpus,
    /// GPUs that its region reserves, over all its clusters.
    pub buffer: Gpus,
    /// Problems of its target that prevent an onboarding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unready: Vec<String>,
    /// The classes of other tenants' workspaces in the cluster. Empty if no rule depends on them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub classes: BTreeSet<WorkspaceClass>,
}

/// Free nodes of the requested model, by cluster.
pub type FreeNodes = BTreeMap<ClusterId, BTreeMap<NodeId, Gpus>>;

/// The chosen nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The cluster of all nodes.
    pub cluster: ClusterId,
    /// The region.
    pub region: RegionId,
    /// The nodes and their GPUs.
    pub nodes: BTreeMap<NodeId, Gpus>,
    /// GPUs beyond the requested number.
    pub wasted: Gpus,
    /// The effect of each constraint.
    pub considered: Vec<ConstraintEffect>,
}

/// Too few GPUs are free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityShortage {
    /// The requested model.
    pub model: GpuModel,
    /// The requested number, in one cluster.
    pub asked: Gpus,
    /// Free GPUs above the reserve, in the cluster with the most.
    pub free: Gpus,
    /// Free GPUs above the reserve, by cluster.
    pub by_cluster: BTreeMap<ClusterId, Gpus>,
    /// The effect of each constraint.
    pub considered: Vec<ConstraintEffect>,
}

/// One constraint's effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintEffect {
    /// The constraint.
    pub constraint: String,
    /// Clusters before it.
    pub before: Vec<ClusterId>,
    /// The clusters that it excluded, with reasons.
    pub excluded: BTreeMap<ClusterId, String>,
}

impl ConstraintEffect {
    /// Returns the clusters after it.
    #[must_use]
    pub fn remaining(&self) -> Vec<ClusterId> {
        self.before.iter().filter(|cluster| !self.excluded.contains_key(*cluster)).cloned().collect()
    }

    /// Returns a description with at most `most` of the excluded clusters.
    #[must_use]
    pub fn describe(&self, most: usize) -> String {
        if self.before.is_empty() {
            return "no cluster exists: import a fleet".to_owned();
        }
        let mut said = format!("{} of {} clusters left", self.remaining().len(), self.before.len());
        for (cluster, why) in self.excluded.iter().take(most) {
            said.push_str(&format!("; {cluster} {why}"));
        }
        said
    }
}

/// Chooses nodes for `ask`: fewest wasted GPUs, then fewest nodes, then the first cluster and nodes by name.
///
/// # Errors
/// [`CapacityShortage`] if no allowed cluster has enough free GPUs.
pub fn place(
    candidates: &[Candidate],
    stock: &FreeNodes,
    ask: &NodeRequest,
    constraints: &Constraints,
) -> Result<Placement, CapacityShortage> {
    let (allowed, considered) = eligible(candidates, constraints);
    let mut best: Option<Placement> = None;
    for candidate in &allowed {
        let usable = usable(candidate, candidates, constraints);
        let Some(nodes) = stock.get(&candidate.cluster).and_then(|free| pick(free, ask.gpus, usable)) else {
            continue;
        };
        let taken: Gpus = nodes.values().copied().sum();
        let placement = Placement {
            cluster: candidate.cluster.clone(),
            region: candidate.region.clone(),
            wasted: taken.saturating_sub(ask.gpus),
            nodes,
            considered: considered.clone(),
        };
        let rank = |p: &Placement| (p.wasted, p.nodes.len(), p.cluster.clone());
        if best.as_ref().is_none_or(|so_far| rank(&placement) < rank(so_far)) {
            best = Some(placement);
        }
    }
    best.ok_or_else(|| short(candidates, &allowed, considered, ask, constraints))
}

fn short(
    candidates: &[Candidate],
    allowed: &[&Candidate],
    considered: Vec<ConstraintEffect>,
    ask: &NodeRequest,
    constraints: &Constraints,
) -> CapacityShortage {
    let by_cluster: BTreeMap<_, _> =
        allowed.iter().map(|c| (c.cluster.clone(), usable(c, candidates, constraints))).collect();
    let free = by_cluster.values().copied().max().unwrap_or_default();
    CapacityShortage { model: ask.model.clone(), asked: ask.gpus, free, by_cluster, considered }
}

/// Returns the clusters that the constraints allow, and the effect of each constraint. Ignores free counts.
#[must_use]
pub fn eligible<'a>(
    candidates: &'a [Candidate],
    constraints: &Constraints,
) -> (Vec<&'a Candidate>, Vec<ConstraintEffect>) {
    let mut left: Vec<&Candidate> = candidates.iter().collect();
    left.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    let mut considered = Vec::new();
    let rules: [(&str, Rule); 8] = [
        ("gpu model", lacks_model),
        ("region", outside_region),
        ("data residency", outside_residency),
        ("isolation", of_other_tenancy),
        ("approved kind", of_other_kind),
        ("pins", off_the_pin),
        ("readiness", not_ready),
        ("anti colocate", beside_a_class_kept_apart),
    ];
    for (constraint, excludes) in rules {
        if constraint == "pins" && constraints.pins.is_empty() {
            continue;
        }
        if constraint == "anti colocate" && (constraints.apart.is_empty() || constraints.cluster.is_some()) {
            continue;
        }
        if constraint == "readiness" && candidates.iter().all(|candidate| candidate.unready.is_empty()) {
            continue;
        }
        let excluded: BTreeMap<_, _> =
            left.iter().filter_map(|c| Some((c.cluster.clone(), excludes(c, constraints)?))).collect();
        let before = left.iter().map(|c| c.cluster.clone()).collect();
        left.retain(|c| !excluded.contains_key(&c.cluster));
        considered.push(ConstraintEffect { constraint: constraint.into(), before, excluded });
    }
    (left, considered)
}

/// Returns the reason to exclude a cluster, if any.
type Rule = fn(&Candidate, &Constraints) -> Option<String>;

fn lacks_model(candidate: &Candidate, _: &Constraints) -> Option<String> {
    (candidate.total == Gpus::ZERO).then(|| "has no GPU of this model".into())
}

fn outside_region(candidate: &Candidate, constraints: &Constraints) -> Option<String> {
    if constraints.cluster.as_ref().is_some_and(|cluster| *cluster != candidate.cluster) {
        return Some("is not the cluster of the tenant's nodes".into());
    }
    let regions = constraints.regions.as_ref()?;
    (!regions.contains(&candidate.region)).then(|| format!("is in region {}", candidate.region))
}

fn outside_residency(candidate: &Candidate, constraints: &Constraints) -> Option<String> {
    let allowed = constraints.residency.allows(&candidate.jurisdiction);
    (!allowed).then(|| {
        format!(
            "is under the law of {}, outside {}",
            candidate.jurisdiction,
            constraints.residency.describe()
        )
    })
}

fn off_the_pin(candidate: &Candidate, constraints: &Constraints) -> Option<String> {
    let off = constraints.pins.iter().find(|(_, cluster)| **cluster != candidate.cluster);
    off.map(|(label, cluster)| format!("is not {cluster}, where {label} is pinned"))
}

/// An onboarding needs a cluster whose target can check the isolation. Nodes that join others need no check.
fn not_ready(candidate: &Candidate, constraints: &Constraints) -> Option<String> {
    let onboards = constraints.cluster.is_none();
    (onboards && !candidate.unready.is_empty())
        .then(|| format!("is not ready: {}", candidate.unready.join("; ")))
}

fn of_other_tenancy(candidate: &Candidate, constraints: &Constraints) -> Option<String> {
    match (constraints.isolation, &candidate.tenancy) {
        (Isolation::DedicatedCluster, Tenancy::Shared) => Some("is shared, not dedicated".into()),
        (Isolation::DedicatedCluster, Tenancy::Dedicated { tenant: Some(other) })
            if *other != constraints.tenant =>
        {
            Some("belongs to another tenant".into())
        }
        (Isolation::DedicatedNodes | Isolation::SharedSlices, Tenancy::Dedicated { .. }) => {
            Some("is reserved for tenants with their own cluster".into())
        }
        (Isolation::DedicatedCluster, Tenancy::Dedicated { .. })
        | (Isolation::DedicatedNodes | Isolation::SharedSlices, Tenancy::Shared) => None,
    }
}

fn of_other_kind(candidate: &Candidate, constraints: &Constraints) -> Option<String> {
    if constraints.kind.is_some_and(|kind| kind != candidate.kind) {
        return Some(format!("is of kind {}, which was not approved", <&str>::from(candidate.kind)));
    }
    let other = constraints.simulated.is_some_and(|simulated| simulated != candidate.simulated);
    other.then(|| if candidate.simulated { "is simulated" } else { "is real" }.into())
}

/// Returns the GPUs of a cluster that can be used above its region's reserve.
#[must_use]
pub fn usable(candidate: &Candidate, all: &[Candidate], constraints: &Constraints) -> Gpus {
    let in_region: Gpus = all.iter().filter(|c| c.region == candidate.region).map(|c| c.free).sum();
    candidate.free.min(in_region.saturating_sub(buffer(candidate, constraints)))
}

/// Returns the reserve in a candidate's region: the larger one of the region's and policy's.
#[must_use]
pub fn buffer(candidate: &Candidate, constraints: &Constraints) -> Gpus {
    let policy = constraints.buffers.get(&candidate.region).copied().unwrap_or(constraints.buffer);
    candidate.buffer.max(policy)
}

/// Returns nodes of `free` with at least `asked` and at most `usable` GPUs: fewest GPUs, then fewest nodes, then first by name.
fn pick(free: &BTreeMap<NodeId, Gpus>, asked: Gpus, usable: Gpus) -> Option<BTreeMap<NodeId, Gpus>> {
    let mut by_size: BTreeMap<u32, Vec<&NodeId>> = BTreeMap::new();
    for (node, gpus) in free.iter().filter(|(_, gpus)| gpus.0 > 0) {
        by_size.entry(gpus.0).or_default().push(node);
    }
    let largest = by_size.keys().next_back().copied()?;
    let reach = asked.0.checked_add(largest)?.min(usable.0);
    let shelves: Vec<(u32, u32)> = by_size
        .iter()
        .rev()
        .map(|(size, nodes)| (*size, u32::try_from(nodes.len()).unwrap_or(u32::MAX)))
        .collect();
    let counts = fewest(&shelves, asked.0, reach)?;
    let chosen = by_size.iter().rev().zip(counts).flat_map(|((size, nodes), count)| {
        nodes.iter().take(count as usize).map(|node| ((*node).clone(), Gpus(*size)))
    });
    Some(chosen.collect())
}

/// Returns the number from each group (size, stock) with the smallest total within `asked..=reach`, with the fewest nodes.
fn fewest(shelves: &[(u32, u32)], asked: u32, reach: u32) -> Option<Vec<u32>> {
    let mut best = vec![None; reach as usize + 1];
    *best.first_mut()? = Some(0_u32);
    let mut used = Vec::new();
    for (size, stock) in shelves {
        let (next, taken) = with_shelf(&best, *size as usize, *stock as usize);
        best = next;
        used.push(taken);
    }
    let mut left =
        (asked as usize..=reach as usize).find(|total| best.get(*total).copied().flatten().is_some())?;
    let mut counts = Vec::new();
    for ((size, _), taken) in shelves.iter().zip(&used).rev() {
        let count = taken.get(left).copied()?;
        left = left.checked_sub(count as usize * *size as usize)?;
        counts.push(count);
    }
    counts.reverse();
    Some(counts)
}

/// Returns the totals that are reachable with up to `stock` more nodes of `size`, each with the fewest nodes, and their number. One pass per remainder with a
/// sliding minimum, so that large requests stay fast.
fn with_shelf(best: &[Option<u32>], size: usize, stock: usize) -> (Vec<Option<u32>>, Vec<u32>) {
    let (mut next, mut taken) = (vec![None; best.len()], vec![0; best.len()]);
    for remainder in 0..size.min(best.len()) {
        let mut window: VecDeque<(usize, i64)> = VecDeque::new();
        for (turn, total) in (remainder..best.len()).step_by(size).enumerate() {
            if let Some(pieces) = best.get(total).copied().flatten() {
                let cost = i64::from(pieces) - as_i64(turn);
                while window.back().is_some_and(|(_, worse)| *worse > cost) {
                    window.pop_back();
                }
                window.push_back((turn, cost));
            }
            while window.front().is_some_and(|(first, _)| turn - first > stock) {
                window.pop_front();
            }
            let Some((first, cost)) = window.front() else { continue };
            if let (Some(slot), Some(count)) = (next.get_mut(total), taken.get_mut(total)) {
                *slot = u32::try_from(cost + as_i64(turn)).ok();
                *count = u32::try_from(turn - first).unwrap_or(u32::MAX);
            }
        }
    }
    (next, taken)
}

fn as_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
