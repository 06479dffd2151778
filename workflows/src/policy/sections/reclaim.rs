//! Rules of reclaims: deadlines, victims and the scrub of memory.

use crate::{
    policy::{Ratio, duration::show, parsing::reader::Fields},
    tenancy::{Compliance, Gpus},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

/// Rules of reclaim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimRules {
    /// The time from a lender's demand to usable GPUs. Default 900 s; at least [`Self::least`].
    pub deadline: Duration,
    /// The time in which a victim can save its work and end. Default 120 s.
    pub grace: Duration,
    /// The algorithm that chooses victims.
    pub algorithm: Algorithm,
    /// The limits of a plan without an approval.
    pub guard: ReclaimGuard,
    /// The scrub of memory before GPUs move.
    pub scrub: ScrubRules,
    /// The test for free GPUs.
    pub confirm: ConfirmRules,
    /// The time limit of each step, without `grace`.
    pub limits: StepLimits,
    /// The most new plans after changes during a reclaim. Default 3.
    pub replans: u32,
    /// True if unnecessary victims are removed from the plan. Default true; disable only for comparisons.
    #[serde(default = "yes")]
    pub fill_back: bool,
}

fn yes() -> bool {
    true
}

/// The algorithm that chooses victims.
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
pub enum Algorithm {
    /// Kueue's classical preemption.
    Classical,
    /// Kueue's fair sharing.
    Fair,
}

/// P-4: a plan beyond any of these limits needs an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimGuard {
    /// Victims' GPUs per requested GPU. Default 2.
    pub ratio: Ratio,
    /// Victims' GPUs as a share of the tenant's. Default a quarter.
    pub share: Ratio,
    /// GPUs of one victim. Default 8.
    pub victim_gpus: Gpus,
    /// Age of one victim that cannot save its work. Default 24 h.
    pub victim_age: Duration,
}

/// The minimum scrub of GPU memory before GPUs move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubRules {
    /// Within one workspace.
    pub same_workspace: ScrubMethod,
    /// From one workspace to another.
    pub cross_workspace: ScrubMethod,
    /// When either workspace has one of the `sensitive_tags`.
    pub sensitive: ScrubMethod,
    /// Tags of sensitive workloads.
    pub sensitive_tags: BTreeSet<Compliance>,
}

/// The scrub methods of GPU memory, weakest first.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ScrubMethod {
    /// Nothing.
    None,
    /// The driver clears freed memory. Only the driver's setting is observed, not the memory.
    DriverScrub,
    /// Memory is filled with a pattern and read back.
    FillVerify,
    /// Slices are destroyed and created again.
    MigRecreate,
    /// The GPU is reset.
    GpuReset,
}

/// The number and interval of equal readings that prove a GPU free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmRules {
    /// Readings. Default 3.
    pub reads: u32,
    /// The time between two readings. Default 5 s.
    pub apart: Duration,
}

/// The time limit of each step of a reclaim, without the victims' grace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLimits {
    /// Choosing victims. Default 5 s.
    pub plan: Duration,
    /// Marking GPUs as in transit. Default 30 s.
    pub fence: Duration,
    /// Notifying victims. Default 10 s.
    pub notify: Duration,
    /// Requesting evictions from the scheduler. Default 60 s.
    pub evict: Duration,
    /// Waiting until victims have ended. Default 180 s.
    pub gone: Duration,
    /// Confirming that GPUs are free. Default 120 s.
    pub confirm: Duration,
    /// Scrubbing memory. Default 300 s.
    pub scrub: Duration,
    /// Admitting the lender's workload. Default 60 s.
    pub grant: Duration,
}

impl StepLimits {
    /// Returns the sum of all limits.
    #[must_use]
    pub fn sum(&self) -> Duration {
        let Self { plan, fence, notify, evict, gone, confirm, scrub, grant } = self;
        [plan, fence, notify, evict, gone, confirm, scrub, grant].into_iter().sum()
    }
}

impl ReclaimRules {
    /// Returns the shortest feasible deadline: the grace and every step's limit.
    #[must_use]
    pub fn least(&self) -> Duration {
        self.grace.saturating_add(self.limits.sum())
    }
}

const FIELDS: [&str; 9] =
    ["deadline", "grace", "algorithm", "guard", "scrub", "confirm", "limits", "replans", "fill_back"];
