//! A tenant's account of what its workspaces may use and use. The head for every admission: each changes it, so two
//! that cannot both hold never both commit.
//!
//! In Kueue's words the tenant is the root cohort and its workspaces are its cluster queues; [`crate::scheduling::admission`] has
//! the arithmetic.

use crate::tenancy::{
    Allowance, Amounts, CapacityUsage, NodeId, Resource, TenantId, UsageCounters, WorkspaceClass,
    WorkspaceName,
};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::{ExecutionId, Timestamp};

/// What a workspace may use of one resource, and uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// What it may use.
    pub allowance: Allowance,
    /// What its admitted workloads use, those being reclaimed included.
    #[serde(default, skip_serializing_if = "is_default")]
    pub used: u64,
    /// What has been set aside for its pending demand and not been granted yet. Counts as used, so that no third party
    /// is admitted to GPUs in transit (I-10).
    #[serde(default, skip_serializing_if = "is_default")]
    pub in_transit: u64,
    /// The sum of its open loans as a borrower.
    #[serde(default, skip_serializing_if = "is_default")]
    pub borrowed: u64,
    /// The sum of its open loans as a lender.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lent: u64,
    /// Which soft thresholds of policy it is above, a bit for each in their order (S-124).
    #[serde(default, skip_serializing_if = "is_default")]
    pub warned: u16,
    /// What it used since [`Cohort::since`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub spent: UsageCounters,
}

/// What need not be written: accounts are read and written with every decision.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Balance {
    /// What it uses or has set aside.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.used.saturating_add(self.in_transit)
    }

    /// What it takes beyond its nominal.
    #[must_use]
    pub fn over_nominal(&self) -> u64 {
        self.in_use().saturating_sub(self.allowance.nominal)
    }

    /// What it takes beyond its nominal and nobody lends: after its quota, or a lender's, was lowered. Above zero it is
    /// over its limit, and is admitted nothing (I-7).
    #[must_use]
    pub fn over_quota(&self) -> u64 {
        self.over_nominal().saturating_sub(self.borrowed)
    }
}

/// Whether a workspace's account takes new workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountState {
    /// It does.
    #[default]
    Open,
    /// Nothing new is admitted, such as while the tenant leaves; what runs goes on.
    Frozen {
        /// The execution that froze it, and alone may open it again.
        by: ExecutionId,
    },
}

/// A [`Reservation`](crate::tenancy::Reservation), as the account repeats it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountReservation {
    /// Of what.
    pub resource: Resource,
    /// How much.
    pub count: u64,
    /// From when.
    pub from: Timestamp,
    /// Until when.
    pub to: Option<Timestamp>,
    /// From demand to usable GPUs.
    pub reclaim_deadline: Duration,
    /// How long a borrower has between the notice and the eviction.
    pub grace: Duration,
}

/// One workspace in its tenant's account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// What the workspace is for.
    pub class: WorkspaceClass,
    /// By resource, as in [`Quota::allowances`](crate::tenancy::Quota::allowances).
    pub balances: BTreeMap<Resource, Balance>,
    /// Its reservations by name.
    pub promises: BTreeMap<String, AccountReservation>,
    /// Whether it takes new workloads.
    pub admitting: AccountState,
    /// Until then its borrowing limits count by a share of policy alone: it was reclaimed from again and again.
    pub slowed_until: Option<Timestamp>,
    /// When loans of each lender were reclaimed from it, newest last; no older than policy looks back.
    pub reclaimed: BTreeMap<WorkspaceName, Vec<Timestamp>>,
    /// How many of its workloads wait.
    pub waiting: u32,
    /// Of each resource, the least that any of its waiting workloads asks for; so that most lines need not be read.
    pub least: Amounts,
    /// Since when the one of them waits that has waited longest.
    pub oldest: Option<Timestamp>,
}

impl Account {
    /// An account that may use nothing.
    #[must_use]
    pub fn new(class: WorkspaceClass) -> Self {
        Self {
            class,
            balances: BTreeMap::new(),
            promises: BTreeMap::new(),
            admitting: AccountState::Open,
            slowed_until: None,
            reclaimed: BTreeMap::new(),
            waiting: 0,
            least: Amounts::new(),
            oldest: None,
        }
    }

    /// What stands of `resource`; nothing of a GPU without an entry, and no limit for anything else.
    #[must_use]
    pub fn balance(&self, resource: &Resource) -> Balance {
        let without = || match resource {
            Resource::Gpu(_) => Balance::default(),
            Resource::CpuMilli | Resource::MemoryMib | Resource::StorageGib | Resource::Pods => {
                Balance { allowance: Allowance::UNLIMITED, ..Balance::default() }
            }
        };
        self.balances.get(resource).copied().unwrap_or_else(without)
    }

