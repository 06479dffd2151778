//! Whose each kind of document is, so that no handler reads what is a tenant's without saying for whom.
//!
//! Invariant: [`documents`](super::documents) and [`document`](super::document) take kinds of the platform's alone, and no kind is
//! both. What belongs to tenants comes by [`list_visible`] and [`get_visible`], which leave out what the caller does not see. Those few
//! that ask on nobody's behalf say so, by [`unscoped`]; a test knows them all.

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

/// A kind of document that is no tenant's: whoever is let in at a route that reads it may read all.
pub(crate) trait PlatformDocument: Entity {}

/// A kind of document of which each is a tenant's, or the platform's own.
pub(crate) trait TenantDocument: Entity {
    /// Whose it is; empty for the platform's own.
    fn whose(&self) -> &str;
}

/// The documents of a kind that the caller sees and `wanted` takes, a page of them.
pub(in crate::http) async fn list_visible<T: TenantDocument>(
    app: &ServerState,
    caller: &Caller,
    prefix: &str,
    page: &Page,
    wanted: impl Fn(&T) -> bool,
) -> Result<(Vec<T>, Option<String>), Problem> {
    found(app, prefix, page, |item: &T| caller.sees(item.whose()) && wanted(item)).await
}

/// One document by its id, if the caller sees it.
pub(in crate::http) async fn get_visible<T: TenantDocument>(
    app: &ServerState,
    caller: &Caller,
    id: &str,
) -> Result<Option<T>, Problem> {
    Ok(get_visible_with_version(app, caller, id).await?.map(|(item, _)| item))
}

/// The same, with the version in which it was read.
pub(in crate::http) async fn get_visible_with_version<T: TenantDocument>(
    app: &ServerState,
    caller: &Caller,
    id: &str,
) -> Result<Option<(T, Sequence)>, Problem> {
    Ok(load::<T>(app, id).await?.filter(|(item, _)| caller.sees(item.whose())))
}

/// One document by its id, whosever it is: for what is asked on nobody's behalf, and told to nobody.
pub(in crate::http) async fn unscoped<T: TenantDocument>(
    app: &ServerState,
    id: &str,
) -> Result<Option<T>, Problem> {
    Ok(load(app, id).await?.map(|(item, _)| item))
}

/// All documents of a kind that `wanted` takes, whosever they are: for what concerns all tenants at once.
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
    /// What nobody owns is the platform's.
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
    /// Who is bound to a tenant sees those among that tenant's people.
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

    /// The files below `dir` that hold `text`, by name.
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
    fn no_handler_reads_documents_past_what_its_caller_sees_but_the_few_that_are_named() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http");
        let named = |text: &str| {
            let mut found = Vec::new();
            with(&dir, text, &mut found);
            found
        };
        // An agent speaks for a node, and facts are sorted by whose the nodes are: neither is told of what is there.
        assert_eq!(named(&["unscoped", "::<"].concat()), ["agents.rs", "observations.rs"]);
        // Who has GPUs of a model that runs short, for a response that is the platform's.
        assert_eq!(named(&["unscoped_all", "::<"].concat()), ["incidents.rs"]);
        // How many deliveries a channel has, answers kept by the caller's own name, the hold of the store, and workloads that do not
        // start, for callers of the platform who may read its limits.
        for read in [".documents(", ".document("] {
            let past: Vec<_> = named(&["store()", read].concat());
            let few = ["channels.rs", "idempotency_lock.rs", "page.rs", "platform_rows.rs"];
            assert!(past.iter().all(|file| few.contains(&file.as_str())), "{past:?}");
        }
    }
}
