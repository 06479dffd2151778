//! Computes the amounts available to a workspace: Kueue's quota arithmetic on a tenant's account, plus free GPUs.
//!
//! The tenant is the root cohort, and its workspaces are the leaves (pkg/cache/scheduler/resource_node.go of kubernetes-sigs/kueue). The tenant's
//! [pool](Cohort::pool) is the root's own quota. Decisions, the queue and reclaims all use [`Cohort::available_within`], so a request that the queue would
//! admit starts no reclaim.

use crate::tenancy::{Allowance, Balance, Cohort, GpuKind, Resource, WorkspaceName};

/// Returns the part of a nominal quota that is lent while idle: Kueue's subtree quota less its local quota.
#[must_use]
pub fn lends(allowance: &Allowance) -> u64 {
    allowance.lending_limit.unwrap_or(u64::MAX).min(allowance.nominal)
}

/// Returns the part that a workspace never lends.
fn local(allowance: &Allowance) -> u64 {
    allowance.nominal.saturating_sub(lends(allowance))
}

/// Returns the amount that a workspace could lend: idle and within its lending limit. Includes existing loans.
#[must_use]
pub fn spare(balance: &Balance) -> u64 {
    lends(&balance.allowance).min(balance.allowance.nominal.saturating_sub(balance.in_use()))
}

/// Returns `amount` limited to the range of `u64`.
fn clamp(amount: i128) -> u64 {
    u64::try_from(amount.max(0)).unwrap_or(u64::MAX)
}

impl Cohort {
    /// Returns every workspace's balance of `resource`.
    pub fn balances<'a>(
        &'a self,
        resource: &'a Resource,
    ) -> impl Iterator<Item = (&'a WorkspaceName, Balance)> + 'a {
        self.accounts.iter().map(move |(name, account)| (name, account.balance(resource)))
    }

    /// Returns the GPUs on the tenant's nodes that it bought and assigned to no workspace. They are lent to any of its workspaces. Slices count in their
    /// partitioned form.
    #[must_use]
    pub fn pool(&self, resource: &Resource) -> u64 {
        let Some(kind) = resource.gpu() else { return 0 };
        let whole = Resource::Gpu(GpuKind { profile: None, ..kind.clone() });
        let pieces = self.stock.get(resource).map_or(0, |stock| stock.pieces);
        let own = match self.bought.get(resource) {
            Some(bought) => pieces.min(*bought),
            // An operator partitioned some of the whole GPUs that were bought.
            None if kind.profile.is_some() && self.bought.contains_key(&whole) => pieces,
            None => return 0,
        };
        let promised = self.balances(resource).map(|(_, balance)| balance.allowance.nominal);
        own.saturating_sub(promised.fold(0, u64::saturating_add))
    }

    /// Returns the lent amount of the pool.
    #[must_use]
    pub fn pool_lent(&self, resource: &Resource) -> u64 {
        let sum = |of: fn(&Balance) -> u64| {
            self.balances(resource).fold(0, |sum: u64, (_, balance)| sum.saturating_add(of(&balance)))
        };
        sum(|balance| balance.borrowed).saturating_sub(sum(|balance| balance.lent))
    }

    /// Returns the most that the pool and all workspaces lend while idle: the root's subtree quota.
    #[must_use]
    pub fn lent_at_most(&self, resource: &Resource) -> u64 {
        let all = self.balances(resource).map(|(_, balance)| lends(&balance.allowance));
        all.fold(self.pool(resource), u64::saturating_add)
    }

    /// Returns the unused part of that; negative after a decrease.
    fn root_available(&self, resource: &Resource) -> i128 {
        let of = |(_, balance): (&WorkspaceName, Balance)| {
            let used = balance.in_use().saturating_sub(local(&balance.allowance));
            i128::from(lends(&balance.allowance)) - i128::from(used)
        };
        i128::from(self.pool(resource)) + self.balances(resource).map(of).sum::<i128>()
    }

    /// Returns how much more of `resource` `workspace` could use; 0 for an unknown workspace.
    #[must_use]
    pub fn available(&self, workspace: &WorkspaceName, resource: &Resource) -> u64 {
        let Some(account) = self.accounts.get(workspace) else { return 0 };
        self.available_within(&account.balance(resource), resource)
    }

    /// Same as [`available`](Self::available) for the workspace of `balance`, whose borrowing limit may be lower than in the account.
    ///
    /// # Guarantees
    /// Within its own nominal quota a workspace can always use a free GPU, independent of loans and lowered quotas.
    #[must_use]
    pub fn available_within(&self, balance: &Balance, resource: &Resource) -> u64 {
        self.available_by_quota(balance, resource).max(self.idle_own(balance, resource))
    }

    /// Returns how much more a workspace can use than quotas allow, because GPUs of its own quota are free.
    #[must_use]
    pub fn available_beyond_quota(&self, workspace: &WorkspaceName, resource: &Resource) -> u64 {
        let Some(account) = self.accounts.get(workspace) else { return 0 };
        let balance = account.balance(resource);
        self.available_within(&balance, resource).saturating_sub(self.available_by_quota(&balance, resource))
    }

    /// Returns the unused part of a workspace's nominal quota that is free on the tenant's nodes.
    fn idle_own(&self, balance: &Balance, resource: &Resource) -> u64 {
        let free = self.stock.get(resource).map_or(0, |stock| stock.free);
        if resource.gpu().is_none() {
            return 0;
        }
        balance.allowance.nominal.saturating_sub(balance.in_use()).min(free)
    }

    /// Returns Kueue's result, from quotas and usage.
    fn available_by_quota(&self, balance: &Balance, resource: &Resource) -> u64 {
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

    /// Returns the amount that a workspace with `allowance` could use if nothing were in use.
    #[must_use]
    pub fn potential(&self, allowance: &Allowance, resource: &Resource) -> u64 {
        let mut parent = i128::from(self.lent_at_most(resource));
        if let Some(limit) = allowance.borrowing_limit {
            parent = parent.min(i128::from(lends(allowance)) + i128::from(limit));
        }
        clamp(i128::from(local(allowance)) + parent)
    }

    /// Returns true if `workspace` would borrow when it uses `more` of `resource`.
    #[must_use]
    pub fn borrows_with(&self, workspace: &WorkspaceName, resource: &Resource, more: u64) -> bool {
        let Some(account) = self.accounts.get(workspace) else { return false };
        let balance = account.balance(resource);
        balance.in_use().saturating_add(more) > balance.allowance.nominal
    }
}
