//! Bars of single GPUs that follow the GPU by its UUID, if a fact named it.
//!
//! After a reboot or a repair, a node can have its GPUs at other indexes. Invariant: a GPU barred by its UUID is not used at any index. While its index is
//! unknown, only GPUs that were observed to be others are used.

use super::occupancy::NodeUse;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The GPUs of a node that are barred by UUID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuBars {
    /// The reasons, by UUID.
    why: BTreeMap<String, String>,
    /// The UUIDs that were observed at each index since the node's last enumeration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    seen: BTreeMap<u16, String>,
}

impl GpuBars {
    /// Returns true if no GPU is barred by UUID.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.why.is_empty()
    }

    /// Returns true if these observed UUIDs change nothing.
    #[must_use]
    pub(crate) fn knows(&self, seen: &BTreeMap<u16, String>) -> bool {
        self.is_empty() || seen.iter().all(|(index, uuid)| self.seen.get(index) == Some(uuid))
    }

    /// Returns the possible indexes of a GPU: its index, or every index at which no other GPU was observed.
    fn places(&self, uuid: &str, gpus: u16) -> BTreeSet<u16> {
        let at = self.seen.iter().find(|(_, seen)| *seen == uuid).map(|(index, _)| *index);
        match at {
            Some(index) => [index].into(),
            None => (0..gpus).filter(|index| !self.seen.contains_key(index)).collect(),
        }
    }
}

impl NodeUse {
    /// Bars the GPU at `index`, or lifts the bar. With its `uuid` the bar follows the GPU.
    pub(crate) fn bar(&mut self, index: u16, uuid: Option<&str>, why: Option<&str>) {
        let Some(why) = why else { return self.unbar(index) };
        let Some(gpu) = self.gpus.get_mut(usize::from(index)) else { return };
        let Some(uuid) = uuid else {
            gpu.barred = Some(why.to_owned());
            return;
        };
        self.bars.why.insert(uuid.to_owned(), format!("{why} ({uuid})"));
        self.bars.seen.insert(index, uuid.to_owned());
        self.place_bars();
    }

    /// Records the observed UUIDs by index.
    pub(crate) fn observe_uuids(&mut self, seen: &BTreeMap<u16, String>) {
        if self.bars.is_empty() {
            return;
        }
        let moved = |(index, uuid): (&u16, &String)| {
            self.bars.seen.iter().any(|(at, other)| (at == index) != (other == uuid))
        };
        if seen.iter().any(moved) {
            self.bars.seen.clear();
        }
        self.bars.seen.extend(seen.iter().map(|(index, uuid)| (*index, uuid.clone())));
        self.place_bars();
    }

    fn unbar(&mut self, index: u16) {
        let Some(why) = self.gpus.get_mut(usize::from(index)).and_then(|gpu| gpu.barred.take()) else {
            return;
        };
        for gpu in self.gpus.iter_mut().filter(|gpu| gpu.barred.as_ref() == Some(&why)) {
            gpu.barred = None;
        }
        self.bars.why.retain(|_, barred| *barred != why);
        if self.bars.is_empty() {
            self.bars.seen.clear();
        }
    }

    fn place_bars(&mut self) {
        for gpu in &mut self.gpus {
            let by_uuid = |why: &String| self.bars.why.values().any(|barred| barred == why);
            gpu.barred = gpu.barred.take().filter(|why| !by_uuid(why));
        }
        let gpus = u16::try_from(self.gpus.len()).unwrap_or(u16::MAX);
        for (uuid, why) in &self.bars.why {
            for index in self.bars.places(uuid, gpus) {
                if let Some(gpu) = self.gpus.get_mut(usize::from(index)) {
                    gpu.barred.get_or_insert_with(|| why.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenancy::{GpuUse, OwnerEpoch};
    use store::Timestamp;

    fn node() -> NodeUse {
        let free = GpuUse { profile: None, slices: 1, users: Vec::new(), barred: None };
        NodeUse {
            node: "n-0".parse().unwrap(),
            tenant: "acme".parse().unwrap(),
            epoch: OwnerEpoch(1),
            gpus: vec![free; 4],
            model: "H100".parse().unwrap(),
            serving: true,
            changed_at: Timestamp::default(),
            bars: GpuBars::default(),
        }
    }

    fn seen(gpus: &[(u16, &str)]) -> BTreeMap<u16, String> {
        gpus.iter().map(|(index, uuid)| (*index, (*uuid).to_owned())).collect()
    }

    fn barred(node: &NodeUse) -> Vec<u16> {
        (0..).zip(&node.gpus).filter(|(_, gpu)| gpu.barred.is_some()).map(|(index, _)| index).collect()
    }

    #[test]
    fn a_barred_gpu_stays_barred_at_every_index() {
        let mut node = node();
        node.bar(1, Some("GPU-dirty"), Some("not cleaned"));
        for index in [1, 3, 0] {
            node.observe_uuids(&seen(&[(index, "GPU-dirty")]));
            assert_eq!(barred(&node), [index]);
        }
    }

    #[test]
    fn while_the_index_of_a_barred_gpu_is_unknown_only_identified_other_gpus_are_used() {
        let mut node = node();
        node.bar(1, Some("GPU-dirty"), Some("not cleaned"));
        node.observe_uuids(&seen(&[(0, "GPU-a")]));
        assert_eq!(barred(&node), [1], "the node is as it was");

        node.observe_uuids(&seen(&[(1, "GPU-b")]));
        assert_eq!(barred(&node), [0, 2, 3], "it was enumerated anew");
        node.observe_uuids(&seen(&[(0, "GPU-c")]));
        node.observe_uuids(&seen(&[(3, "GPU-a")]));
        assert_eq!(barred(&node), [2], "others are known");
        node.observe_uuids(&seen(&[(2, "GPU-dirty")]));
        assert_eq!(barred(&node), [2]);
    }

    #[test]
    fn lifting_a_bar_lifts_it_at_every_index_and_no_other_bar() {
        let mut node = node();
        node.bar(0, None, Some("not cleaned"));
        node.bar(1, Some("GPU-dirty"), Some("not cleaned"));
        node.observe_uuids(&seen(&[(1, "GPU-b")]));
        assert_eq!(barred(&node), [0, 2, 3]);

        node.bar(2, None, None);

        assert_eq!(barred(&node), [0]);
        assert!(node.bars.is_empty());
    }

    #[test]
    fn facts_change_nothing_on_a_node_without_an_identified_bar() {
        let mut node = node();
        node.bar(0, None, Some("not cleaned"));
        assert!(node.bars.knows(&seen(&[(2, "GPU-b")])));
        let text = serde_json::to_string(&node).unwrap();
        assert!(!text.contains("bars"), "{text}");
    }
}