const GUARD: [&str; 4] = ["ratio", "share", "victim_gpus", "victim_age"];
const SCRUB: [&str; 4] = ["same_workspace", "cross_workspace", "sensitive", "sensitive_tags"];
const LIMITS: [&str; 8] = ["plan", "fence", "notify", "evict", "gone", "confirm", "scrub", "grant"];

impl ReclaimRules {
    pub(in crate::policy) fn read(top: &Fields<'_>) -> Option<Self> {
        let fields = top.layer("reclaim", &FIELDS)?;
        let reader = fields.reader();
        let deadline = fields.required("deadline").and_then(|item| reader.duration(item));
        let grace = fields.required("grace").and_then(|item| reader.duration(item));
        let algorithm = fields.required("algorithm").and_then(|item| reader.one_of(item));
        let guard = fields.layer("guard", &GUARD).and_then(|fields| guard(&fields));
        let scrub = fields.layer("scrub", &SCRUB).and_then(|fields| scrub(&fields));
        let confirm = fields.layer("confirm", &["reads", "apart"]).and_then(|fields| confirm(&fields));
        let limits = fields.layer("limits", &LIMITS).and_then(|fields| limits(&fields));
        let replans = fields.required("replans").and_then(|item| reader.whole(item, 0..=100_u32));
        let fill_back = fields.optional("fill_back").map_or(Some(true), |item| reader.bool(item));
        let read = Self {
            deadline: deadline?,
            grace: grace?,
            algorithm: algorithm?,
            guard: guard?,
            scrub: scrub?,
            confirm: confirm?,
            limits: limits?,
            replans: replans?,
            fill_back: fill_back?,
        };
        read.refuse_early(&fields);
        Some(read)
    }

    /// Rejects a deadline shorter than the sum of its steps.
    fn refuse_early(&self, fields: &Fields<'_>) {
        let least = self.least();
        if let Some(item) = fields.optional("deadline").filter(|_| self.deadline < least) {
            let problem = format!(
                "the deadline {} is shorter than `grace` and `limits` together, {}",
                show(self.deadline),
                show(least)
            );
            let remedy = format!("set at least `{}`, or lower `grace` or `limits`", show(least));
            fields.reader().note(item, problem, remedy);
        }
    }
}

fn guard(fields: &Fields<'_>) -> Option<ReclaimGuard> {
    let reader = fields.reader();
    let ratio = fields.required("ratio").and_then(|item| reader.ratio(item, 100));
    let share = fields.required("share").and_then(|item| reader.share(item));
    let victim_gpus = fields.required("victim_gpus").and_then(|item| reader.gpus(item));
    let victim_age = fields.required("victim_age").and_then(|item| reader.duration(item));
    Some(ReclaimGuard { ratio: ratio?, share: share?, victim_gpus: victim_gpus?, victim_age: victim_age? })
}

fn scrub(fields: &Fields<'_>) -> Option<ScrubRules> {
    let reader = fields.reader();
    let method = |name| fields.required(name).and_then(|item| reader.one_of(item));
    let (same, cross, sensitive) = (method("same_workspace"), method("cross_workspace"), method("sensitive"));
    let tags = fields.required("sensitive_tags").and_then(|item| reader.set(item));
    Some(ScrubRules {
        same_workspace: same?,
        cross_workspace: cross?,
        sensitive: sensitive?,
        sensitive_tags: tags?,
    })
}

fn confirm(fields: &Fields<'_>) -> Option<ConfirmRules> {
    let reader = fields.reader();
    let reads = fields.required("reads").and_then(|item| reader.whole(item, 1..=100_u32));
    let apart = fields.required("apart").and_then(|item| reader.duration(item));
    Some(ConfirmRules { reads: reads?, apart: apart? })
}

fn limits(fields: &Fields<'_>) -> Option<StepLimits> {
    let span = |name| fields.required(name).and_then(|item| fields.reader().duration(item));
    let (plan, fence, notify, evict) = (span("plan"), span("fence"), span("notify"), span("evict"));
    let (gone, confirm, scrub, grant) = (span("gone"), span("confirm"), span("scrub"), span("grant"));
    Some(StepLimits {
        plan: plan?,
        fence: fence?,
        notify: notify?,
        evict: evict?,
        gone: gone?,
        confirm: confirm?,
        scrub: scrub?,
        grant: grant?,
    })
}
