//! A tenant's account tree: one account per workspace, with limits, and the users of all accounts.
//!
//! `t-acme` is the tenant's account and `t-acme--prod` the account of a workspace. Slurm's group limits of an account
//! apply to everything below it.

use crate::slurm::{
    SlurmCluster,
    client::RestClient,
    owner_label::OwnerLabel,
    responses::{Account, Association},
};
use engine::ActionError;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use workflows::platform::{Associations, FoundObject};

/// An account and everything below it in one cluster.
#[derive(Debug)]
pub(super) struct Tree {
    name: String,
    account: Account,
    /// The account's association in this cluster; `None` if the account has none here.
    pub(super) top: Option<Association>,
    /// The account of each workspace.
    pub(super) workspaces: BTreeMap<String, Association>,
    /// Child accounts whose names do not match a workspace.
    pub(super) strangers: Vec<String>,
    /// Users of the accounts, and whether each also has other associations.
    pub(super) users: BTreeMap<(String, String), bool>,
    /// Other clusters with an account of this name in the same accounting database.
    pub(super) elsewhere: BTreeSet<String>,
}

impl Tree {
    /// Returns the account with its owner label and limits, as a platform object.
    pub(super) fn found(&self) -> FoundObject {
        let spec = match self.associations() {
            all if all.is_empty() => json!({}),
            all => json!({ "associations": all }),
        };
        match OwnerLabel::read(&self.account.description) {
            Some(mark) => mark.found(spec),
            None => FoundObject {
                uid: format!("unmarked/{}", self.name),
                tenant: String::new(),
                step: String::new(),
                spec,
                terminating: false,
            },
        }
    }

    /// Returns the limits of each workspace. Workspaces without limits are left out.
    pub(super) fn associations(&self) -> Associations {
        let all = self.workspaces.iter().map(|(name, one)| (name.clone(), one.limits.clone()));
        all.filter(|(_, limits)| !limits.is_empty()).collect()
    }

    /// Returns all accounts of the tree, children first.
    pub(super) fn accounts(&self) -> Vec<String> {
        let workspaces = self.workspaces.values().map(|one| one.account.clone());
        workspaces.chain([self.name.clone()]).collect()
    }
}

/// Returns the name of a workspace's account.
pub(super) fn account_of(tenant_account: &str, workspace: &str) -> String {
    format!("{tenant_account}--{workspace}")
}

/// Returns true if the account belongs to the tenant or one of its workspaces.
pub(super) fn is_of(tenant_account: &str, account: &str) -> bool {
    account.strip_prefix(tenant_account).is_some_and(|rest| rest.is_empty() || rest.starts_with("--"))
}

/// Returns the associations without workspaces that have no limits, for comparison.
pub(super) fn tidy(associations: &Associations) -> Associations {
    associations
        .iter()
        .filter(|(_, limits)| !limits.is_empty())
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// Parses the field `associations` of a spec.
pub(super) fn of_spec(field: &Value) -> Result<Associations, serde_json::Error> {
    match field {
        Value::Null => Ok(Associations::new()),
        field => serde_json::from_value(field.clone()).map(|all| tidy(&all)),
    }
}

impl SlurmCluster {
    /// Returns the account tree of this name, if it exists.
    pub(super) async fn tree(&self, name: &str) -> Result<Option<Tree>, ActionError> {
        self.tree_by(&self.rest, name).await
    }

    /// Returns the account tree, read by another client.
    pub(super) async fn tree_by(&self, rest: &RestClient, name: &str) -> Result<Option<Tree>, ActionError> {
        let Some(account) = rest.account(name).await? else { return Ok(None) };
        let all = rest.associations().await?;
        let (here, others): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.cluster == self.cluster);
        let accounts: Vec<&Association> = here.iter().copied().filter(|one| one.user.is_none()).collect();
        let under = accounts.iter().filter(|one| one.parent.as_deref() == Some(name));
        let (named, strange): (Vec<_>, Vec<_>) = under
            .map(|one| (one.account.strip_prefix(name).and_then(|rest| rest.strip_prefix("--")), *one))
            .partition(|(workspace, _)| workspace.is_some());
        let workspaces: BTreeMap<String, Association> =
            named.into_iter().filter_map(|(name, one)| Some((name?.to_owned(), one.clone()))).collect();
        let mut tree = Tree {
            name: name.to_owned(),
            account,
            top: accounts.iter().find(|one| one.account == name).map(|one| (*one).clone()),
            workspaces,
            strangers: strange.into_iter().map(|(_, one)| one.account.clone()).collect(),
            users: BTreeMap::new(),
            elsewhere: others
                .iter()
                .filter(|one| one.account == name)
                .map(|one| one.cluster.clone())
                .collect(),
        };
        let own: BTreeSet<String> = tree.accounts().into_iter().collect();
        for one in here.iter().filter(|one| own.contains(&one.account)) {
            let Some(user) = &one.user else { continue };
            let outside = |other: &&Association| {
                other.user.as_ref() == Some(user)
                    && (other.cluster != self.cluster || !own.contains(&other.account))
            };
            tree.users.insert((user.clone(), one.account.clone()), all.iter().any(|other| outside(&other)));
        }
        Ok(Some(tree))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_belongs_to_a_tenant_by_its_complete_name() {
        assert!(is_of("t-acme", "t-acme") && is_of("t-acme", "t-acme--prod"));
        assert!(
            !is_of("t-acme", "t-acme-2") && !is_of("t-acme", "t-acme-2--prod") && !is_of("t-acme", "root")
        );
    }
}
