//! Usage statements: one line for each workspace, GPU kind, class and month, with its list price, as CSV and as FOCUS.
//!
//! Called by the usage export, with the months of the account. Invariant: only integers are used. Lent GPUs are listed with the lender and priced
//! with the borrower, so that no GPU-second is charged twice. See `docs/usage.md`.

mod csv;
mod decimal;
mod focus;

pub use csv::csv;
pub use focus::focus;

use crate::{
    policy::PlatformPolicy,
    tenancy::{Cents, Cluster, GpuKind, MonthlyUsage, Resource, TenantId, UsageCounters, WorkspaceName},
};
use std::collections::BTreeMap;
use store::Timestamp;

/// The class of usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageClass {
    /// Within the workspace's own nominal quota.
    Own,
    /// Borrowed from other workspaces.
    Borrowed,
    /// Above the nominal quota without a loan, after the quota was lowered.
    Over,
    /// Earmarked for a demand.
    InTransit,
    /// Lent to other workspaces, which are charged for it.
    Lent,
}

impl UsageClass {
    const ALL: [Self; 5] = [Self::Own, Self::Borrowed, Self::Over, Self::InTransit, Self::Lent];

    fn amount_in(self, spent: UsageCounters) -> u64 {
        match self {
            Self::Own => spent.own,
            Self::Borrowed => spent.borrowed,
            Self::Over => spent.over,
            Self::InTransit => spent.in_transit,
            Self::Lent => spent.lent,
        }
    }

    /// Returns the name of the class.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Borrowed => "borrowed",
            Self::Over => "over",
            Self::InTransit => "in_transit",
            Self::Lent => "lent",
        }
    }
}

/// The place of a tenant's GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatementPlace {
    /// The cluster, once nodes are claimed in it.
    pub cluster: String,
    /// Its region.
    pub region: String,
}

impl From<&Cluster> for StatementPlace {
    fn from(cluster: &Cluster) -> Self {
        Self { cluster: cluster.id.to_string(), region: cluster.region.to_string() }
    }
}

/// One line of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementLine {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The workspace's name.
    pub workspace: WorkspaceName,
    /// The cluster's name. Empty if it is no longer known.
    pub cluster: String,
    /// The region's name. Empty if it is no longer known.
    pub region: String,
    /// A model, or a slice as `MODEL/PROFILE`.
    pub gpu: String,
    /// The class of usage.
    pub class: UsageClass,
    /// The month in UTC, as `2026-01`.
    pub month: String,
    /// The start, in milliseconds since 1970.
    pub from: Timestamp,
    /// The end, in milliseconds since 1970.
    pub to: Timestamp,
    /// GPU-milliseconds.
    pub gpu_millis: u64,
    /// The list price of a GPU-hour. `None` for slices, which have no list price.
    pub hourly: Option<Cents>,
    /// The cost in millionths of the currency, rounded half up. `None` for lent GPUs.
    pub cost_micros: Option<u128>,
}

/// The currency of list prices.
pub const CURRENCY: &str = "EUR";

/// Returns the months, each once. A month that has just been closed may be both in the records and in the account that was read earlier.
#[must_use]
pub fn once(running: Vec<MonthlyUsage>, closed: Vec<MonthlyUsage>) -> Vec<MonthlyUsage> {
    let key = |usage: MonthlyUsage| (MonthlyUsage::key(&usage.tenant, &usage.workspace, &usage.month), usage);
    let all: BTreeMap<String, MonthlyUsage> = running.into_iter().chain(closed).map(key).collect();
    all.into_values().collect()
}

/// Returns the lines of months of usage. A class without usage has no line.
#[must_use]
pub fn lines(usages: &[MonthlyUsage], place: &StatementPlace, policy: &PlatformPolicy) -> Vec<StatementLine> {
    let kinds = usages.iter().flat_map(|usage| usage.spent.iter().map(move |spent| (usage, spent)));
    let classes = kinds.flat_map(|(usage, (resource, spent))| {
        UsageClass::ALL.map(|class| (usage, resource, class, class.amount_in(*spent)))
    });
    let used = classes.filter(|(_, _, _, millis)| *millis > 0);
    used.filter_map(|(usage, resource, class, millis)| line(usage, resource, class, millis, place, policy))
        .collect()
}

fn line(
    usage: &MonthlyUsage,
    resource: &Resource,
    class: UsageClass,
    gpu_millis: u64,
    place: &StatementPlace,
    policy: &PlatformPolicy,
) -> Option<StatementLine> {
    let kind = resource.gpu()?;
    let hourly = hourly(kind, policy);
    let charged = if class == UsageClass::Lent { 0 } else { gpu_millis };
    Some(StatementLine {
        tenant: usage.tenant.clone(),
        workspace: usage.workspace.clone(),
        cluster: place.cluster.clone(),
        region: place.region.clone(),
        gpu: kind.to_string(),
        class,
        month: usage.month.clone(),
        from: usage.from,
        to: usage.to,
        gpu_millis,
        hourly,
        cost_micros: hourly.map(|price| decimal::cost_micros(charged, price)),
    })
}

/// Returns the list price of a whole GPU for an hour.
fn hourly(kind: &GpuKind, policy: &PlatformPolicy) -> Option<Cents> {
    let whole = kind.profile.is_none();
    whole.then(|| policy.prices.get(&kind.model).copied().unwrap_or(policy.price))
}

#[cfg(test)]
mod tests;
