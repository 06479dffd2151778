//! Chooses nodes and GPUs for a workload: best fit, so that whole nodes stay free for workloads that need them (S-55).

use crate::tenancy::{GpuKind, GpuUse, GpuUser, NodeId, NodeRoom, NodeUse, Occupancy, Placed, WorkspaceName};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes by their free room.
type NodesByRoom<'a> = BTreeMap<u64, BTreeSet<&'a NodeId>>;

/// Chooses the amount of `kind` on each node: groups of `together` on one node each, the rest on any node. `room` returns the usable part of a node's free
/// room. `None` if it does not fit.
pub(crate) fn choose<'a>(
    room: impl IntoIterator<Item = (&'a NodeId, u64)>,
    amount: u64,
    together: u64,
) -> Option<BTreeMap<NodeId, u64>> {
    let mut rooms = NodesByRoom::new();
    for (node, free) in room.into_iter().filter(|(_, free)| *free > 0) {
        rooms.entry(free).or_default().insert(node);
    }
    let mut chosen: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut rest = amount;
    let mut take = |rooms: &mut NodesByRoom<'a>, (free, node): (u64, &'a NodeId), count: u64| {
        if let Some(nodes) = rooms.get_mut(&free) {
            nodes.remove(node);
        }
        if free > count {
            rooms.entry(free - count).or_default().insert(node);
        }
        *chosen.entry(node.clone()).or_default() += count;
    };
    while together > 1 && rest > 0 {
        let group = together.min(rest);
        let node = tightest(&rooms, group)?;
        take(&mut rooms, node, group);
        rest -= group;
    }
    while rest > 0 {
        // The whole rest on one node if it fits, otherwise the nodes with the least room first.
        let node = tightest(&rooms, rest).or_else(|| tightest(&rooms, 1))?;
        let count = rest.min(node.0);
        take(&mut rooms, node, count);
        rest -= count;
    }
    Some(chosen)
}

/// Returns true if [`choose`] finds nodes.
pub(crate) fn enough<'a>(
    room: impl IntoIterator<Item = (&'a NodeId, u64)>,
    amount: u64,
    together: u64,
) -> bool {
    if together > 1 {
        return choose(room, amount, together).is_some();
    }
    let mut rest = amount;
    rest == 0
        || room.into_iter().any(|(_, free)| {
            rest = rest.saturating_sub(free);
            rest == 0
        })
}

/// Returns the node with the least free room of at least `count`; the first by name if equal.
fn tightest<'a>(rooms: &NodesByRoom<'a>, count: u64) -> Option<(u64, &'a NodeId)> {
    rooms.range(count..).find_map(|(free, nodes)| Some((*free, *nodes.first()?)))
}

/// Returns the room on each node, for [`choose`].
pub(crate) fn each(rooms: &BTreeMap<NodeId, u64>) -> impl Iterator<Item = (&NodeId, u64)> {
    rooms.iter().map(|(node, free)| (node, *free))
}

/// Returns the free amount of `kind` on each node of a tenant.
pub(crate) fn rooms(occupancy: &Occupancy, kind: &GpuKind) -> BTreeMap<NodeId, u64> {
    let open = occupancy.nodes.iter().filter_map(|(node, kinds)| Some((node, kinds.get(kind)?.assignable())));
    open.filter(|(_, open)| *open > 0).map(|(node, open)| (node.clone(), open)).collect()
}

impl GpuUse {
    /// Returns true if the GPU counts as `kind`.
    fn is(&self, kind: &GpuKind, node: &NodeUse) -> bool {
        kind.model == node.model && kind.profile == self.profile
    }

    fn used(&self) -> u16 {
        self.users.iter().map(|user| user.slices).fold(0, u16::saturating_add)
    }

    /// Returns the slices that `workspace` may use. If another workspace uses the GPU, it must allow sharing.
    fn free_for(&self, workspace: &WorkspaceName, sharing: bool) -> u16 {
        let foreign = self.users.iter().any(|user| user.workspace != *workspace);
        if self.barred.is_some() || (foreign && !sharing) {
            return 0;
        }
        self.slices.saturating_sub(self.used())
    }
}

