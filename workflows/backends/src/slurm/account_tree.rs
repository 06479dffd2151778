//! A tenant's account with what lies under it: an account per workspace, with its limits, and the users of both.
//!
//! `t-acme` is the tenant's, `t-acme--prod` its workspace's. Slurm's group limits of an account bound all that lies under it.

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

/// An account and what lies under it in one cluster.
#[derive(Debug)]
pub(super) struct Tree {
    name: String,
    account: Account,
    /// Its association in this cluster; none while only the name is there.
    pub(super) top: Option<Association>,
    /// The account of each workspace.
    pub(super) workspaces: BTreeMap<String, Association>,
    /// Accounts under it that are not named as a workspace's would be.
    pub(super) strangers: Vec<String>,
    /// Users of the accounts, with whether they have any other association in the accounting.
    pub(super) users: BTreeMap<(String, String), bool>,
    /// Other clusters of the accounting in which an account of this name is.
    pub(super) elsewhere: BTreeSet<String>,
}

impl Tree {
    /// The account, its mark and what its workspaces may use, as others see it.
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

    /// What each workspace may use; one without limits is left out, as a field without lines is.
    pub(super) fn associations(&self) -> Associations {
        let all = self.workspaces.iter().map(|(name, one)| (name.clone(), one.limits.clone()));
        all.filter(|(_, limits)| !limits.is_empty()).collect()
    }

    /// Every account of the tree, what lies deeper first.
    pub(super) fn accounts(&self) -> Vec<String> {
        let workspaces = self.workspaces.values().map(|one| one.account.clone());
        workspaces.chain([self.name.clone()]).collect()
    }
}

/// The name of a workspace's account.
pub(super) fn account_of(tenant_account: &str, workspace: &str) -> String {
    format!("{tenant_account}--{workspace}")
}

/// Whether an account is the tenant's or one of its workspaces'.
pub(super) fn is_of(tenant_account: &str, account: &str) -> bool {
    account.strip_prefix(tenant_account).is_some_and(|rest| rest.is_empty() || rest.starts_with("--"))
}

/// Associations as they are compared: a workspace without limits is none.
pub(super) fn tidy(associations: &Associations) -> Associations {
    associations
        .iter()
        .filter(|(_, limits)| !limits.is_empty())
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// The field `associations` of a spec.
pub(super) fn of_spec(field: &Value) -> Result<Associations, serde_json::Error> {
    match field {
        Value::Null => Ok(Associations::new()),
        field => serde_json::from_value(field.clone()).map(|all| tidy(&all)),
    }
}

impl SlurmCluster {
    /// The account of this name with what lies under it, if there is one.
    pub(super) async fn tree(&self, name: &str) -> Result<Option<Tree>, ActionError> {
        self.tree_by(&self.rest, name).await
    }

    /// The same, seen with other eyes.
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
    fn an_account_is_of_a_tenant_by_its_whole_name() {
        assert!(is_of("t-acme", "t-acme") && is_of("t-acme", "t-acme--prod"));
        assert!(
            !is_of("t-acme", "t-acme-2") && !is_of("t-acme", "t-acme-2--prod") && !is_of("t-acme", "root")
        );
    }
}
