//! When capacity counts as exhausted, and what is tried about it, in which order.

use crate::{
    policy::{
        Ratio,
        parsing::{
            document::Item,
            reader::{Fields, Reader},
        },
    },
    tenancy::{Cents, Tier},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Rules of capacity exhaustion, for each region and model. Buffers are [`crate::policy::PlatformPolicy::buffer_in`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityRules {
    /// Less than this share free or lendable is too little. Default 0.05.
    pub threshold: Ratio,
    /// For so long before anything is done. Default 10 min.
    pub lasting: Duration,
    /// A waiter as old as this is too old. Default 1 h.
    pub oldest_waiter: Duration,
    /// From this share on there is enough again; more than `threshold`. Default 0.1.
    pub recovered: Ratio,
    /// For so long before it counts as resolved. Default 30 min.
    pub settle: Duration,
    /// The rungs that each tier allows, in the order they are tried (S-140).
    pub ladder: BTreeMap<Tier, Vec<Rung>>,
    /// What bursting to a cloud may cost in a month of 730 hours, by list.
    pub burst_cap: Cents,
    /// How long procurement may stay open. Default 180 days.
    pub procure_within: Duration,
}

/// What can be done about exhausted capacity, mildest first.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Rung {
    /// R1: loans past their time are called back.
    RecallOverdue,
    /// R2: idle virtual clusters are put to sleep; undone when resolved.
    SleepIdle,
    /// R3: work is moved so that whole nodes become free; only work that can save itself.
    Consolidate,
    /// R4: work is moved to another cluster of the region.
    Rebalance,
    /// R5: nodes come back from maintenance and the buffer; undone when resolved.
    ReturnBuffer,
    /// R6: nodes are rented.
    Burst,
    /// R7: hardware is bought.
    Procure,
    /// R8: best-effort work is let in no more; undone when resolved.
    Degrade,
}

const FIELDS: [&str; 10] = [
    "overcommit",
    "buffer_gpus",
    "threshold",
    "lasting",
    "oldest_waiter",
    "recovered",
    "settle",
    "ladder",
    "burst_cap_cents_per_month",
    "procure_within",
];

impl CapacityRules {
    /// The group `capacity`, whose older keys are read elsewhere.
    pub(in crate::policy) fn fields<'a>(top: &Fields<'a>) -> Option<Fields<'a>> {
        top.layer("capacity", &FIELDS)
    }

    pub(in crate::policy) fn read(fields: &Fields<'_>) -> Option<Self> {
        let reader = fields.reader();
        let span = |name| fields.required(name).and_then(|item| reader.duration(item));
        let share = |name| fields.required(name).and_then(|item| reader.share(item));
        let (threshold, recovered) = (share("threshold"), share("recovered"));
        let (lasting, oldest_waiter, settle) = (span("lasting"), span("oldest_waiter"), span("settle"));
        let ladder = fields.required("ladder").and_then(|item| ladder(reader, item));
        let burst_cap = fields.required("burst_cap_cents_per_month").and_then(|item| reader.cents(item));
        let procure_within = span("procure_within");
        Some(Self {
            threshold: threshold?,
            lasting: lasting?,
            oldest_waiter: oldest_waiter?,
            recovered: recovered?,
            settle: settle?,
            ladder: ladder?,
            burst_cap: burst_cap?,
            procure_within: procure_within?,
        })
    }

    /// The rungs that `tier` allows, in order; none for a tier that the ladder leaves out.
    #[must_use]
    pub fn rungs(&self, tier: Tier) -> &[Rung] {
        self.ladder.get(&tier).map_or(&[], Vec::as_slice)
    }
}

fn ladder(reader: &Reader, item: &Item) -> Option<BTreeMap<Tier, Vec<Rung>>> {
    let mut all = BTreeMap::new();
    for (tier, inner) in reader.keyed::<Tier>(item) {
        let rungs: Vec<_> = reader.list(inner).iter().map(|item| reader.one_of(item)).collect();
        all.insert(tier, rungs.into_iter().collect::<Option<_>>()?);
    }
    Some(all)
}
