//! Quotas and usage, updated with every change, so that a plan does not recount them.

use crate::scheduling::planner::{
    Node, Preemption, Quota, ResourceKind, Sharing, Workload,
    model::{
        cohort_tree::{CohortTree, KindIx, NodeIx, slot},
        snapshot_error::Unknown,
    },
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// The index of a workload in the snapshot.
pub(in crate::scheduling::planner) type LoadIx = u32;

/// The order of preemption: evicted first, then low priority, then the most recent, then by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scheduling::planner) struct Key {
    pub(in crate::scheduling::planner) settled: bool,
    pub(in crate::scheduling::planner) priority: i64,
    newest: Reverse<i64>,
    id: Arc<str>,
    pub(in crate::scheduling::planner) load: LoadIx,
}

#[derive(Clone, Debug)]
pub(in crate::scheduling::planner) struct RunningLoad {
    pub(in crate::scheduling::planner) workload: Workload,
    pub(in crate::scheduling::planner) node: NodeIx,
    pub(in crate::scheduling::planner) usage: Vec<(KindIx, i128)>,
    pub(in crate::scheduling::planner) key: Key,
}

/// The role of a node in the tree.
#[derive(Clone, Debug)]
pub(in crate::scheduling::planner) enum Role {
    /// A cohort, with its children by name.
    Cohort { cohorts: BTreeMap<String, NodeIx>, workspaces: BTreeMap<String, NodeIx> },
    /// A workspace, with its workloads in order for each kind they hold.
    Workspace { preemption: Preemption, running: BTreeMap<KindIx, BTreeSet<Key>> },
}

#[derive(Clone, Debug)]
pub(in crate::scheduling::planner) struct Entry {
    pub(in crate::scheduling::planner) name: String,
    pub(in crate::scheduling::planner) sharing: Sharing,
    pub(in crate::scheduling::planner) role: Role,
}

/// The state that plans are made on.
///
/// The cost of a change is the depth of the tree plus the logarithm of the workspace's workloads.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(in crate::scheduling::planner) tree: CohortTree,
    pub(in crate::scheduling::planner) entries: Vec<Entry>,
    pub(in crate::scheduling::planner) cohorts: BTreeMap<String, NodeIx>,
    pub(in crate::scheduling::planner) workspaces: BTreeMap<String, NodeIx>,
    /// The total amount of a kind, if set.
    pub(in crate::scheduling::planner) owned: BTreeMap<ResourceKind, u64>,
    pub(in crate::scheduling::planner) kinds: BTreeMap<ResourceKind, KindIx>,
    pub(in crate::scheduling::planner) names: Vec<ResourceKind>,
    /// The resource index of each kind.
    pub(in crate::scheduling::planner) resources: Vec<usize>,
    loads: Vec<Option<RunningLoad>>,
    spare: Vec<LoadIx>,
    ids: HashMap<Arc<str>, LoadIx>,
    pub(in crate::scheduling::planner) gangs: HashMap<(NodeIx, String), BTreeSet<LoadIx>>,
    pub(in crate::scheduling::planner) freeing: BTreeMap<String, BTreeSet<LoadIx>>,
    pub(in crate::scheduling::planner) machines: BTreeMap<String, Node>,
    pub(in crate::scheduling::planner) on_machine: BTreeMap<String, BTreeSet<LoadIx>>,
}

impl Snapshot {
    /// Creates an empty snapshot.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a cohort below another, or as a root. A tenant is a root.
    ///
    /// # Errors
    /// If a cohort of that name exists, or the parent does not.
    pub fn add_cohort(&mut self, name: &str, parent: Option<&str>, sharing: Sharing) -> Result<(), Unknown> {
        if self.cohorts.contains_key(name) {
            return Err(Unknown::Twice(format!("cohort {name}")));
        }
        let role = Role::Cohort { cohorts: BTreeMap::new(), workspaces: BTreeMap::new() };
        let node = self.add(name, parent, sharing, role)?;
        self.cohorts.insert(name.to_owned(), node);
        Ok(())
    }

    /// Adds a workspace to a cohort, or without one.
    ///
    /// # Errors
    /// If a workspace of that name exists, or the cohort does not.
    pub fn add_workspace(
        &mut self,
        name: &str,
        cohort: Option<&str>,
        preemption: Preemption,
        sharing: Sharing,
    ) -> Result<(), Unknown> {
        if self.workspaces.contains_key(name) {
            return Err(Unknown::Twice(format!("workspace {name}")));
        }
        let node =
            self.add(name, cohort, sharing, Role::Workspace { preemption, running: BTreeMap::new() })?;
        self.workspaces.insert(name.to_owned(), node);
        Ok(())
    }