    /// How much of `resource` is promised at `at`: the sum of its reservations.
    #[must_use]
    pub fn reserved(&self, resource: &Resource, at: Timestamp) -> u64 {
        self.active_reservations(resource, at).map(|promise| promise.count).fold(0, u64::saturating_add)
    }

    /// The promises of `resource` that hold at `at`.
    pub fn active_reservations<'a>(
        &'a self,
        resource: &'a Resource,
        at: Timestamp,
    ) -> impl Iterator<Item = &'a AccountReservation> + 'a {
        let holds =
            move |promise: &&AccountReservation| promise.from <= at && promise.to.is_none_or(|to| at < to);
        self.promises.values().filter(move |promise| promise.resource == *resource).filter(holds)
    }
}

/// A workload that a reclaim frees for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beneficiary {
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The workload; GPUs are set aside in its name.
    pub workload: String,
    /// What is freed for it. With the demand of a reclaim, for others of its line besides.
    pub wanted: u64,
    /// What has been set aside for it so far, a part of its workspace's [`Balance::in_transit`].
    #[serde(default)]
    pub aside: u64,
}

/// The reclaim that is executing for one kind. At most one at a time (I-15).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveReclaim {
    /// The execution.
    pub execution: ExecutionId,
    /// The workspace whose demand it serves.
    pub workspace: WorkspaceName,
    /// The workload that demands; `None` when a sweep or an operator calls loans back.
    pub workload: Option<String>,
    /// What the demand asks for of this kind; what has been set aside for it stands in its [`Balance::in_transit`].
    pub wanted: u64,
    /// What others in its line ask for, who wait inside the workspace's own quota as well: freed with it, so that a burst of
    /// demands is not served one by one. They are admitted from their line once the demand is.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
    /// Workloads of other workspaces that it frees for, so that owners who come back together are not served one after the other.
    /// Each is admitted as soon as it has all that it wants, and is no longer here then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Beneficiary>,
    /// Whether the workload that demanded is no longer wanted; `workload` is `None` since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
    /// Workloads that are being evicted for it and hold their GPUs still.
    pub victims: BTreeSet<String>,
    /// Nodes on which GPUs are set aside for it.
    pub nodes: BTreeSet<NodeId>,
    /// When the promise is broken.
    pub deadline: Timestamp,
}

impl ActiveReclaim {
    /// Everybody it serves, the demand first; what is set aside for that stands in its account only, and is 0 here.
    pub fn beneficiaries(&self) -> impl Iterator<Item = Beneficiary> {
        let wanted = self.wanted.saturating_add(self.more);
        let demand = self.workload.clone().map(|workload| {
            let workspace = self.workspace.clone();
            Beneficiary { workspace, workload, wanted, aside: 0 }
        });
        demand.into_iter().chain(self.others.iter().cloned())
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A tenant's account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cohort {
    /// Whose it is.
    pub tenant: TenantId,
    /// By workspace.
    pub accounts: BTreeMap<WorkspaceName, Account>,
    /// GPUs that the tenant bought, as in its [`Entitlement`](crate::tenancy::Entitlement), by resource. What no workspace
    /// was promised of them is the tenant's [pool](Self::pool).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bought: Amounts,
    /// By kind of GPU.
    pub reclaims: BTreeMap<Resource, ActiveReclaim>,
    /// GPUs on the tenant's nodes, by kind.
    pub stock: BTreeMap<Resource, CapacityUsage>,
    /// Since when the balances count what was used: the start of the month, or of the account.
    pub since: Timestamp,
    /// Until when they have counted it.
    pub counted: Timestamp,
    /// Counts the loans that were ever opened, so that each has a number of its own.
    pub loans: u64,
    /// Counts the decisions on admission that were ever taken.
    pub decisions: u64,
}

impl Cohort {
    /// The longest that the document of an account may be, in bytes, so that it keeps under the store's limit (256 KiB) as
    /// its numbers grow: about 250 workspaces with a quota for each of five resources.
    pub const LONGEST: usize = 192 << 10;

    /// An account without workspaces, from `now` on.
    #[must_use]
    pub fn new(tenant: TenantId, now: Timestamp) -> Self {
        Self {
            tenant,
            accounts: BTreeMap::new(),
            bought: Amounts::new(),
            reclaims: BTreeMap::new(),
            stock: BTreeMap::new(),
            since: now,
            counted: now,
            loans: 0,
            decisions: 0,
        }
    }
}

impl Entity for Cohort {
    const COLLECTION: &'static str = "cohorts";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;
    const QUEUED: bool = true;

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}
