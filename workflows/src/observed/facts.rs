//! Turns the index into the facts that admission applies.
//!
//! Invariant: a GPU that is neither held nor free by proof is not usable, so that no workload is admitted to it.

use super::{ClusterIndex, GpuState, NodeObject, PodObject, Proof, Uid};
use crate::{
    scheduling::admission::{Observation, ObservedKind},
    tenancy::{GpuKind, Name, NodeId, SeenGpu, SeenWorkload, layout_offers},
};
use std::collections::{BTreeMap, BTreeSet};
use store::Timestamp;

/// What the ledger has on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStock {
    /// The GPUs or slices of each kind, without barred ones.
    pub kinds: BTreeMap<GpuKind, u64>,
    /// The indexes of barred GPUs. Their state does not count.
    pub barred: BTreeSet<u16>,
}

/// The facts about some nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Usable and busy GPUs. A node that the cluster does not have is absent.
    pub seen: Observation,
    /// The workloads on these nodes.
    pub running: Vec<SeenWorkload>,
}

/// The GPUs of one kind on a node, by state.
#[derive(Clone, Copy, Debug, Default)]
struct KindCount {
    listed: u64,
    held: u64,
    /// Neither held nor free.
    unusable: u64,
}

impl ClusterIndex {
    /// Returns the facts about nodes; `None` until nodes and pods were listed completely.
    #[must_use]
    pub fn facts(
        &self,
        nodes: &BTreeMap<NodeId, NodeStock>,
        at: Timestamp,
        proof: Proof,
    ) -> Option<ClusterFacts> {
        if !self.is_synced() {
            return None;
        }
        let mut facts =
            ClusterFacts { seen: Observation { at, nodes: BTreeMap::new() }, running: Vec::new() };
        for (id, stock) in nodes {
            let Some(node) = self.node_named(id.as_str()) else { continue };
            let kinds = stock.kinds.iter().map(|(kind, capacity)| {
                let stock = (kind, *capacity, &stock.barred);
                (kind.clone(), self.observed_kind(node, stock, (at, proof)))
            });
            facts.seen.nodes.insert(id.clone(), kinds.collect());
            facts.running.extend(self.running_on(node.uid, id));
        }
        Some(facts)
    }

    fn observed_kind(
        &self,
        node: &NodeObject,
        (kind, capacity, barred): (&GpuKind, u64, &BTreeSet<u16>),
        (now, proof): (Timestamp, Proof),
    ) -> ObservedKind {
        let profile = kind.profile.as_ref().map(Name::as_str);
        // Nodes without a layout have whole GPUs.
        let is_whole = node.layout.is_empty() && profile.is_none();
        if !is_whole && !layout_offers(&node.layout, profile) {
            return ObservedKind { usable: 0, busy: 0 };
        }
        let of_kind = self.count(node.uid, (profile, barred), (now, proof));
        let (count, each) = if of_kind.listed == 0 && profile.is_some() {
            // The node lists GPUs and not their slices.
            let whole = self.count(node.uid, (None, barred), (now, proof));
            (whole, capacity.div_ceil(whole.listed.max(1)))
        } else {
            (of_kind, 1)
        };
        let stock = capacity.min(count.listed.saturating_mul(each));
        let usable = stock.saturating_sub(count.unusable.saturating_mul(each));
        // Pods that disappeared before a report named their GPUs may have any that is not held.
        let idle = usable.saturating_sub(count.held.saturating_mul(each));
        let usable = usable - self.unattributed(node.uid).min(idle);
        let bound = self.bound(node.uid).iter().map(|bound| bound.count).fold(0, u64::saturating_add);
        // Pods that are bound and have no devices yet take free ones.
        let busy = if self.has_several_kinds(node.uid) { count.held } else { count.held.max(bound) };
        ObservedKind { usable, busy: busy.min(usable) }
    }

    fn count(
        &self,
        node: Uid,
        (profile, barred): (Option<&str>, &BTreeSet<u16>),
        (now, proof): (Timestamp, Proof),
    ) -> KindCount {
        let mut count = KindCount::default();
        for (of, index, state) in self.profiles(node, now, proof).filter(|(of, _, _)| *of == profile) {
            let is_barred = of.is_none() && index.is_some_and(|index| barred.contains(&index));
            let counts = u64::from(!is_barred);
            count.listed += counts;
            match state {
                GpuState::Held(_) => count.held += 1,
                GpuState::Free => {}
                GpuState::Unfit | GpuState::Unconfirmed(_) => count.unusable += counts,
            }
        }
        count
    }

    fn has_several_kinds(&self, node: Uid) -> bool {
        self.listed_profiles(node).len() > 1
    }

    /// Returns the workloads with GPUs on a node. Pods that no workload of Tenure names are listed by their UIDs, so that they count as unknown workloads.
    fn running_on(&self, node: Uid, id: &NodeId) -> Vec<SeenWorkload> {
        let mut gpus: BTreeMap<Uid, BTreeSet<SeenGpu>> = BTreeMap::new();
        for (pod, uuid, index) in self.sole_holders(node) {
            gpus.entry(pod).or_default().insert(SeenGpu { uuid: uuid.into(), index });
        }
        let mut by_name: BTreeMap<(String, Option<&str>), SeenWorkload> = BTreeMap::new();
        for pod in self.bound(node).iter().filter_map(|bound| self.pods().get(bound.pod)) {
            let name = pod.workload.as_deref().map_or_else(|| pod.uid.to_string(), str::to_owned);
            let seen = by_name.entry((name.clone(), pod.profile.as_deref()));
            let seen = seen.or_insert_with(|| SeenWorkload {
                workload: name,
                uid: None,
                node: id.clone(),
                node_uid: node.uuid(),
                kind: None,
                count: Some(0),
                gpus: BTreeSet::new(),
                since: None,
            });
            add(seen, pod, gpus.remove(&pod.uid).unwrap_or_default());
        }
        let named = |mut seen: SeenWorkload| {
            // Without a count, the named GPUs are all of them.
            seen.count = seen.count.filter(|count| u64::try_from(seen.gpus.len()) != Ok(*count));
            seen
        };
        by_name.into_values().map(named).collect()
    }
}

fn add(seen: &mut SeenWorkload, pod: &PodObject, gpus: BTreeSet<SeenGpu>) {
    let count = seen.count.unwrap_or(0).saturating_add(pod.gpus.into());
    seen.count = Some(count);
    seen.gpus.extend(gpus);
    seen.since = [seen.since, pod.started].into_iter().flatten().min();
    seen.uid = seen.uid.take().or_else(|| pod.owners.first().and_then(|owner| owner.uuid()));
}
