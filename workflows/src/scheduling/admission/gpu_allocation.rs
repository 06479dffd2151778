//! Assigns and releases GPUs: changes nodes, their free room and the stock of each kind together.

use crate::{
    placement::best_fit,
    scheduling::admission::unit_of_work::{AdmissionTx, corrupt},
    tenancy::{
        Amounts, CapacityUsage, GpuKind, GpuUser, NodeId, NodeRoom, NodeUse, OpenLoan, Placed, Resource,
        Workload, WorkspaceName,
    },
};
use engine::{Undecided, View};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Which GPUs, by node and kind.
pub(super) type GpuChoice = BTreeMap<GpuKind, BTreeMap<NodeId, u64>>;

/// Returns the requested kinds of GPU with their amounts.
pub(super) fn kinds(workload: &Workload) -> impl Iterator<Item = (&GpuKind, u64)> {
    gpus(&workload.requests)
}

fn gpus(requests: &Amounts) -> impl Iterator<Item = (&GpuKind, u64)> {
    let gpus = requests.iter().filter_map(|(resource, amount)| Some((resource.gpu()?, *amount)));
    gpus.filter(|(_, amount)| *amount > 0)
}

impl AdmissionTx {
    /// Returns the room of each node for a workspace and `kind`. Nodes with workloads of a class that policy separates from it have 0. Loads nodes one by one
    /// only if that matters.
    pub(super) fn rooms(
        &mut self,
        view: &mut View,
        kind: &GpuKind,
        workspace: &WorkspaceName,
    ) -> Result<BTreeMap<NodeId, u64>, Undecided> {
        let Some(occupancy) = &self.occupancy else { return Ok(BTreeMap::new()) };
        let mut rooms = best_fit::rooms(occupancy, kind);
        let class = self.account(workspace)?.class;
        let region = Some(&occupancy.region);
        let apart = |other: &WorkspaceName| {
            let other = self.cohort.accounts.get(other);
            other.is_some_and(|other| self.rules.keeps_apart(region, class, other.class))
        };
        let foes: Vec<_> = self.cohort.accounts.keys().filter(|other| apart(other)).cloned().collect();
        let sharing = self.tenant.allow_gpu_sharing;
        let sliced = kind.profile.is_some() && !sharing;
        if foes.is_empty() && !sliced {
            return Ok(rooms);
        }
        let busy = |kinds: &BTreeMap<GpuKind, NodeRoom>| kinds.values().any(|room| room.free < room.capacity);
        let look: Vec<NodeId> =
            rooms.keys().filter(|node| occupancy.nodes.get(*node).is_some_and(busy)).cloned().collect();
        view.prefetch::<NodeUse>(look.iter().map(ToString::to_string))?;
        for id in look {
            let Some(node) = self.node(view, &id)? else { continue };
            let users = node.gpus.iter().flat_map(|gpu| &gpu.users);
            let shunned = users.clone().any(|user| foes.contains(&user.workspace));
            let free = node.free_for(kind, workspace, sharing);
            let room = rooms.entry(id).or_default();
            *room = if shunned { 0 } else { (*room).min(if sliced { free } else { u64::MAX }) };
        }
        Ok(rooms)
    }

    /// Returns nodes for a workload, and the kinds for which there is no room.
    pub(super) fn choose(
        &mut self,
        view: &mut View,
        workspace: &WorkspaceName,
        requests: &Amounts,
        together: u64,
    ) -> Result<(GpuChoice, BTreeSet<GpuKind>), Undecided> {
        let (mut choice, mut misfits) = (GpuChoice::new(), BTreeSet::new());
        for (kind, amount) in gpus(requests) {
            let rooms = self.rooms(view, kind, workspace)?;
            match best_fit::choose(best_fit::each(&rooms), amount, together) {
                Some(chosen) => _ = choice.insert(kind.clone(), chosen),
                None => _ = misfits.insert(kind.clone()),
            }
        }
        Ok((choice, misfits))
    }

    /// Returns the requested resources that a workspace cannot use now, because quota is too small or free GPUs are on the wrong nodes. Only these justify a
    /// reclaim.
    pub(super) fn lacking(
        &mut self,
        view: &mut View,
        workspace: &WorkspaceName,
        requests: &Amounts,
        together: u64,
    ) -> Result<BTreeSet<Resource>, Undecided> {
        let short =
            |(resource, amount): &(&Resource, &u64)| **amount > self.cohort.available(workspace, resource);
        let mut lacking: BTreeSet<Resource> =
            requests.iter().filter(short).map(|(resource, _)| resource.clone()).collect();
        let (_, misfits) = self.choose(view, workspace, requests, together)?;
        lacking.extend(misfits.into_iter().map(Resource::Gpu));
        Ok(lacking)
    }

