//! How the platform's schedulers may preempt, in Kueue's words. The planner keeps to the same rules.

use crate::policy::parsing::reader::Fields;
use serde::{Deserialize, Serialize};

/// What a workspace's queue may preempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulingRules {
    /// In its own queue.
    pub within_cluster_queue: WithinQueue,
    /// What others in the tenant borrowed.
    pub reclaim_within_cohort: ReclaimWithin,
    /// While it borrows itself.
    pub borrow_within_cohort: BorrowWithin,
}

/// What may be preempted in the same queue.
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
    /// What has a lower priority.
    LowerPriority,
    /// That, and what has the same priority and came later.
    LowerOrNewerEqualPriority,
}

/// What may be called back from borrowers.
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
    /// What has a lower priority.
    LowerPriority,
    /// Whatever its priority.
    Any,
}

/// What a queue that borrows may preempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BorrowWithin {
    /// `Any` is not among the values.
    pub policy: ReclaimWithin,
    /// Only what has at most this priority; `None` for any.
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
        reader.note(item, "Kueue has no `Any` here".into(), "write `Never` or `LowerPriority`");
    }
    let range = -2_000_000_000..=2_000_000_000_i32;
    let max_priority =
        fields.optional("max_priority").map_or(Some(None), |item| reader.whole(item, range).map(Some));
    Some(BorrowWithin { policy: policy?, max_priority: max_priority? })
}