    fn add(
        &mut self,
        name: &str,
        parent: Option<&str>,
        sharing: Sharing,
        role: Role,
    ) -> Result<NodeIx, Unknown> {
        let parent = match parent {
            None => None,
            Some(parent) => {
                Some(*self.cohorts.get(parent).ok_or_else(|| Unknown::Cohort(parent.to_owned()))?)
            }
        };
        let node = self.tree.add(parent);
        if let Some(Entry { role: Role::Cohort { cohorts, workspaces }, .. }) =
            parent.and_then(|parent| self.entries.get_mut(slot(parent)))
        {
            match role {
                Role::Cohort { .. } => cohorts.insert(name.to_owned(), node),
                Role::Workspace { .. } => workspaces.insert(name.to_owned(), node),
            };
        }
        self.entries.push(Entry { name: name.to_owned(), sharing, role });
        Ok(node)
    }

    /// Sets the total amount of a kind. Without it, the total is the amount that the quotas make available.
    pub fn set_owned(&mut self, kind: ResourceKind, amount: u64) {
        self.owned.insert(kind, amount);
    }

    /// Sets a workspace's quota and limits for a kind.
    ///
    /// # Errors
    /// If the workspace does not exist.
    pub fn set_quota(&mut self, workspace: &str, kind: &ResourceKind, quota: Quota) -> Result<(), Unknown> {
        let node = self.workspace(workspace)?;
        let kind = self.intern(kind);
        self.tree.set_quota(node, kind, quota);
        Ok(())
    }

    /// Sets a cohort's own quota, in addition to its members' quotas, and its limits towards the cohort above.
    ///
    /// # Errors
    /// If the cohort does not exist.
    pub fn set_cohort_quota(
        &mut self,
        cohort: &str,
        kind: &ResourceKind,
        quota: Quota,
    ) -> Result<(), Unknown> {
        let node = *self.cohorts.get(cohort).ok_or_else(|| Unknown::Cohort(cohort.to_owned()))?;
        let kind = self.intern(kind);
        self.tree.set_quota(node, kind, quota);
        Ok(())
    }

    /// Sets the preemption and sharing settings of a workspace.
    ///
    /// # Errors
    /// If the workspace does not exist.
    pub fn set_policies(
        &mut self,
        workspace: &str,
        policies: Preemption,
        sharing: Sharing,
    ) -> Result<(), Unknown> {
        let node = self.workspace(workspace)?;
        if let Some(entry) = self.entries.get_mut(slot(node)) {
            entry.sharing = sharing;
            if let Role::Workspace { preemption, .. } = &mut entry.role {
                *preemption = policies;
            }
        }
        Ok(())
    }

    /// Adds a workload that uses quota.
    ///
    /// # Errors
    /// If a workload of that id exists, or its workspace does not.
    pub fn admit(&mut self, workload: Workload) -> Result<(), Unknown> {
        let node = self.workspace(&workload.workspace)?;
        let id: Arc<str> = workload.id.as_str().into();
        if self.ids.contains_key(&id) {
            return Err(Unknown::Twice(format!("workload {id}")));
        }
        let usage: Vec<(KindIx, i128)> =
            workload.usage.iter().map(|(kind, amount)| (self.intern(kind), i128::from(*amount))).collect();
        let load = self.spare.pop().unwrap_or_else(|| {
            self.loads.push(None);
            LoadIx::try_from(self.loads.len() - 1).unwrap_or(LoadIx::MAX)
        });
        let key = Key {
            settled: !workload.evicted,
            priority: workload.priority,
            newest: Reverse(workload.reserved_at),
            id: Arc::clone(&id),
            load,
        };
        for (kind, amount) in &usage {
            self.tree.charge(node, *kind, *amount);
        }
        self.ids.insert(id, load);
        let load_of = RunningLoad { workload, node, usage, key };
        self.index(&load_of, load, true);
        if let Some(place) = self.loads.get_mut(load as usize) {
            *place = Some(load_of);
        }
        Ok(())
    }

    /// Removes a workload, frees its quota, and returns it.
    pub fn remove(&mut self, id: &str) -> Option<Workload> {
        let load = self.ids.remove(id)?;
        let gone = self.loads.get_mut(load as usize)?.take()?;
        for (kind, amount) in &gone.usage {
            self.tree.charge(gone.node, *kind, -*amount);
        }
        self.index(&gone, load, false);
        self.spare.push(load);
        Some(gone.workload)
    }

    /// Records that a workload is being evicted for a demand. It counts as usage until it is removed.
    ///
    /// # Errors
    /// If the workload does not exist.
    pub fn mark_evicted(&mut self, id: &str, demand: &str) -> Result<(), Unknown> {
        let mut workload = self.remove(id).ok_or_else(|| Unknown::Workload(id.to_owned()))?;
        workload.evicted = true;
        workload.freeing_for = Some(demand.to_owned());
        self.admit(workload)
    }

    /// Sets the observed free amounts of a node. Added and removed workloads do not change them.
    pub fn set_node(&mut self, name: &str, node: Node) {
        self.machines.insert(name.to_owned(), node);
    }

    /// Removes a node.
    pub fn remove_node(&mut self, name: &str) {
        self.machines.remove(name);
    }

