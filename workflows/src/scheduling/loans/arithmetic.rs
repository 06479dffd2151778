//! What is available to a workspace: Kueue's quota arithmetic on a tenant's account, and the GPUs that are free.
//!
//! The tenant is the root cohort, its workspaces are the leaves (pkg/cache/scheduler/resource_node.go of
//! kubernetes-sigs/kueue), and the tenant's [pool](Cohort::pool) is the root's own quota. Decisions, the queue and reclaims all ask
//! [`Cohort::available_within`], so a request that the queue would admit starts no reclaim.

use crate::tenancy::{Allowance, Balance, Cohort, GpuKind, Resource, WorkspaceName};

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

    /// GPUs on the tenant's nodes that it bought and promised to no workspace: they are lent to any of its workspaces. Slices
    /// that were cut from what it bought are counted as they were cut.
    #[must_use]
    pub fn pool(&self, resource: &Resource) -> u64 {
        let Some(kind) = resource.gpu() else { return 0 };
        let whole = Resource::Gpu(GpuKind { profile: None, ..kind.clone() });
        let pieces = self.stock.get(resource).map_or(0, |stock| stock.pieces);
        let own = match self.bought.get(resource) {
            Some(bought) => pieces.min(*bought),
            // An operator cut some of the whole GPUs that were bought.
            None if kind.profile.is_some() && self.bought.contains_key(&whole) => pieces,
            None => return 0,
        };
        let promised = self.balances(resource).map(|(_, balance)| balance.allowance.nominal);
        own.saturating_sub(promised.fold(0, u64::saturating_add))
    }

    /// What of the pool is lent.
    #[must_use]
    pub fn pool_lent(&self, resource: &Resource) -> u64 {
        let sum = |of: fn(&Balance) -> u64| {
            self.balances(resource).fold(0, |sum: u64, (_, balance)| sum.saturating_add(of(&balance)))
        };
        sum(|balance| balance.borrowed).saturating_sub(sum(|balance| balance.lent))
    }

    /// What the pool and all workspaces together lend while idle: the root's subtree quota.
    #[must_use]
    pub fn lent_at_most(&self, resource: &Resource) -> u64 {
        let all = self.balances(resource).map(|(_, balance)| lends(&balance.allowance));
        all.fold(self.pool(resource), u64::saturating_add)
    }

    /// What of that nobody uses; below zero after a decrease.
    fn root_available(&self, resource: &Resource) -> i128 {
        let of = |(_, balance): (&WorkspaceName, Balance)| {
            let used = balance.in_use().saturating_sub(local(&balance.allowance));
            i128::from(lends(&balance.allowance)) - i128::from(used)
        };
        i128::from(self.pool(resource)) + self.balances(resource).map(of).sum::<i128>()
    }

    /// What `workspace` could use more of `resource`; nothing if it is unknown.
    #[must_use]
    pub fn available(&self, workspace: &WorkspaceName, resource: &Resource) -> u64 {
        let Some(account) = self.accounts.get(workspace) else { return 0 };
        self.available_within(&account.balance(resource), resource)
    }

    /// The same for one whose balance is `balance`; its borrowing limit may be tighter than the account has it.
    ///
    /// # Guarantees
    /// Within its own nominal quota a workspace is never refused a GPU that is free, whatever was lent or lowered before.
    #[must_use]
    pub fn available_within(&self, balance: &Balance, resource: &Resource) -> u64 {
        self.available_by_quota(balance, resource).max(self.idle_own(balance, resource))
    }

    /// How much more is available to a workspace than quotas alone say, as GPUs of its own quota are free.
    #[must_use]
    pub fn available_beyond_quota(&self, workspace: &WorkspaceName, resource: &Resource) -> u64 {
        let Some(account) = self.accounts.get(workspace) else { return 0 };
        let balance = account.balance(resource);
        self.available_within(&balance, resource).saturating_sub(self.available_by_quota(&balance, resource))
    }

    /// What of a workspace's own nominal quota it does not use and is free on the tenant's nodes.
    fn idle_own(&self, balance: &Balance, resource: &Resource) -> u64 {
        let free = self.stock.get(resource).map_or(0, |stock| stock.free);
        if resource.gpu().is_none() {
            return 0;
        }
        balance.allowance.nominal.saturating_sub(balance.in_use()).min(free)
    }

    /// Kueue's answer, from quotas and what is used of them.
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
