//! Workloads observed on a node that is out of service or on a barred GPU.
//!
//! The observation wins: the booking moves there, and the node stays out of service. Operators are notified, because a drain or a repair may rely on an empty
//! node.

use super::relocate::Sighting;
use crate::{
    scheduling::admission::unit_of_work::AdmissionTx,
    tenancy::{BoundGpus, NodeId, NodeUse},
};
use engine::{Notification, Undecided, View};
use std::collections::{BTreeMap, BTreeSet};

impl AdmissionTx {
    /// Notifies operators once of each workload that started on a node out of service or on a barred GPU. Returns the workloads by node.
    pub(super) fn tell_resting(
        &mut self,
        view: &mut View,
        sightings: &BTreeMap<String, Sighting>,
    ) -> Result<BTreeMap<NodeId, BTreeSet<String>>, Undecided> {
        let mut resting: BTreeMap<NodeId, BTreeSet<String>> = BTreeMap::new();
        let news =
            sightings.iter().filter(|(_, seen)| seen.workload.observed.as_ref() != Some(&seen.placement));
        let news: Vec<(&String, &Sighting)> = news.collect();
        let nodes = news.iter().flat_map(|(_, seen)| seen.placement.nodes.keys());
        view.prefetch::<NodeUse>(nodes.map(ToString::to_string))?;
        for (name, seen) in news {
            for (id, part) in &seen.placement.nodes {
                let Some(node) = self.node(view, id)?.cloned() else { continue };
                let Some(what) = problem(&node, seen, part) else { continue };
                self.tell_of(view, (name, seen, id), what)?;
                resting.entry(id.clone()).or_default().insert(name.clone());
            }
        }
        Ok(resting)
    }

    fn tell_of(
        &self,
        view: &mut View,
        (name, seen, node): (&String, &Sighting, &NodeId),
        what: &str,
    ) -> Result<(), Undecided> {
        let tenant = &self.tenant.id;
        view.put(&Notification {
            id: format!("workload.on_resting_node.{node}.{}", seen.workload.decision),
            kind: "workload.on_resting_node".into(),
            reason: None,
            about: format!("{tenant}/{name}"),
            tenant: tenant.to_string(),
            to: vec!["platform_ops".into()],
            text: format!("workload {tenant}/{name} was observed on {what} ({node}), where it was not placed; it is now booked there"),
            at: self.now,
        })
    }
}

/// Returns the problem of the place, unless the workload was already booked or observed there.
fn problem(node: &NodeUse, seen: &Sighting, part: &BoundGpus) -> Option<&'static str> {
    let booked = seen.workload.placed.iter().find(|placed| placed.node == node.node);
    let known = seen.workload.observed.as_ref().is_some_and(|before| before.nodes.contains_key(&node.node));
    if !node.serving {
        return (booked.is_none() && !known).then_some("a node that accepts no new workloads");
    }
    let before = |index: &u16| {
        let observed = seen.workload.observed.as_ref().and_then(|before| before.nodes.get(&node.node));
        booked.is_some_and(|placed| placed.gpus.contains_key(index))
            || observed.is_some_and(|part| part.gpus.iter().any(|gpu| gpu.index == Some(*index)))
    };
    let mut indexes = part.gpus.iter().filter_map(|gpu| gpu.index).filter(|index| !before(index));
    let barred = |index: u16| node.gpus.get(usize::from(index)).is_some_and(|gpu| gpu.barred.is_some());
    indexes.any(barred).then_some("a barred GPU")
}