    /// Returns the kind for which the nodes in service would be too small, in sum or per node, even if they were empty.
    pub(super) fn too_large(&self, requests: &Amounts, together: u64) -> Option<Resource> {
        let nodes = || self.occupancy.iter().flat_map(|occupancy| &occupancy.nodes);
        let enough = |kind: &GpuKind, amount| {
            let rooms = nodes().filter_map(|(id, kinds)| Some((id, kinds.get(kind)?.capacity)));
            best_fit::enough(rooms, amount, together)
        };
        let misfit = gpus(requests).find(|(kind, amount)| !enough(kind, *amount));
        misfit.map(|(kind, _)| Resource::Gpu(kind.clone()))
    }

    /// Assigns the chosen GPUs to a workload, or earmarks them for it.
    pub(super) fn assign_gpus(
        &mut self,
        view: &mut View,
        workload: &str,
        workspace: &WorkspaceName,
        choice: &GpuChoice,
        in_transit: bool,
    ) -> Result<(), Undecided> {
        view.prefetch::<NodeUse>(choice.values().flat_map(BTreeMap::keys).map(ToString::to_string))?;
        let sharing = self.tenant.allow_gpu_sharing;
        let (workload, workspace) = (workload.to_owned(), workspace.clone());
        let user = GpuUser { workload, workspace, slices: 0, in_transit };
        for (kind, nodes) in choice {
            for (id, count) in nodes {
                let given = self.change_node(view, id, |node| node.assign(kind, *count, &user, sharing))?;
                given.ok_or_else(|| {
                    corrupt(format!("node {id} lacks the {count} of {kind} that are listed for it"))
                })?;
            }
        }
        Ok(())
    }

    /// Changes a node, and with it its free room and the stock of each kind.
    pub(super) fn change_node<T>(
        &mut self,
        view: &mut View,
        id: &NodeId,
        change: impl FnOnce(&mut NodeUse) -> T,
    ) -> Result<T, Undecided> {
        let found = self.node(view, id)?.cloned();
        let mut node = found.ok_or_else(|| corrupt(format!("node {id} is listed, but does not exist")))?;
        self.count_node(&node, false);
        let answer = change(&mut node);
        node.changed_at = self.now;
        self.count_node(&node, true);
        self.update_occupancy(&node);
        self.keep_node(id, Some(node));
        Ok(answer)
    }

    /// Adds a node to the stock, or removes it.
    pub(super) fn count_node(&mut self, node: &NodeUse, add: bool) {
        let rooms = node.rooms();
        for (kind, pieces) in node.pieces() {
            let room = rooms.get(&kind).copied().unwrap_or_default();
            let used = node.gpus.iter().filter(|gpu| gpu.profile == kind.profile).flat_map(|gpu| &gpu.users);
            let used: u64 = used.map(|user| u64::from(user.slices)).sum();
            let resting = pieces.saturating_sub(used).saturating_sub(room.free);
            let stock: &mut CapacityUsage = self.cohort.stock.entry(Resource::Gpu(kind)).or_default();
            let by =
                |sum: u64, part: u64| if add { sum.saturating_add(part) } else { sum.saturating_sub(part) };
            stock.pieces = by(stock.pieces, pieces);
            stock.free = by(stock.free, room.free);
            stock.resting = by(stock.resting, resting);
        }
    }

    /// Updates the listed room of a node. A node that takes no new work has none.
    pub(super) fn update_occupancy(&mut self, node: &NodeUse) {
        let Some(occupancy) = self.occupancy.as_mut().map(Arc::make_mut) else { return };
        self.occupancy_changed = true;
        let mut rooms = node.rooms();
        let before = occupancy.nodes.remove(&node.node).unwrap_or_default();
        for (kind, room) in &mut rooms {
            room.astray = before.get(kind).map_or(0, |room| room.astray).min(room.free);
        }
        if node.serving {
            occupancy.nodes.insert(node.node.clone(), rooms);
        }
    }

    /// Returns the GPUs that a workload uses or has earmarked.
    pub(super) fn placed(
        &mut self,
        view: &mut View,
        workload: &str,
        nodes: impl IntoIterator<Item = NodeId>,
    ) -> Result<Vec<Placed>, Undecided> {
        let mut placed = Vec::new();
        for id in nodes {
            placed.extend(self.node(view, &id)?.and_then(|node| node.placed(workload)));
        }
        Ok(placed)
    }

    /// Releases a workload's GPUs on these nodes, all or of one kind.
    pub(super) fn release_gpus(
        &mut self,
        view: &mut View,
        workload: &str,
        kind: Option<&GpuKind>,
        placed: &[Placed],
    ) -> Result<(), Undecided> {
        view.prefetch::<NodeUse>(placed.iter().map(|part| part.node.to_string()))?;
        for part in placed {
            self.change_node(view, &part.node, |node| node.release(workload, kind))?;
        }
        Ok(())
    }
}

/// Returns the amount on open loans for each workload of a borrower.
pub(super) fn on_loan(open: &[OpenLoan], borrower: &WorkspaceName) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for loan in open.iter().filter(|loan| loan.borrower == *borrower) {
        *sums.entry(loan.workload.clone()).or_default() += loan.amount;
    }
    sums
}
