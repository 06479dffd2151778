//! What a tenant has in Slurm, found again and taken away: accounts, reservations, QOS. Records of jobs stay.
//!
//! An account lets nothing in by `GrpSubmitJobs=0`, and ends what runs by `GrpJobs=0` as well and by cancelling it. Both
//! limits of a tenant's own account belong to us; its workspaces' limits are elsewhere.

use crate::slurm::{
    BACKEND, SlurmCluster,
    account_tree::{Tree, is_of},
    client::Rest,
    unsupported, within,
};
use async_trait::async_trait;
use engine::ActionError;
use serde_json::json;
use workflows::platform::{Admits, Emptied, Estate, Eyes, Finding, Seen, Stamp, Thing, codes, tenant_name};

const SYSTEM: &str = "slurm";
const ACCOUNT: &str = "Account";
const RESERVATION: &str = "Reservation";
const QOS: &str = "Qos";

#[async_trait]
impl Estate for SlurmCluster {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Eyes,
        stamp: &Stamp,
    ) -> Result<Vec<Seen>, ActionError> {
        if system != SYSTEM {
            return Ok(Vec::new());
        }
        within(stamp, false, self.surveyed(tenant, eyes)).await
    }

    async fn look(&self, thing: &Thing, eyes: Eyes, stamp: &Stamp) -> Result<Option<Seen>, ActionError> {
        within(stamp, false, self.looked(thing, eyes)).await
    }

    async fn admit(
        &self,
        thing: &Thing,
        tenant: &str,
        admits: Admits,
        stamp: &Stamp,
    ) -> Result<(), ActionError> {
        within(stamp, true, self.admitted(thing, tenant, admits, stamp)).await
    }

    async fn rewrap(&self, _: &Thing, _: &str, _: &str, _: &Stamp) -> Result<(), ActionError> {
        Err(unsupported("slurm keeps nothing under a key"))
    }

    async fn empty(&self, _: &Thing, _: &str, _: &Stamp) -> Result<Emptied, ActionError> {
        Err(unsupported("nothing in slurm is emptied before it is removed"))
    }

    async fn remove(&self, thing: &Thing, uid: &str, stamp: &Stamp) -> Result<(), ActionError> {
        within(stamp, true, self.removed(thing, uid, stamp)).await
    }

    async fn undecryptable(&self, _: &Thing, _: &Stamp) -> Result<Finding, ActionError> {
        Err(unsupported("slurm keeps nothing under a key"))
    }
}

impl SlurmCluster {
    fn eyes(&self, eyes: Eyes) -> &Rest {
        match eyes {
            Eyes::Platform => &self.rest,
            Eyes::Verifier => self.verifier.as_ref().unwrap_or(&self.rest),
        }
    }

    async fn surveyed(&self, tenant: &str, eyes: Eyes) -> Result<Vec<Seen>, ActionError> {
        let (rest, name) = (self.eyes(eyes), tenant_name(tenant)?);
        let mut all: Vec<Seen> = self.account_seen(rest, &name).await?.into_iter().collect();
        all.retain(|seen| seen.tenant == tenant);
        // Its own is how the nodes are the tenant's: it goes when they are returned.
        let reservations = self.reservations_seen(rest, &name, tenant).await?;
        all.extend(reservations.into_iter().filter(|seen| seen.thing.name != name));
        all.extend(self.qos_seen(rest, &name, tenant).await?);
        Ok(all)
    }

    fn thing(&self, kind: &str, name: &str) -> Thing {
        Thing::new(SYSTEM, &self.cluster, kind, name)
    }

    async fn account_seen(&self, rest: &Rest, name: &str) -> Result<Option<Seen>, ActionError> {
        // What is left of an account that is in no cluster is only a name, and none of ours lies elsewhere.
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
        Ok(Some(Seen { thing, uid: found.uid, tenant: found.tenant, spec, terminating: false }))
    }

