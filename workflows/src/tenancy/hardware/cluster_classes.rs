//! The classes of workspaces that run in a cluster, by tenant. A choice of clusters reads it if policy keeps classes in different clusters (S-14).

use crate::tenancy::{ClusterId, Tenant, TenantId, Workspace, WorkspaceClass, workspace_key};
use engine::{Entity, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The classes in one cluster. Changed by the commit that claims or releases a tenant's nodes, so that two claims at the same time see each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterClasses {
    /// The cluster.
    pub cluster: ClusterId,
    /// The classes of each tenant with nodes there.
    pub tenants: BTreeMap<TenantId, BTreeSet<WorkspaceClass>>,
}

impl Entity for ClusterClasses {
    const COLLECTION: &'static str = "cluster-classes";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.cluster.to_string()
    }
}

impl ClusterClasses {
    /// Returns the classes of tenants other than `tenant`.
    #[must_use]
    pub fn beside(&self, tenant: &TenantId) -> BTreeSet<WorkspaceClass> {
        self.tenants
            .iter()
            .filter(|(other, _)| *other != tenant)
            .flat_map(|(_, classes)| classes)
            .copied()
            .collect()
    }

    /// Records the classes of a tenant's workspaces. Safe to repeat.
    ///
    /// # Errors
    /// Undecided until the view has loaded every needed document.
    pub fn record(view: &mut View, cluster: &ClusterId, tenant: &TenantId) -> Result<(), Undecided> {
        let Some(owner) = view.get::<Tenant>(tenant.as_str())? else { return Ok(()) };
        let keys: Vec<String> = owner.workspaces.iter().map(|name| workspace_key(tenant, name)).collect();
        view.prefetch::<Workspace>(keys.clone())?;
        let mut classes = BTreeSet::new();
        for key in keys {
            classes.extend(view.get::<Workspace>(&key)?.map(|workspace| workspace.class));
        }
        let found = view.get::<Self>(cluster.as_str())?;
        let mut there = found.unwrap_or_else(|| Self { cluster: cluster.clone(), tenants: BTreeMap::new() });
        if there.tenants.get(tenant) == Some(&classes) {
            return Ok(());
        }
        there.tenants.insert(tenant.clone(), classes);
        view.put(&there)
    }

    /// Removes a tenant that has left the cluster. Safe to repeat.
    ///
    /// # Errors
    /// Undecided until the view has loaded the document.
    pub fn remove(view: &mut View, cluster: &ClusterId, tenant: &TenantId) -> Result<(), Undecided> {
        let Some(mut there) = view.get::<Self>(cluster.as_str())? else { return Ok(()) };
        if there.tenants.remove(tenant).is_none() {
            return Ok(());
        }
        if there.tenants.is_empty() { view.delete::<Self>(cluster.as_str()) } else { view.put(&there) }
    }
}
