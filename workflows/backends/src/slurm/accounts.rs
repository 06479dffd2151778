//! Accounts and workspace limits, written with `sacctmgr` and read over REST.
//!
//! Slurm 22.05 announces associations that are created over REST to the running controller with a wrong user, and
//! reservations for the account then fail until a restart. `sacctmgr` rounds memory when it lists limits.

use crate::slurm::{
    BACKEND, SlurmCluster,
    account_tree::{Tree, account_of, of_spec, tidy},
    not_kept,
    owner_label::OwnerLabel,
    tools::ToolResult,
    within,
};
use async_trait::async_trait;
use engine::ActionError;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use workflows::platform::{Associations, CallMetadata, FieldSwap, FoundObject, Slurm, codes};

type Limits = BTreeMap<String, u64>;

#[async_trait]
impl Slurm for SlurmCluster {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    async fn create_account(
        &self,
        _cluster: &str,
        name: &str,
        tenant: &str,
        associations: &Associations,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        within(stamp, true, self.made(name, tenant, associations, stamp)).await
    }

    async fn account(
        &self,
        _cluster: &str,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        let there = within(stamp, false, self.tree(name)).await?;
        Ok(there.filter(|tree| tree.top.is_some()).map(|tree| tree.found()))
    }

    async fn compare_and_set(
        &self,
        _cluster: &str,
        name: &str,
        tenant: &str,
        swap: &FieldSwap,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        within(stamp, true, self.swapped(name, tenant, swap, stamp)).await
    }

    async fn delete_account(
        &self,
        _cluster: &str,
        name: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        within(stamp, true, self.deleted(name, &found.uid, stamp)).await
    }
}

impl SlurmCluster {
    async fn made(
        &self,
        name: &str,
        tenant: &str,
        wanted: &Associations,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let _turn = self.turns.of(name).await;
        let mark = OwnerLabel::new(tenant, stamp);
        let there = self.tree(name).await?;
        if let Some(tree) = &there
            && complete(tree, name, tenant, wanted, stamp)?
        {
            return Ok(tree.found());
        }
        if stamp.dry_run {
            return Ok(mark.found(json!({ "associations": wanted })));
        }
        match &there {
            None => drop(self.add(name, "root", &mark, &Limits::new()).await?),
            Some(tree) if tree.top.is_none() => self.revive(name, &mark).await?,
            Some(_) => {}
        }
        let made: BTreeSet<String> = there.iter().flat_map(|tree| tree.workspaces.keys().cloned()).collect();
        for (workspace, limits) in wanted.iter().filter(|(workspace, _)| !made.contains(*workspace)) {
            self.add(&account_of(name, workspace), name, &mark, limits).await?;
        }
        let tree = self.tree(name).await?.ok_or_else(|| not_kept(name))?;
        if !complete(&tree, name, tenant, wanted, stamp)? {
            return Err(not_kept(name));
        }
        Ok(tree.found())
    }

    /// Creates an account below another one. An existing account is no error, because the caller reads it back.
    async fn add(
        &self,
        name: &str,
        parent: &str,
        mark: &OwnerLabel,
        limits: &Limits,
    ) -> Result<ToolResult, ActionError> {
        let (parent, cluster) = (format!("parent={parent}"), format!("cluster={}", self.cluster));
        let (description, whose) = (format!("description={mark}"), format!("organization={}", mark.tenant));
        let limits = words(&Limits::new(), limits);
        let mut all = vec!["add", "account", name, &parent, &cluster, &description, &whose];
        all.extend(limits.iter().map(String::as_str));
        self.tools.sacctmgr(&all).await
    }

    /// Adds an account that exists only by name to the cluster again, and replaces its old description.
    async fn revive(&self, name: &str, mark: &OwnerLabel) -> Result<(), ActionError> {
        if self.add(name, "root", mark, &Limits::new()).await? == ToolResult::Did {
            let (name, description) = (format!("name={name}"), format!("description={mark}"));
            self.tools.sacctmgr(&["modify", "account", "where", &name, "set", &description]).await?;
        }
        Ok(())
    }

