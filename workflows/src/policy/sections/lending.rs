//! Rules of lending: borrowers, durations, and limits on repeated reclaims.

use crate::{
    policy::{
        Ratio,
        parsing::{
            document::Item,
            reader::{Fields, Reader},
        },
    },
    tenancy::{RegionId, WorkloadClass, WorkspaceClass},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

/// Rules of lending between the workspaces of one tenant. Tenants never lend to each other.
///
/// The limits of workspaces without their own are [`crate::policy::PlatformPolicy::borrowing_limit`] and `lending_limit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LendingRules {
    /// Classes of workspaces that may borrow.
    pub classes: BTreeSet<WorkspaceClass>,
    /// Classes of workloads that may run on borrowed GPUs (S-59).
    pub workloads: BTreeSet<WorkloadClass>,
    /// The longest duration of a loan while another workload waits. Default 24 h.
    pub max_duration: Duration,
    /// The shortest runtime of a borrower before a reclaim. Default 0 s, as KAI's `reclaimMinRuntime`.
    pub min_runtime: Duration,
    /// The time for which a victim may not borrow again. Default 10 min.
    pub cool_down: Duration,
    /// Limits on a pair of borrower and lender.
    pub thrash: ThrashRules,
    /// Classes that may not meet.
    pub anti_colocate: Vec<AntiColocate>,
    /// True if tenants with customers of their own ([`crate::policy::Multitenancy::Customer`]) may share GPUs and borrow.
    pub customer_sharing: bool,
}

/// P-9: a pair with too many reclaims borrows less for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrashRules {
    /// The number of reclaims by one lender from one borrower that reduces the limit.
    pub reclaims: u32,
    /// The window in which reclaims are counted.
    pub within: Duration,
    /// The reduced share of the borrowing limit.
    pub limit_share: Ratio,
    /// The duration of the reduction.
    pub hold: Duration,
}

/// S-14: two classes of workspaces that may not use the same node in a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AntiColocate {
    /// The region; `None` for every region.
    pub region: Option<RegionId>,
    /// One class.
    pub class_a: WorkspaceClass,
    /// The other; the order does not matter.
    pub class_b: WorkspaceClass,
    /// The scope of the rule.
    pub scope: ColocationScope,
}

/// The scope that two classes may not share.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ColocationScope {
    /// A node at the same time, and loans of its GPUs between the classes.
    Node,
    /// A whole cluster.
    Cluster,
}

impl AntiColocate {
    /// Returns true if the rule separates `a` and `b` in `region`.
    #[must_use]
    pub fn forbids(&self, region: &RegionId, a: WorkspaceClass, b: WorkspaceClass) -> bool {
        let here = self.region.as_ref().is_none_or(|only| only == region);
        let pair = (self.class_a, self.class_b);
        here && (pair == (a, b) || pair == (b, a))
    }
}

const FIELDS: [&str; 8] = [
    "classes",
    "workloads",
    "max_duration",
    "min_runtime",
    "cool_down",
    "thrash",
    "anti_colocate",
    "customer_sharing",
];

impl LendingRules {
    pub(in crate::policy) fn read(top: &Fields<'_>) -> Option<Self> {
        let fields = top.layer("lending", &FIELDS)?;
        let reader = fields.reader();
        let span = |name| fields.required(name).and_then(|item| reader.duration(item));
        let classes = fields.required("classes").and_then(|item| reader.set(item));
        let workloads = fields.required("workloads").and_then(|item| reader.set(item));
        let (max_duration, min_runtime) = (span("max_duration"), span("min_runtime"));
        let cool_down = span("cool_down");
        let thrash = fields
            .layer("thrash", &["reclaims", "within", "limit_share", "hold"])
            .and_then(|fields| thrash(&fields));
        let anti_colocate = fields.required("anti_colocate").and_then(|item| pairs(reader, item));
        let customer_sharing = fields.required("customer_sharing").and_then(|item| reader.bool(item));
        Some(Self {
            classes: classes?,
            workloads: workloads?,
            max_duration: max_duration?,
            min_runtime: min_runtime?,
            cool_down: cool_down?,
            thrash: thrash?,
            anti_colocate: anti_colocate?,
            customer_sharing: customer_sharing?,
        })
    }
}

fn thrash(fields: &Fields<'_>) -> Option<ThrashRules> {
    let reader = fields.reader();
    let reclaims = fields.required("reclaims").and_then(|item| reader.whole(item, 1..=1_000_u32));
    let within = fields.required("within").and_then(|item| reader.duration(item));
    let limit_share = fields.required("limit_share").and_then(|item| reader.share(item));
    let hold = fields.required("hold").and_then(|item| reader.duration(item));
    Some(ThrashRules { reclaims: reclaims?, within: within?, limit_share: limit_share?, hold: hold? })
}

fn pairs(reader: &Reader, item: &Item) -> Option<Vec<AntiColocate>> {
    let read: Vec<_> = reader.list(item).iter().map(|item| pair(reader, item)).collect();
    read.into_iter().collect()
}

fn pair(reader: &Reader, item: &Item) -> Option<AntiColocate> {
    let fields = reader.fields(item, &["region", "class_a", "class_b", "scope"])?;
    let region = fields.optionally("region", |item| reader.name(item));
    let class_a = fields.required("class_a").and_then(|item| reader.one_of(item));
    let class_b = fields.required("class_b").and_then(|item| reader.one_of(item));
    let scope = fields.optional("scope").map_or(Some(ColocationScope::Node), |item| reader.one_of(item));
    Some(AntiColocate { region: region?, class_a: class_a?, class_b: class_b?, scope: scope? })
}
