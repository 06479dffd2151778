//! Kueue's quota arithmetic on a tenant's account: the tenant is the root cohort, its workspaces are the leaves
//! (pkg/cache/scheduler/resource_node.go of kubernetes-sigs/kueue).

use crate::tenancy::{Allowance, Balance, Cohort, Resource, WorkspaceName};

/// What of a nominal quota is lent while idle: Kueue's subtree quota less its local quota.
#[must_use]
pub fn lends(allowance: &Allowance) -> u64 {
    allowance.lending_limit.unwrap_or(u64::MAX).min(allowance.nominal)
}

/// What a workspace keeps for itself.
fn local(allowance: &Allowance) -> u64 {
    allowance.nominal.saturating_sub(lends(allowance))
}

/// What a workspace could lend beside what it takes: idle, and within its lending limit. What is lent already is a part of it.
#[must_use]
pub fn spare(balance: &Balance) -> u64 {
    lends(&balance.allowance).min(balance.allowance.nominal.saturating_sub(balance.in_use()))
}

/// `a` less what it could be, never below none.
fn clamp(amount: i128) -> u64 {
    u64::try_from(amount.max(0)).unwrap_or(u64::MAX)
}

impl Cohort {
    /// Every workspace's balance of `resource`.
    pub fn balances<'a>(
        &'a self,
        resource: &'a Resource,
    ) -> impl Iterator<Item = (&'a WorkspaceName, Balance)> + 'a {
        self.accounts.iter().map(move |(name, account)| (name, account.balance(resource)))
    }

    /// What all workspaces together lend while idle: the root's subtree quota.
    #[must_use]
    pub fn lent_at_most(&self, resource: &Resource) -> u64 {
        self.balances(resource).fold(0, |sum, (_, balance)| sum.saturating_add(lends(&balance.allowance)))
    }

    /// What of that nobody uses; below zero after a decrease.
    fn root_available(&self, resource: &Resource) -> i128 {
        let of = |(_, balance): (&WorkspaceName, Balance)| {
            let used = balance.in_use().saturating_sub(local(&balance.allowance));
            i128::from(lends(&balance.allowance)) - i128::from(used)
        };
        self.balances(resource).map(of).sum()
    }

    /// What `workspace` could use more of `resource`; nothing if it is unknown.
    #[must_use]
    pub fn available(&self, workspace: &WorkspaceName, resource: &Resource) -> u64 {
        let Some(account) = self.accounts.get(workspace) else { return 0 };
        self.available_within(&account.balance(resource), resource)
    }

    /// The same for one whose balance is `balance`; its borrowing limit may be tighter than the account has it.
    #[must_use]
    pub fn available_within(&self, balance: &Balance, resource: &Resource) -> u64 {
        let (allowance, taken) = (&balance.allowance, balance.in_use());
        let own = local(allowance).saturating_sub(taken);
        let mut parent = self.root_available(resource);
        if let Some(limit) = allowance.borrowing_limit {
            let above = taken.saturating_sub(local(allowance));
            let most = i128::from(lends(allowance)) - i128::from(above) + i128::from(limit);
            parent = parent.min(most);
        }
        clamp(i128::from(own) + parent)
    }

    /// What one with `allowance` could use if nobody used anything.
    #[must_use]
    pub fn potential(&self, allowance: &Allowance, resource: &Resource) -> u64 {
        let mut parent = i128::from(self.lent_at_most(resource));
        if let Some(limit) = allowance.borrowing_limit {
            parent = parent.min(i128::from(lends(allowance)) + i128::from(limit));
        }
        clamp(i128::from(local(allowance)) + parent)
    }

    /// Whether `workspace` would be borrowing with `more` of `resource`.
    #[must_use]
    pub fn borrows_with(&self, workspace: &WorkspaceName, resource: &Resource, more: u64) -> bool {
        let Some(account) = self.accounts.get(workspace) else { return false };
        let balance = account.balance(resource);
        balance.in_use().saturating_add(more) > balance.allowance.nominal
    }
}
