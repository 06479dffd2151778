//! Finds and removes a tenant's objects in Slurm: accounts, reservations and QOS. Job records stay.
//!
//! `GrpSubmitJobs=0` blocks new jobs of an account; `GrpJobs=0` and cancellation also end running ones. Tenure controls
//! both limits of a tenant's own account; workspace limits are separate.

use crate::slurm::{
    BACKEND, SlurmCluster,
    account_tree::{Tree, is_of},
    client::RestClient,
    unsupported, within,
};
use async_trait::async_trait;
use engine::ActionError;
use serde_json::json;
use workflows::platform::{
    AccessMode, CallMetadata, ObservedResource, Observer, TenantResource, TenantResources, VerifiedAs, codes,
    tenant_name,
};

const SYSTEM: &str = "slurm";
const ACCOUNT: &str = "Account";
const RESERVATION: &str = "Reservation";
const QOS: &str = "Qos";

#[async_trait]
impl TenantResources for SlurmCluster {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn is_simulated(&self, _: &TenantResource) -> bool {
        false
    }

    fn is_system_simulated(&self, _: &str) -> bool {
        false
    }

    fn verified_as(&self, _: &TenantResource, eyes: Observer) -> VerifiedAs {
        self.eyes(eyes).1
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        if system != SYSTEM {
            return Ok(Vec::new());
        }
        within(stamp, false, self.surveyed(tenant, eyes)).await
    }

    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        within(stamp, false, self.looked(thing, eyes)).await
    }

    async fn set_admission(
        &self,
        thing: &TenantResource,
        tenant: &str,
        admits: AccessMode,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        within(stamp, true, self.admitted(thing, tenant, admits, stamp)).await
    }

    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        within(stamp, true, self.removed(thing, uid, stamp)).await
    }
}

impl SlurmCluster {
    /// Returns the client for an observer, and whose credentials it uses.
    fn eyes(&self, eyes: Observer) -> (&RestClient, VerifiedAs) {
        match (eyes, &self.verifier) {
            (Observer::Verifier, Some(verifier)) => (verifier, VerifiedAs::Verifier),
            (Observer::Verifier, None) | (Observer::Platform, _) => (&self.rest, VerifiedAs::Platform),
        }
    }

    async fn surveyed(&self, tenant: &str, eyes: Observer) -> Result<Vec<ObservedResource>, ActionError> {
        let (rest, name) = (self.eyes(eyes).0, tenant_name(tenant)?);
        let mut all: Vec<ObservedResource> = self.account_seen(rest, &name).await?.into_iter().collect();
        all.retain(|seen| seen.tenant == tenant);
        // The tenant's own reservation holds its nodes and is removed when they are returned.
        let reservations = self.reservations_seen(rest, &name, tenant).await?;
        all.extend(reservations.into_iter().filter(|seen| seen.thing.name != name));
        all.extend(self.qos_seen(rest, &name, tenant).await?);
        Ok(all)
    }

    fn thing(&self, kind: &str, name: &str) -> TenantResource {
        TenantResource::new(SYSTEM, &self.cluster, kind, name)
    }

    async fn account_seen(
        &self,
        rest: &RestClient,
        name: &str,
    ) -> Result<Option<ObservedResource>, ActionError> {
        // An account without any association is only a name; accounts of Tenure exist only in this cluster.
        let Some(tree) = self.tree_by(rest, name).await? else { return Ok(None) };
        if tree.top.is_none() && !tree.elsewhere.is_empty() {
            return Ok(None);
        }
        let jobs = rest.jobs().await?;
        let jobs = jobs.iter().filter(|job| job.is_live() && is_of(name, &job.account)).count();
        let mut users: Vec<&String> = tree.users.keys().map(|(user, _)| user).collect();
        users.dedup();
        let spec = json!({
            "jobs": jobs, "admits": admits(&tree), "workspaces": tree.workspaces.keys().collect::<Vec<_>>(), "users": users,
        });
        let found = tree.found();
        let thing = self.thing(ACCOUNT, name);
        Ok(Some(ObservedResource { thing, uid: found.uid, tenant: found.tenant, spec, terminating: false }))
    }

    async fn reservations_seen(
        &self,
        rest: &RestClient,
        name: &str,
        tenant: &str,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        let of = |accounts: &str| accounts.split(',').all(|account| is_of(name, account));
        let ours =
            rest.reservations().await?.into_iter().filter(|one| is_of(name, &one.name) || of(&one.accounts));
        Ok(ours
            .map(|one| ObservedResource {
                thing: self.thing(RESERVATION, &one.name),
                uid: format!("{}@{}", one.name, one.start),
                tenant: tenant.to_owned(),
                spec: json!({ "nodes": one.nodes, "accounts": one.accounts }),
                terminating: false,
            })
            .collect())
    }

