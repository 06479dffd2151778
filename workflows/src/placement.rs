//! Where a tenant's GPUs come from: a pure choice of free nodes, explained constraint by constraint.
//!
//! A placement lies in one cluster: GPUs of one tenant work together over one interconnect, and a workflow acts on one
//! cluster (S-5). Nodes are whole: a node has one owner, so GPUs beyond the number asked for are wasted, and as few as
//! possible are. Invariant (I-22): no node outside the residency is ever chosen, nor one of another model.

pub(crate) mod best_fit;

use crate::tenancy::{
    ClusterId, ClusterKind, GpuModel, Gpus, Isolation, Jurisdiction, NodeId, RegionId, Residency, Tenancy,
    TenantId,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRequest {
    /// The only model that will do.
    pub model: GpuModel,
    /// How many.
    pub gpus: Gpus,
}

/// What a placement must keep to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraints {
    /// For whom.
    pub tenant: TenantId,
    /// Where work and data may be.
    pub residency: Residency,
    /// The regions that were bought or approved; `None` for any.
    pub regions: Option<BTreeSet<RegionId>>,
    /// The only cluster that will do, when nodes join others.
    pub cluster: Option<ClusterId>,
    /// Decides between shared and dedicated clusters.
    pub isolation: Isolation,
    /// The kind of cluster that was approved, since it decides which objects are made.
    pub kind: Option<ClusterKind>,
    /// Whether the approved clusters were simulated.
    pub simulated: Option<bool>,
    /// GPUs that policy keeps back in each region.
    pub buffer: Gpus,
    /// The same by region, where it differs.
    pub buffers: BTreeMap<RegionId, Gpus>,
    /// Driver versions that a node may have, by their beginning; one whose version is not known yet may be chosen.
    pub drivers: Vec<String>,
    /// Clusters that labels of the tenant pin it to, by label (S-13): it may be in no other.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pins: BTreeMap<String, ClusterId>,
}

impl Constraints {
    /// Whether a node with this driver may be chosen.
    #[must_use]
    pub fn allows_driver(&self, version: Option<&str>) -> bool {
        version.is_none_or(|version| self.drivers.iter().any(|allowed| version.starts_with(allowed.as_str())))
    }
}

/// A cluster, as far as a choice needs it. Counts are of the model asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The cluster.
    pub cluster: ClusterId,
    /// Where it stands.
    pub region: RegionId,
    /// Under whose law.
    pub jurisdiction: Jurisdiction,
    /// What schedules its work.
    pub kind: ClusterKind,
    /// Whether nothing real is behind it.
    pub simulated: bool,
    /// Who may have nodes of it.
    pub tenancy: Tenancy,
    /// GPUs in all.
    pub total: Gpus,
    /// GPUs that are free.
    pub free: Gpus,
    /// GPUs that its region keeps back, over all its clusters.
    pub buffer: Gpus,
    /// What the cluster lacks before a tenant can be onboarded in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unready: Vec<String>,
}

/// Free nodes of the model asked for, by cluster.
pub type FreeNodes = BTreeMap<ClusterId, BTreeMap<NodeId, Gpus>>;

/// Nodes chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The cluster they all lie in.
    pub cluster: ClusterId,
    /// Its region.
    pub region: RegionId,
    /// The nodes and their GPUs.
    pub nodes: BTreeMap<NodeId, Gpus>,
    /// GPUs beyond the number asked for.
    pub wasted: Gpus,
    /// How the choice was made.
    pub considered: Vec<ConstraintEffect>,
}

/// Not enough is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityShortage {
    /// The model asked for.
    pub model: GpuModel,
    /// How many were asked for, in one cluster.
    pub asked: Gpus,
    /// How many are free and not kept back, in the cluster that has most.
    pub free: Gpus,
    /// How many are free and not kept back, by cluster.
    pub by_cluster: BTreeMap<ClusterId, Gpus>,
    /// How the choice was made.
    pub considered: Vec<ConstraintEffect>,
}

/// One constraint's effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintEffect {
    /// The constraint.
    pub constraint: String,
    /// Clusters before it.
    pub before: Vec<ClusterId>,
    /// Those that it left out, and why.
    pub excluded: BTreeMap<ClusterId, String>,
}

impl ConstraintEffect {
    /// Clusters that the constraint left.
    #[must_use]
    pub fn remaining(&self) -> Vec<ClusterId> {
        self.before.iter().filter(|cluster| !self.excluded.contains_key(*cluster)).cloned().collect()
    }

    /// In words, with at most so many of those that it left out.
    #[must_use]
    pub fn describe(&self, most: usize) -> String {
        if self.before.is_empty() {
            return "there is no cluster: import a fleet".to_owned();
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
/// [`CapacityShortage`] when no allowed cluster has enough free.
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

/// The clusters that the constraints allow, and how each constraint narrowed them down. Looks at no free count.
#[must_use]
pub fn eligible<'a>(
    candidates: &'a [Candidate],
    constraints: &Constraints,
) -> (Vec<&'a Candidate>, Vec<ConstraintEffect>) {
    let mut left: Vec<&Candidate> = candidates.iter().collect();
    left.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    let mut considered = Vec::new();
    let rules: [(&str, Rule); 7] = [
        ("gpu model", lacks_model),
        ("region", outside_region),
        ("data residency", outside_residency),
        ("isolation", of_other_tenancy),
        ("approved kind", of_other_kind),
        ("pins", off_the_pin),
        ("readiness", not_ready),
    ];
    for (constraint, excludes) in rules {
        if constraint == "pins" && constraints.pins.is_empty() {
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

/// Why a cluster is left out, if it is.
type Rule = fn(&Candidate, &Constraints) -> Option<String>;

fn lacks_model(candidate: &Candidate, _: &Constraints) -> Option<String> {
    (candidate.total == Gpus::ZERO).then(|| "has no GPU of this model".into())
}

fn outside_region(candidate: &Candidate, constraints: &Constraints) -> Option<String> {
    if constraints.cluster.as_ref().is_some_and(|cluster| *cluster != candidate.cluster) {
        return Some("is not the cluster of the nodes to be joined".into());
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

/// A tenant is onboarded in a cluster only if its target can check the isolation. Nodes that join others are not onboarded.
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
            Some("is another tenant's".into())
        }
        (Isolation::DedicatedNodes | Isolation::SharedSlices, Tenancy::Dedicated { .. }) => {
            Some("is kept for tenants with a cluster of their own".into())
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

/// GPUs that may be taken from a cluster without touching what its region keeps back.
#[must_use]
pub fn usable(candidate: &Candidate, all: &[Candidate], constraints: &Constraints) -> Gpus {
    let in_region: Gpus = all.iter().filter(|c| c.region == candidate.region).map(|c| c.free).sum();
    candidate.free.min(in_region.saturating_sub(buffer(candidate, constraints)))
}

/// GPUs kept back in a candidate's region: what the region says or what policy says, whichever is more.
#[must_use]
pub fn buffer(candidate: &Candidate, constraints: &Constraints) -> Gpus {
    let policy = constraints.buffers.get(&candidate.region).copied().unwrap_or(constraints.buffer);
    candidate.buffer.max(policy)
}

/// Nodes of `free` with at least `asked` and at most `usable` GPUs: fewest GPUs, then fewest nodes, then first by name.
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

/// How many of each shelf (size, stock) sum to the smallest total within `asked..=reach`, with the fewest pieces.
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

/// Totals reachable with up to `stock` pieces of `size` more, each with the fewest pieces, and how many of these it
/// takes. One pass per remainder with a sliding minimum, so that large asks stay cheap.
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