    /// Returns how much of a kind a workspace can get now, including loans.
    #[must_use]
    pub fn available(&self, workspace: &str, kind: &ResourceKind) -> u64 {
        let (Some(node), Some(kind)) = (self.workspaces.get(workspace), self.kinds.get(kind)) else {
            return 0;
        };
        let available = crate::scheduling::planner::model::cohort_tree::TreeOverlay::new(&self.tree)
            .available(*node, *kind);
        u64::try_from(available).unwrap_or(u64::MAX)
    }

    /// Returns a workspace's usage of a kind.
    #[must_use]
    pub fn usage(&self, workspace: &str, kind: &ResourceKind) -> u64 {
        let (Some(node), Some(kind)) = (self.workspaces.get(workspace), self.kinds.get(kind)) else {
            return 0;
        };
        u64::try_from(self.tree.usage(*node, *kind)).unwrap_or(u64::MAX)
    }

    /// Returns a workload by its id.
    #[must_use]
    pub fn workload(&self, id: &str) -> Option<&Workload> {
        self.ids.get(id).and_then(|load| self.load(*load)).map(|load| &load.workload)
    }

    /// Returns true if the workspace exists.
    #[must_use]
    pub fn has_workspace(&self, name: &str) -> bool {
        self.workspaces.contains_key(name)
    }

    /// Returns the nominal quota of a workspace.
    #[must_use]
    pub fn nominal(&self, workspace: &str, kind: &ResourceKind) -> u64 {
        let (Some(node), Some(kind)) = (self.workspaces.get(workspace), self.kinds.get(kind)) else {
            return 0;
        };
        self.tree.row(*node, *kind).quota.nominal
    }

    pub(in crate::scheduling::planner) fn workspace(&self, name: &str) -> Result<NodeIx, Unknown> {
        self.workspaces.get(name).copied().ok_or_else(|| Unknown::Workspace(name.to_owned()))
    }

    pub(in crate::scheduling::planner) fn load(&self, load: LoadIx) -> Option<&RunningLoad> {
        self.loads.get(load as usize).and_then(Option::as_ref)
    }

    pub(in crate::scheduling::planner) fn entry(&self, node: NodeIx) -> Option<&Entry> {
        self.entries.get(slot(node))
    }

    pub(in crate::scheduling::planner) fn is_workspace(&self, node: NodeIx) -> bool {
        matches!(self.entry(node), Some(Entry { role: Role::Workspace { .. }, .. }))
    }

    pub(in crate::scheduling::planner) fn preemption(&self, node: NodeIx) -> Preemption {
        match self.entry(node) {
            Some(Entry { role: Role::Workspace { preemption, .. }, .. }) => *preemption,
            Some(Entry { role: Role::Cohort { .. }, .. }) | None => Preemption::default(),
        }
    }

    pub(in crate::scheduling::planner) fn running(
        &self,
        node: NodeIx,
        kind: KindIx,
    ) -> Option<&BTreeSet<Key>> {
        match self.entry(node) {
            Some(Entry { role: Role::Workspace { running, .. }, .. }) => running.get(&kind),
            Some(Entry { role: Role::Cohort { .. }, .. }) | None => None,
        }
    }

    fn intern(&mut self, kind: &ResourceKind) -> KindIx {
        if let Some(known) = self.kinds.get(kind) {
            return *known;
        }
        let added = self.tree.add_kind();
        let same = self.names.iter().position(|other| other.resource() == kind.resource());
        let next = self.resources.iter().max().map_or(0, |most| most + 1);
        let resource = same.and_then(|same| self.resources.get(same).copied()).unwrap_or(next);
        self.resources.push(resource);
        self.names.push(kind.clone());
        self.kinds.insert(kind.clone(), added);
        added
    }

    fn index(&mut self, load: &RunningLoad, at: LoadIx, add: bool) {
        fn put<K: Ord + Clone>(map: &mut BTreeMap<K, BTreeSet<LoadIx>>, key: &K, at: LoadIx, add: bool) {
            if add {
                map.entry(key.clone()).or_default().insert(at);
            } else if let Some(set) = map.get_mut(key) {
                set.remove(&at);
                if set.is_empty() {
                    map.remove(key);
                }
            }
        }
        if let Some(Entry { role: Role::Workspace { running, .. }, .. }) =
            self.entries.get_mut(slot(load.node))
        {
            for (kind, _) in &load.usage {
                let set = running.entry(*kind).or_default();
                if add {
                    set.insert(load.key.clone())
                } else {
                    set.remove(&load.key)
                };
            }
        }
        if let Some(gang) = &load.workload.gang {
            let members = self.gangs.entry((load.node, gang.id.clone())).or_default();
            if add {
                members.insert(at)
            } else {
                members.remove(&at)
            };
        }
        if let Some(demand) = &load.workload.freeing_for {
            put(&mut self.freeing, demand, at, add);
        }
        for part in &load.workload.parts {
            put(&mut self.on_machine, &part.node, at, add);
        }
    }
}
