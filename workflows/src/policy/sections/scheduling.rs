//! Preemption rules of the platform's schedulers, in Kueue's terms. The planner follows the same rules.

use crate::policy::parsing::reader::Fields;
use serde::{Deserialize, Serialize};

/// The preemption rules of a workspace's queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulingRules {
    /// In its own queue.
    pub within_cluster_queue: WithinQueue,
    /// GPUs that others in the tenant borrowed.
    pub reclaim_within_cohort: ReclaimWithin,
    /// While it borrows.
    pub borrow_within_cohort: BorrowWithin,
}

/// The workloads of the same queue that may be preempted.
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
pub enum WithinQueue {
    /// Nothing.
    Never,
    /// Workloads of lower priority.
    LowerPriority,
    /// Workloads of lower priority, and newer workloads of equal priority.
    LowerOrNewerEqualPriority,
}

/// The borrowers' workloads that may be reclaimed.
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
pub enum ReclaimWithin {
    /// Nothing.
    Never,
    /// Workloads of lower priority.
    LowerPriority,
    /// Workloads of any priority.
    Any,
}

/// The preemption rules of a borrowing queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BorrowWithin {
    /// Never `Any`.
    pub policy: ReclaimWithin,
    /// The highest priority that may be preempted; `None` for any.
    pub max_priority: Option<i32>,
}

const FIELDS: [&str; 3] = ["within_cluster_queue", "reclaim_within_cohort", "borrow_within_cohort"];

impl SchedulingRules {
    pub(in crate::policy) fn read(top: &Fields<'_>) -> Option<Self> {
        let fields = top.layer("scheduling", &FIELDS)?;
        let reader = fields.reader();
        let within = fields.required("within_cluster_queue").and_then(|item| reader.one_of(item));
        let reclaim = fields.required("reclaim_within_cohort").and_then(|item| reader.one_of(item));
        let borrow = fields
            .layer("borrow_within_cohort", &["policy", "max_priority"])
            .and_then(|fields| borrow(&fields));
        Some(Self {
            within_cluster_queue: within?,
            reclaim_within_cohort: reclaim?,
            borrow_within_cohort: borrow?,
        })
    }
}

fn borrow(fields: &Fields<'_>) -> Option<BorrowWithin> {
    let reader = fields.reader();
    let item = fields.required("policy")?;
    let policy = reader.one_of(item);
    if policy == Some(ReclaimWithin::Any) {
        reader.note(item, "Kueue does not support `Any` here".into(), "write `Never` or `LowerPriority`");
    }
    let range = -2_000_000_000..=2_000_000_000_i32;
    let max_priority = fields.optionally("max_priority", |item| reader.whole(item, range));
    Some(BorrowWithin { policy: policy?, max_priority: max_priority? })
}
