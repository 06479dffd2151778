//! A tenant's account of the quotas and usage of its workspaces. The head for every admission: each rewrites it, so of two conflicting admissions only one
//! commits.
//!
//! In Kueue's terms the tenant is the root cohort and its workspaces are its cluster queues; [`crate::scheduling::admission`] has the arithmetic.

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

/// The quota and usage of a workspace for one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// The allowance.
    pub allowance: Allowance,
    /// The usage of its admitted workloads, including those being reclaimed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub used: u64,
    /// The earmarked amount for its pending demand. Counts as used, so that no other workload is admitted to GPUs in transit (I-10).
    #[serde(default, skip_serializing_if = "is_default")]
    pub in_transit: u64,
    /// The sum of its open loans as a borrower.
    #[serde(default, skip_serializing_if = "is_default")]
    pub borrowed: u64,
    /// The sum of its open loans as a lender.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lent: u64,
    /// The soft thresholds of policy that usage exceeds, one bit each in their order (S-124).
    #[serde(default, skip_serializing_if = "is_default")]
    pub warned: u16,
    /// The usage since [`Cohort::since`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub spent: UsageCounters,
}

/// Returns true for values that need not be stored, because accounts are read and written with every decision.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Balance {
    /// Returns the used and earmarked amount.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.used.saturating_add(self.in_transit)
    }

    /// Returns the part of it above the nominal quota.
    #[must_use]
    pub fn over_nominal(&self) -> u64 {
        self.in_use().saturating_sub(self.allowance.nominal)
    }

    /// Returns the part above the nominal quota without a lender, after its quota or a lender's was lowered. While it is above zero, no workload is admitted
    /// (I-7).
    #[must_use]
    pub fn over_quota(&self) -> u64 {
        self.over_nominal().saturating_sub(self.borrowed)
    }
}

/// The state of a workspace's account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountState {
    /// It takes new workloads.
    #[default]
    Open,
    /// No workload is admitted, for example while the tenant leaves. Running workloads continue.
    Frozen {
        /// The execution that froze it. Only this execution may open it again.
        by: ExecutionId,
    },
}

/// A copy of a [`Reservation`](crate::tenancy::Reservation) in the account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountReservation {
    /// The resource.
    pub resource: Resource,
    /// The amount.
    pub count: u64,
    /// The start.
    pub from: Timestamp,
    /// The end, if any.
    pub to: Option<Timestamp>,
    /// The time from a demand to usable GPUs.
    pub reclaim_deadline: Duration,
    /// The time between a borrower's notice and its eviction.
    pub grace: Duration,
}

/// One workspace in its tenant's account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The class of the workspace.
    pub class: WorkspaceClass,
    /// By resource, as in [`Quota::allowances`](crate::tenancy::Quota::allowances).
    pub balances: BTreeMap<Resource, Balance>,
    /// The reservations by name.
    pub promises: BTreeMap<String, AccountReservation>,
    /// The state.
    pub admitting: AccountState,
    /// Until this time its borrowing limits are reduced, because it was reclaimed from repeatedly.
    pub slowed_until: Option<Timestamp>,
    /// Times of reclaims by lender, newest last, within the window of policy.
    pub reclaimed: BTreeMap<WorkspaceName, Vec<Timestamp>>,
    /// The number of its queued workloads.
    pub waiting: u32,
    /// The smallest request of its queued workloads by resource, so that most queues need not be read.
    pub least: Amounts,
    /// The start of the longest wait in its queue.
    pub oldest: Option<Timestamp>,
}

impl Account {
    /// Creates an account without allowances.
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

    /// Returns the balance of `resource`. Without an entry, a GPU has no allowance and any other resource is unlimited.
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

    /// Returns the reserved amount of `resource` at `at`: the sum of its reservations.
    #[must_use]
    pub fn reserved(&self, resource: &Resource, at: Timestamp) -> u64 {
        self.active_reservations(resource, at).map(|promise| promise.count).fold(0, u64::saturating_add)
    }

    /// Returns the reservations of `resource` in force at `at`.
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

/// A workload that a reclaim frees GPUs for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beneficiary {
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The workload. GPUs are earmarked in its name.
    pub workload: String,
    /// The amount to free. For the demand of a reclaim it includes other workloads of its queue.
    pub wanted: u64,
    /// The earmarked amount so far, a part of its workspace's [`Balance::in_transit`].
    #[serde(default)]
    pub aside: u64,
}

/// The running reclaim of one kind. At most one at a time (I-15).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveReclaim {
    /// The execution.
    pub execution: ExecutionId,
    /// The workspace whose demand it serves.
    pub workspace: WorkspaceName,
    /// The workload of the demand; `None` if a sweep or an operator reclaims loans.
    pub workload: Option<String>,
    /// The requested amount of this kind. The earmarked amount is in its [`Balance::in_transit`].
    pub wanted: u64,
    /// The amount for other workloads of its queue that also wait within the workspace's own quota. It is freed together, so that many demands do not need one
    /// reclaim each. They are admitted from the queue after the demand.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
    /// Beneficiaries in other workspaces, so that several lenders are served together. Each is admitted once its amount is complete, and is then removed here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Beneficiary>,
    /// True if the workload of the demand was withdrawn. `workload` is `None` then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
    /// Workloads that are being evicted for it and still have their GPUs.
    pub victims: BTreeSet<String>,
    /// Nodes with GPUs earmarked for it.
    pub nodes: BTreeSet<NodeId>,
    /// The deadline of the promise.
    pub deadline: Timestamp,
}

impl ActiveReclaim {
    /// Returns all beneficiaries, the demand first. The demand's earmarked amount is only in its account, and 0 here.
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
    /// The tenant.
    pub tenant: TenantId,
    /// By workspace.
    pub accounts: BTreeMap<WorkspaceName, Account>,
    /// GPUs that the tenant bought, as in its [`Entitlement`](crate::tenancy::Entitlement), by resource. The part that is in no workspace's quota is the
    /// tenant's [pool](Self::pool).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bought: Amounts,
    /// By kind of GPU.
    pub reclaims: BTreeMap<Resource, ActiveReclaim>,
    /// GPUs on the tenant's nodes, by kind.
    pub stock: BTreeMap<Resource, CapacityUsage>,
    /// The start of the usage counters: the start of the month, or of the account.
    pub since: Timestamp,
    /// The end of the metered time.
    pub counted: Timestamp,
    /// The number of all loans so far; gives each loan its number.
    pub loans: u64,
    /// The number of all admission decisions so far.
    pub decisions: u64,
}

impl Cohort {
    /// The longest document of an account, in bytes, so that it stays below the store's limit (256 KiB) as its numbers grow: about 250 workspaces with a quota
    /// for each of five resources.
    pub const LONGEST: usize = 192 << 10;

    /// Creates an account without workspaces at `now`.
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