    async fn swapped(
        &self,
        name: &str,
        tenant: &str,
        swap: &FieldSwap,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        if swap.field != "associations" {
            let why = format!("an account has associations, and no {:?}", swap.field);
            return Err(ActionError::permanent(codes::REFUSED, why));
        }
        let unreadable = |e| ActionError::permanent(codes::UNREADABLE, format!("change of {name}: {e}"));
        let (from, to) = (of_spec(&swap.from).map_err(unreadable)?, of_spec(&swap.to).map_err(unreadable)?);
        let _turn = self.turns.of(name).await;
        let Some(tree) = self.tree(name).await?.filter(|tree| tree.top.is_some()) else {
            return Err(ActionError::permanent(codes::OBJECT_MISSING, format!("there is no account {name}")));
        };
        let found = tree.found();
        if found.tenant != tenant {
            let why = format!("account {name} is of {:?}", found.tenant);
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        let now = tree.associations();
        // Slurm has no idempotency keys: if the limits already have the new values, the call is a retry.
        if now == to {
            return Ok(found);
        }
        if now != from {
            let why = format!("associations of {name} were changed meanwhile");
            return Err(ActionError::transient(codes::OBJECT_CHANGED, why));
        }
        if stamp.dry_run {
            return Ok(FoundObject { spec: json!({ "associations": to }), ..found });
        }
        self.set_all(name, tenant, &tree, &to, stamp).await?;
        let tree = self.tree(name).await?.ok_or_else(|| not_kept(name))?;
        if tree.associations() == to { Ok(tree.found()) } else { Err(not_kept(name)) }
    }

    async fn set_all(
        &self,
        name: &str,
        tenant: &str,
        tree: &Tree,
        to: &Associations,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let workspaces: BTreeSet<&String> = tree.workspaces.keys().chain(to.keys()).collect();
        let (cluster, none) = (format!("cluster={}", self.cluster), Limits::new());
        for workspace in workspaces {
            let account = account_of(name, workspace);
            let wanted = to.get(workspace).unwrap_or(&none);
            let Some(there) = tree.workspaces.get(workspace) else {
                self.add(&account, name, &OwnerLabel::new(tenant, stamp), wanted).await?;
                continue;
            };
            let changes = words(&there.limits, wanted);
            if changes.is_empty() {
                continue;
            }
            let account = format!("name={account}");
            let mut all = vec!["modify", "account", "where", &account, &cluster, "set"];
            all.extend(changes.iter().map(String::as_str));
            self.tools.sacctmgr(&all).await?;
        }
        Ok(())
    }

    /// Removes an account, the accounts of its workspaces, and their users. Users without other associations are
    /// removed completely. Job records stay in the accounting.
    pub(super) async fn deleted(
        &self,
        name: &str,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let _turn = self.turns.of(name).await;
        let Some(tree) = self.tree(name).await? else { return Ok(()) };
        if tree.found().uid != uid {
            let why = format!("account {name} was replaced meanwhile");
            return Err(ActionError::transient(codes::OBJECT_CHANGED, why));
        }
        if !tree.strangers.is_empty() {
            let why = format!(
                "under account {name} are {}, which were not made as workspaces",
                tree.strangers.join(", ")
            );
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        let accounts = tree.accounts();
        let jobs = self.live_jobs(|account| accounts.iter().any(|own| own == account)).await?;
        if !jobs.is_empty() {
            let ids: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
            let why = format!("account {name} has jobs: {}", ids.join(", "));
            return Err(ActionError::permanent(codes::ACCOUNT_IN_USE, why));
        }
        if stamp.dry_run {
            return Ok(());
        }
        self.keep_reserved(name).await?;
        let cluster = format!("cluster={}", self.cluster);
        // Users go first: after their accounts are removed, nothing shows that they belonged to this tenant.
        for ((user, account), outside) in &tree.users {
            let (user, account) = (format!("name={user}"), format!("account={account}"));
            let all = ["delete", "user", "where", &user, &account, &cluster];
            self.tools.sacctmgr(all.get(..if *outside { 6 } else { 4 }).unwrap_or(&all)).await?;
        }
        for account in &accounts {
            let account = format!("name={account}");
            let all = ["delete", "account", "where", &account, &cluster];
            // With the cluster named, only the association is removed and the account's name remains.
            self.tools
                .sacctmgr(all.get(..if tree.elsewhere.is_empty() { 4 } else { 5 }).unwrap_or(&all))
                .await?;
        }
        match self.tree(name).await? {
            Some(left) if left.top.is_some() || tree.elsewhere.is_empty() => Err(not_kept(name)),
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns true if the account is as wanted, and `false` if this step has created it only in part.
fn complete(
    tree: &Tree,
    name: &str,
    tenant: &str,
    wanted: &Associations,
    stamp: &CallMetadata,
) -> Result<bool, ActionError> {
    let found = tree.found();
    let foreign = |why: String| Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
    if found.tenant != tenant {
        return foreign(format!("account {name} is there, of {:?}: it was left as it is", found.tenant));
    }
    if tree.top.is_none() {
        if tree.elsewhere.is_empty() {
            return Ok(false);
        }
        let clusters: Vec<&str> = tree.elsewhere.iter().map(String::as_str).collect();
        let clusters = clusters.join(", ");
        return foreign(format!(
            "account {name} is in {clusters} of the same accounting, which keeps one mark for both"
        ));
    }
    let there = wanted.keys().all(|workspace| tree.workspaces.contains_key(workspace));
    if there && tree.associations() == tidy(wanted) {
        return Ok(true);
    }
    let begun = tree.workspaces.iter().all(|(workspace, one)| wanted.get(workspace) == Some(&one.limits));
    if found.step == stamp.step && begun {
        return Ok(false);
    }
    foreign(format!("account {name} is there, of {tenant:?}, and differs: it was left as it is"))
}

/// Returns the arguments that change the limits; -1 removes a limit.
fn words(from: &Limits, to: &Limits) -> Vec<String> {
    let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    let changed = names.into_iter().filter(|name| from.get(*name) != to.get(*name));
    let amount = |name: &String| to.get(name).map_or("-1".to_owned(), u64::to_string);
    let (jobs, tres): (Vec<&String>, Vec<&String>) = changed.partition(|name| *name == "jobs");
    let tres: Vec<String> = tres.into_iter().map(|name| format!("{name}={}", amount(name))).collect();
    let tres = (!tres.is_empty()).then(|| format!("GrpTRES={}", tres.join(",")));
    tres.into_iter().chain(jobs.into_iter().map(|name| format!("GrpJobs={}", amount(name)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differing_limits_are_set_and_removed_ones_are_cleared() {
        let limits = |all: &[(&str, u64)]| all.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect::<Limits>();
        let from = limits(&[("cpu", 16), ("gres/gpu:h200", 8), ("jobs", 3), ("mem", 1)]);
        let to = limits(&[("gres/gpu:h200", 12), ("mem", 1)]);
        assert_eq!(words(&from, &to), ["GrpTRES=cpu=-1,gres/gpu:h200=12", "GrpJobs=-1"]);
        assert_eq!(words(&Limits::new(), &limits(&[("jobs", 2)])), ["GrpJobs=2"]);
        assert!(words(&from, &from).is_empty());
    }
}
