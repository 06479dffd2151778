//! The owner of each type of document. A handler cannot read documents of tenants without saying for which caller.
//!
//! Invariant: [`documents`](super::documents) and [`document`](super::document) accept only types of the platform, and no type is both. [`list_visible`] and
//! [`get_visible`] read documents of tenants, without those that the caller may not see. A few reads without a caller use [`unscoped`]; a test lists them.

use super::{Page, found, load};
use crate::{
    auth::{Caller, Delegation, Group, Session, User, policy::AccessPolicies},
    http::{problem::Problem, resource_kind::ResourceKind},
    notify::{DeadDelivery, SettledDelivery, WaitingDelivery},
    state::ServerState,
};
use engine::{Entity, Occurrence, RemovedUser, Review, ReviewDone};
use store::Sequence;
use workflows::{
    destruction::{Holds, ReleasedHold},
    policy::{PolicyChange, PublishedPolicy},
    tenancy::{Cluster, ClusterKey, Cohort, Entitlement, FreePool, Node, NodeAllocation, Region, Tenant},
};

/// A type of document that belongs to no tenant. A caller who may use the route may read all of them.
pub(crate) trait PlatformDocument: Entity {}

/// A type of document of which each belongs to a tenant or to the platform.
pub(crate) trait TenantDocument: Entity {
    /// The tenant of the document; empty for the platform.
    fn whose(&self) -> &str;
}

/// Returns a page of the documents that the caller may see and `wanted` selects.
pub(in crate::http) async fn list_visible<T: TenantDocument>(
    app: &ServerState,
    caller: &Caller,
    prefix: &str,
    page: &Page,
    wanted: impl Fn(&T) -> bool,
) -> Result<(Vec<T>, Option<String>), Problem> {
    found(app, prefix, page, |item: &T| caller.sees(item.whose()) && wanted(item)).await
}

/// Returns a document by its id, if the caller may see it.
pub(in crate::http) async fn get_visible<T: TenantDocument>(
    app: &ServerState,
    caller: &Caller,
    id: &str,
) -> Result<Option<T>, Problem> {
    Ok(get_visible_with_version(app, caller, id).await?.map(|(item, _)| item))
}

/// Returns a document by its id with its version, if the caller may see it.
pub(in crate::http) async fn get_visible_with_version<T: TenantDocument>(
    app: &ServerState,
    caller: &Caller,
    id: &str,
) -> Result<Option<(T, Sequence)>, Problem> {
    Ok(load::<T>(app, id).await?.filter(|(item, _)| caller.sees(item.whose())))
}

/// Returns a document of any tenant by its id. For reads without a caller whose result is not shown.
pub(in crate::http) async fn unscoped<T: TenantDocument>(
    app: &ServerState,
    id: &str,
) -> Result<Option<T>, Problem> {
    Ok(load(app, id).await?.map(|(item, _)| item))
}

/// Returns all documents that `wanted` selects, of all tenants. For questions about all tenants at once.
pub(in crate::http) async fn unscoped_all<T: TenantDocument>(
    app: &ServerState,
    wanted: impl Fn(&T) -> bool,
) -> Result<Vec<T>, Problem> {
    Ok(found(app, "", &Page { limit: usize::MAX, after: None }, wanted).await?.0)
}

impl<T: ResourceKind> TenantDocument for T {
    fn whose(&self) -> &str {
        self.tenant()
    }
}

impl TenantDocument for Node {
    /// A document without an owner belongs to the platform.
    fn whose(&self) -> &str {
        self.owner.as_ref().map(|owner| owner.as_str()).unwrap_or_default()
    }
}

impl TenantDocument for Tenant {
    fn whose(&self) -> &str {
        self.id.as_str()
    }
}

impl TenantDocument for Entitlement {
    fn whose(&self) -> &str {
        self.tenant.as_str()
    }
}

impl TenantDocument for NodeAllocation {
    fn whose(&self) -> &str {
        self.tenant.as_str()
    }
}

impl TenantDocument for Cohort {
    fn whose(&self) -> &str {
        self.tenant.as_str()
    }
}

impl TenantDocument for Holds {
    fn whose(&self) -> &str {
        self.tenant.as_str()
    }
}

impl TenantDocument for ReleasedHold {
    fn whose(&self) -> &str {
        self.tenant.as_str()
    }
}

impl TenantDocument for Review {
    fn whose(&self) -> &str {
        &self.tenant
    }
}

impl TenantDocument for ReviewDone {
    fn whose(&self) -> &str {
        &self.0.tenant
    }
}

impl TenantDocument for Delegation {
    /// A caller who is bound to a tenant sees the users of that tenant.
    fn whose(&self) -> &str {
        self.tenant.as_deref().unwrap_or_default()
    }
}

impl PlatformDocument for AccessPolicies {}
impl PlatformDocument for Cluster {}
impl PlatformDocument for ClusterKey {}
impl PlatformDocument for DeadDelivery {}
impl PlatformDocument for Group {}
impl PlatformDocument for Occurrence {}
impl PlatformDocument for PolicyChange {}
impl PlatformDocument for FreePool {}
impl PlatformDocument for PublishedPolicy {}
impl PlatformDocument for Region {}
impl PlatformDocument for RemovedUser {}
impl PlatformDocument for Session {}
impl PlatformDocument for SettledDelivery {}
impl PlatformDocument for User {}
impl PlatformDocument for WaitingDelivery {}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// Lists the files below `dir` that contain `text`, by name.
    fn with(dir: &Path, text: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                with(&path, text, found);
            } else if fs::read_to_string(&path).unwrap().contains(text) {
                found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
        found.sort();
    }

    #[test]
    fn only_listed_handlers_read_documents_outside_the_scope_of_their_caller() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http");
        let named = |text: &str| {
            let mut found = Vec::new();
            with(&dir, text, &mut found);
            found
        };
        // Agents act for their node, and facts are sorted by the owner of their nodes. Neither route returns the documents.
        assert_eq!(named(&["unscoped", "::<"].concat()), ["agents.rs", "observations.rs"]);
        // Finds tenants with GPUs of a scarce model, for an incident of the platform.
        assert_eq!(named(&["unscoped_all", "::<"].concat()), ["incidents.rs"]);
        // Counts of deliveries, stored answers under the caller's name, the hold of the store, and workloads that do not start, for callers who may read the
        // platform's limits.
        for read in [".documents(", ".document("] {
            let past: Vec<_> = named(&["store()", read].concat());
            let few = ["channels.rs", "idempotency_lock.rs", "page.rs", "platform_rows.rs"];
            assert!(past.iter().all(|file| few.contains(&file.as_str())), "{past:?}");
        }
    }
}
