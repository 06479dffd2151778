//! The thresholds of exhausted capacity, and the order of its remedies.

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

/// Rules of exhausted capacity, for each region and model. The reserve is [`crate::policy::PlatformPolicy::buffer_in`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityRules {
    /// Less than this share free or lendable is too little. Default 0.05.
    pub threshold: Ratio,
    /// The duration of a shortage before a remedy. Default 10 min.
    pub lasting: Duration,
    /// The longest acceptable wait of a request. Default 1 h.
    pub oldest_waiter: Duration,
    /// From this share on enough is free again; more than `threshold`. Default 0.1.
    pub recovered: Ratio,
    /// The duration of a recovery before the shortage counts as resolved. Default 30 min.
    pub settle: Duration,
    /// The rungs that each tier allows, in their order (S-140).
    pub ladder: BTreeMap<Tier, Vec<Rung>>,
    /// The most that cloud bursting may cost in a month of 730 hours, by list price.
    pub burst_cap: Cents,
    /// The longest time of an open procurement. Default 180 days.
    pub procure_within: Duration,
}

/// The remedies of exhausted capacity, mildest first.
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
    /// R1: overdue loans are reclaimed.
    RecallOverdue,
    /// R2: idle virtual clusters are suspended; undone when resolved.
    SleepIdle,
    /// R3: workloads with checkpoints are moved so that whole nodes become free.
    Consolidate,
    /// R4: workloads are moved to another cluster of the region.
    Rebalance,
    /// R5: nodes return from maintenance and the reserve; undone when resolved.
    ReturnBuffer,
    /// R6: nodes are rented.
    Burst,
    /// R7: hardware is bought.
    Procure,
    /// R8: best-effort workloads are not admitted; undone when resolved.
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
    /// Returns the section `capacity`. Older keys of the section are read elsewhere.
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

    /// Returns the rungs that `tier` allows, in order; empty for a tier without a ladder.
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