    async fn qos_seen(
        &self,
        rest: &RestClient,
        name: &str,
        tenant: &str,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        let ours = rest.qos().await?.into_iter().filter(|(qos, _)| is_of(name, qos));
        Ok(ours
            .map(|(qos, id)| ObservedResource {
                thing: self.thing(QOS, &qos),
                uid: format!("{qos}@{id}"),
                tenant: tenant.to_owned(),
                spec: json!({}),
                terminating: false,
            })
            .collect())
    }

    async fn looked(
        &self,
        thing: &TenantResource,
        eyes: Observer,
    ) -> Result<Option<ObservedResource>, ActionError> {
        let rest = self.eyes(eyes).0;
        let named = |seen: Vec<ObservedResource>| seen.into_iter().find(|seen| seen.thing.name == thing.name);
        let tenant = tenant_of(&thing.name);
        let seen = match thing.kind.as_str() {
            ACCOUNT => self.account_seen(rest, &thing.name).await?,
            RESERVATION => named(self.reservations_seen(rest, &thing.name, tenant).await?),
            QOS => named(self.qos_seen(rest, &thing.name, tenant).await?),
            other => return Err(unsupported(&format!("Slurm has no {other}"))),
        };
        // Uses the caller's name of the place, which can differ from Slurm's cluster name.
        Ok(seen.map(|seen| ObservedResource { thing: thing.clone(), ..seen }))
    }

    async fn admitted(
        &self,
        thing: &TenantResource,
        tenant: &str,
        admits: AccessMode,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        if thing.kind != ACCOUNT {
            return Err(unsupported(&format!("a Slurm {} does not admit workloads", thing.kind)));
        }
        let Some(tree) = self.tree(&thing.name).await?.filter(|tree| tree.top.is_some()) else {
            return Ok(());
        };
        if tree.found().tenant != tenant {
            let why = format!("account {} belongs to {:?}", thing.name, tree.found().tenant);
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        if stamp.dry_run {
            return Ok(());
        }
        let (submits, jobs) = match admits {
            AccessMode::All => ("GrpSubmitJobs=-1", "GrpJobs=-1"),
            AccessMode::ReadOnly => ("GrpSubmitJobs=0", "GrpJobs=-1"),
            AccessMode::Nothing => ("GrpSubmitJobs=0", "GrpJobs=0"),
        };
        let (name, cluster) = (format!("name={}", thing.name), format!("cluster={}", self.cluster));
        self.tools.sacctmgr(&["modify", "account", "where", &name, &cluster, "set", submits, jobs]).await?;
        if admits == AccessMode::Nothing {
            for job in self.live_jobs(|account| is_of(&thing.name, account)).await? {
                self.rest.cancel(job.id).await?;
            }
        }
        match self.tree(&thing.name).await? {
            Some(tree) if self::admits(&tree) != admits => Err(super::not_kept(&thing.name)),
            Some(_) | None => Ok(()),
        }
    }

    async fn removed(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        if thing.kind == ACCOUNT {
            return self.deleted(&thing.name, uid, stamp).await;
        }
        let Some(seen) = self.looked(thing, Observer::Platform).await? else { return Ok(()) };
        if seen.uid != uid {
            let why = format!("{thing} was replaced meanwhile");
            return Err(ActionError::transient(codes::OBJECT_CHANGED, why));
        }
        if stamp.dry_run {
            return Ok(());
        }
        if thing.kind == RESERVATION {
            return self.remove_reservation(&thing.name).await;
        }
        let name = format!("name={}", thing.name);
        self.tools.sacctmgr(&["delete", "qos", "where", &name]).await.map(drop)
    }
}

fn admits(tree: &Tree) -> AccessMode {
    let top = tree.top.as_ref();
    match (top.and_then(|top| top.submits), top.and_then(|top| top.limits.get("jobs"))) {
        (Some(0), Some(0)) => AccessMode::Nothing,
        (Some(0), _) => AccessMode::ReadOnly,
        _ => AccessMode::All,
    }
}

/// Returns the tenant of an object by its name: `t-acme--prod` belongs to `acme`.
fn tenant_of(name: &str) -> &str {
    let name = name.strip_prefix("t-").unwrap_or(name);
    name.split_once("--").map_or(name, |(tenant, _)| tenant)
}
