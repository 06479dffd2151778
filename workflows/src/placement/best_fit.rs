//! Which nodes and GPUs a workload gets: best fit, so that whole nodes stay free for those who need whole nodes (S-55).

use crate::tenancy::{GpuKind, GpuUse, GpuUser, NodeId, NodeRoom, NodeUse, Occupancy, Placed, WorkspaceName};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes by their free room.
type NodesByRoom<'a> = BTreeMap<u64, BTreeSet<&'a NodeId>>;

/// How many of `kind` on each node: groups of `together` on one node each, the rest anywhere. `room` says how much of a
/// node's free room may be used. `None` if there is no way.
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
        // All of the rest on one node if it fits, else what is left of the fullest nodes first.
        let node = tightest(&rooms, rest).or_else(|| tightest(&rooms, 1))?;
        let count = rest.min(node.0);
        take(&mut rooms, node, count);
        rest -= count;
    }
    Some(chosen)
}

/// Whether [`choose`] finds a way.
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

/// The node with the least free room that is at least `count`; the first by name among equals.
fn tightest<'a>(rooms: &NodesByRoom<'a>, count: u64) -> Option<(u64, &'a NodeId)> {
    rooms.range(count..).find_map(|(free, nodes)| Some((*free, *nodes.first()?)))
}

/// The room on each node, for [`choose`].
pub(crate) fn each(rooms: &BTreeMap<NodeId, u64>) -> impl Iterator<Item = (&NodeId, u64)> {
    rooms.iter().map(|(node, free)| (node, *free))
}

/// What is free of `kind` on each node of a tenant.
pub(crate) fn rooms(occupancy: &Occupancy, kind: &GpuKind) -> BTreeMap<NodeId, u64> {
    let open = occupancy.nodes.iter().filter_map(|(node, kinds)| Some((node, kinds.get(kind)?.assignable())));
    open.filter(|(_, open)| *open > 0).map(|(node, open)| (node.clone(), open)).collect()
}

impl GpuUse {
    /// What it counts as.
    fn is(&self, kind: &GpuKind, node: &NodeUse) -> bool {
        kind.model == node.model && kind.profile == self.profile
    }

    fn used(&self) -> u16 {
        self.users.iter().map(|user| user.slices).fold(0, u16::saturating_add)
    }

    /// Slices that `workspace` may use; those of a GPU that another workspace uses only where they may share.
    fn free_for(&self, workspace: &WorkspaceName, sharing: bool) -> u16 {
        let foreign = self.users.iter().any(|user| user.workspace != *workspace);
        if self.barred.is_some() || (foreign && !sharing) {
            return 0;
        }
        self.slices.saturating_sub(self.used())
    }
}

impl NodeUse {
    /// What of `kind` is free for `workspace`.
    #[must_use]
    pub fn free_for(&self, kind: &GpuKind, workspace: &WorkspaceName, sharing: bool) -> u64 {
        let gpus = self.gpus.iter().filter(|gpu| gpu.is(kind, self));
        gpus.map(|gpu| u64::from(gpu.free_for(workspace, sharing))).sum()
    }

    /// Gives `count` of `kind` to a workload, on GPUs that its workspace uses already where there are such, else on the
    /// first. `None` if there are not so many; then nothing is changed.
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

    /// Takes GPUs from a workload, all or those of one kind.
    pub(crate) fn release(&mut self, workload: &str, kind: Option<&GpuKind>) {
        let model = kind.is_none_or(|kind| kind.model == self.model);
        for gpu in
            self.gpus.iter_mut().filter(|gpu| kind.is_none_or(|kind| model && gpu.profile == kind.profile))
        {
            gpu.users.retain(|user| user.workload != workload);
        }
    }

    /// What a workload has on it.
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

    /// What it has of each kind that takes new work, and what of that is free.
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

    /// What it has of each kind, whether it takes new work or not.
    pub(crate) fn pieces(&self) -> BTreeMap<GpuKind, u64> {
        let mut pieces = BTreeMap::new();
        for gpu in &self.gpus {
            let kind = GpuKind { model: self.model.clone(), profile: gpu.profile.clone() };
            *pieces.entry(kind).or_default() += u64::from(gpu.slices);
        }
        pieces
    }

    /// Every workload on it.
    #[must_use]
    pub fn workloads(&self) -> std::collections::BTreeSet<&str> {
        self.gpus.iter().flat_map(|gpu| &gpu.users).map(|user| user.workload.as_str()).collect()
    }
}