impl NodeUse {
    /// Returns the free amount of `kind` for `workspace`.
    #[must_use]
    pub fn free_for(&self, kind: &GpuKind, workspace: &WorkspaceName, sharing: bool) -> u64 {
        let gpus = self.gpus.iter().filter(|gpu| gpu.is(kind, self));
        gpus.map(|gpu| u64::from(gpu.free_for(workspace, sharing))).sum()
    }

    /// Assigns `count` of `kind` to a workload, first on GPUs that its workspace already uses, then on the first free ones. `None` without changes if there are
    /// too few.
    pub(crate) fn assign(
        &mut self,
        kind: &GpuKind,
        count: u64,
        user: &GpuUser,
        sharing: bool,
    ) -> Option<BTreeMap<u16, u16>> {
        if self.free_for(kind, &user.workspace, sharing) < count {
            return None;
        }
        let model = kind.model == self.model;
        let mut order: Vec<(u16, u16, u16)> = Vec::new();
        for (index, gpu) in (0_u16..).zip(&self.gpus) {
            let free = gpu.free_for(&user.workspace, sharing);
            if model && gpu.profile == kind.profile && free > 0 {
                order.push((free, index, free));
            }
        }
        order.sort_unstable();
        let (mut given, mut rest) = (BTreeMap::new(), count);
        for (_, index, free) in order {
            let part = free.min(u16::try_from(rest).unwrap_or(u16::MAX));
            if let (true, Some(gpu)) = (part > 0, self.gpus.get_mut(usize::from(index))) {
                gpu.users.push(GpuUser { slices: part, ..user.clone() });
                given.insert(index, part);
                rest -= u64::from(part);
            }
        }
        Some(given)
    }

    /// Releases a workload's GPUs, all or those of one kind.
    pub(crate) fn release(&mut self, workload: &str, kind: Option<&GpuKind>) {
        let model = kind.is_none_or(|kind| kind.model == self.model);
        for gpu in
            self.gpus.iter_mut().filter(|gpu| kind.is_none_or(|kind| model && gpu.profile == kind.profile))
        {
            gpu.users.retain(|user| user.workload != workload);
        }
    }

    /// Returns the GPUs of a workload on this node.
    pub(crate) fn placed(&self, workload: &str) -> Option<Placed> {
        let mut gpus = BTreeMap::new();
        for (index, gpu) in (0_u16..).zip(&self.gpus) {
            let ours = gpu.users.iter().filter(|user| user.workload == workload);
            let slices = ours.map(|user| user.slices).fold(0, u16::saturating_add);
            if slices > 0 {
                gpus.insert(index, slices);
            }
        }
        (!gpus.is_empty()).then(|| Placed { node: self.node.clone(), gpus })
    }

    /// Returns the room of each kind if the node takes new workloads.
    pub(crate) fn rooms(&self) -> BTreeMap<GpuKind, NodeRoom> {
        let mut rooms: BTreeMap<GpuKind, NodeRoom> = BTreeMap::new();
        for gpu in self.gpus.iter().filter(|gpu| self.serving && gpu.barred.is_none()) {
            let kind = GpuKind { model: self.model.clone(), profile: gpu.profile.clone() };
            let room = rooms.entry(kind).or_default();
            room.capacity += u64::from(gpu.slices);
            room.free += u64::from(gpu.slices.saturating_sub(gpu.used()));
        }
        rooms
    }

    /// Returns the amount of each kind, in and out of service.
    pub(crate) fn pieces(&self) -> BTreeMap<GpuKind, u64> {
        let mut pieces = BTreeMap::new();
        for gpu in &self.gpus {
            let kind = GpuKind { model: self.model.clone(), profile: gpu.profile.clone() };
            *pieces.entry(kind).or_default() += u64::from(gpu.slices);
        }
        pieces
    }

    /// Returns every workload on it.
    #[must_use]
    pub fn workloads(&self) -> std::collections::BTreeSet<&str> {
        self.gpus.iter().flat_map(|gpu| &gpu.users).map(|user| user.workload.as_str()).collect()
    }
}