    async fn reservations_seen(
        &self,
        rest: &Rest,
        name: &str,
        tenant: &str,
    ) -> Result<Vec<Seen>, ActionError> {
        let of = |accounts: &str| accounts.split(',').all(|account| is_of(name, account));
        let ours =
            rest.reservations().await?.into_iter().filter(|one| is_of(name, &one.name) || of(&one.accounts));
        Ok(ours
            .map(|one| Seen {
                thing: self.thing(RESERVATION, &one.name),
                uid: format!("{}@{}", one.name, one.start),
                tenant: tenant.to_owned(),
                spec: json!({ "nodes": one.nodes, "accounts": one.accounts }),
                terminating: false,
            })
            .collect())
    }

    async fn qos_seen(&self, rest: &Rest, name: &str, tenant: &str) -> Result<Vec<Seen>, ActionError> {
        let ours = rest.qos().await?.into_iter().filter(|(qos, _)| is_of(name, qos));
        Ok(ours
            .map(|(qos, id)| Seen {
                thing: self.thing(QOS, &qos),
                uid: format!("{qos}@{id}"),
                tenant: tenant.to_owned(),
                spec: json!({}),
                terminating: false,
            })
            .collect())
    }

    async fn looked(&self, thing: &Thing, eyes: Eyes) -> Result<Option<Seen>, ActionError> {
        let rest = self.eyes(eyes);
        let named = |seen: Vec<Seen>| seen.into_iter().find(|seen| seen.thing.name == thing.name);
        let tenant = tenant_of(&thing.name);
        let seen = match thing.kind.as_str() {
            ACCOUNT => self.account_seen(rest, &thing.name).await?,
            RESERVATION => named(self.reservations_seen(rest, &thing.name, tenant).await?),
            QOS => named(self.qos_seen(rest, &thing.name, tenant).await?),
            other => return Err(unsupported(&format!("slurm keeps no {other}"))),
        };
        // The place is named as the caller does, which need not be Slurm's name of the cluster.
        Ok(seen.map(|seen| Seen { thing: thing.clone(), ..seen }))
    }

    async fn admitted(
        &self,
        thing: &Thing,
        tenant: &str,
        admits: Admits,
        stamp: &Stamp,
    ) -> Result<(), ActionError> {
        if thing.kind != ACCOUNT {
            return Err(unsupported(&format!("a {} of slurm lets nothing in", thing.kind)));
        }
        let Some(tree) = self.tree(&thing.name).await?.filter(|tree| tree.top.is_some()) else {
            return Ok(());
        };
        if tree.found().tenant != tenant {
            let why = format!("account {} is of {:?}", thing.name, tree.found().tenant);
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        if stamp.dry_run {
            return Ok(());
        }
        let (submits, jobs) = match admits {
            Admits::All => ("GrpSubmitJobs=-1", "GrpJobs=-1"),
            Admits::ReadOnly => ("GrpSubmitJobs=0", "GrpJobs=-1"),
            Admits::Nothing => ("GrpSubmitJobs=0", "GrpJobs=0"),
        };
        let (name, cluster) = (format!("name={}", thing.name), format!("cluster={}", self.cluster));
        self.tools.sacctmgr(&["modify", "account", "where", &name, &cluster, "set", submits, jobs]).await?;
        if admits == Admits::Nothing {
            for job in self.live_jobs(|account| is_of(&thing.name, account)).await? {
                self.rest.cancel(job.id).await?;
            }
        }
        match self.tree(&thing.name).await? {
            Some(tree) if self::admits(&tree) != admits => Err(super::not_kept(&thing.name)),
            Some(_) | None => Ok(()),
        }
    }

    async fn removed(&self, thing: &Thing, uid: &str, stamp: &Stamp) -> Result<(), ActionError> {
        if thing.kind == ACCOUNT {
            return self.deleted(&thing.name, uid, stamp).await;
        }
        let Some(seen) = self.looked(thing, Eyes::Platform).await? else { return Ok(()) };
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

fn admits(tree: &Tree) -> Admits {
    let top = tree.top.as_ref();
    match (top.and_then(|top| top.submits), top.and_then(|top| top.limits.get("jobs"))) {
        (Some(0), Some(0)) => Admits::Nothing,
        (Some(0), _) => Admits::ReadOnly,
        _ => Admits::All,
    }
}

/// Whose a thing of this name is: `t-acme--prod` is of `acme`.
fn tenant_of(name: &str) -> &str {
    let name = name.strip_prefix("t-").unwrap_or(name);
    name.split_once("--").map_or(name, |(tenant, _)| tenant)
}
