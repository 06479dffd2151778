//! Finds GPU models that run short in a region, and starts a capacity exhaustion if policy requires it.

use super::report::{SweepReport, all, holder};
use crate::{
    capacity::{CapacityExhaustion, ledger::stock},
    platform::Platform,
    policy::{
        self, Reason,
        decisions::{CapacityFacts, has_recovered, is_exhausted, is_scarce},
    },
    reclaim::ledger::SYSTEM_ACTOR,
    tenancy::{Cluster, GpuModel, Gpus, NodeAllocation, RegionId, TenantId, Waitlist},
};
use engine::{Engine, Entity, Error, Undecided, View, Workflow as _};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::{CompositeKey, Timestamp};

/// The minimum time between two exhaustions for the same shortage.
const AGAIN_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A GPU model that is short in a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    /// The region's name.
    pub region: RegionId,
    /// The GPU model.
    pub model: GpuModel,
    /// The time since which less than the threshold is free. `None` while enough is free.
    pub since: Option<Timestamp>,
    /// The time of the last exhaustion for it. `None` before the first.
    pub started: Option<Timestamp>,
}

impl Shortage {
    fn new(region: &RegionId, model: &GpuModel) -> Self {
        Self { region: region.clone(), model: model.clone(), since: None, started: None }
    }
}

impl Entity for Shortage {
    const COLLECTION: &'static str = "shortages";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        CompositeKey::of(&[&self.region, &self.model]).into()
    }
}

/// Checks every model of every region.
pub(super) async fn sweep(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    // The `seen` count of the report is the number of tenants.
    let tenants_seen = swept.seen;
    let mut kinds: BTreeSet<(RegionId, GpuModel)> = BTreeSet::new();
    for cluster in all::<Cluster>(engine, swept).await? {
        kinds.extend(cluster.models.iter().map(|model| (cluster.region.clone(), model.clone())));
    }
    let mut tenants: BTreeMap<(RegionId, GpuModel), Vec<TenantId>> = BTreeMap::new();
    for held in all::<NodeAllocation>(engine, swept).await? {
        tenants.entry((held.region.clone(), held.model.clone())).or_default().push(held.tenant.clone());
    }
    swept.seen = tenants_seen;
    for (region, model) in kinds {
        let served = tenants.remove(&(region.clone(), model.clone())).unwrap_or_default();
        let open = CapacityExhaustion::new(region, model, Gpus::ZERO, String::new(), served);
        let guard = open.subject().guard.unwrap_or_default();
        let held = holder(engine, &guard).await?.is_some();
        let begun = engine.transact(true, |view| look_after(view, &open, held)).await;
        if let Some(Some(trigger)) = swept.each(guard.clone(), begun)? {
            swept.started.push(format!("{guard}: {trigger}"));
        }
    }
    Ok(())
}

/// Starts `exhaustion` if policy requires it, and returns the reason. Stores the time since which a model has been short.
///
/// # Errors
/// The read errors of the view.
fn look_after(
    view: &mut View,
    exhaustion: &CapacityExhaustion,
    held: bool,
) -> Result<Option<String>, Undecided> {
    let (region, model, now) = (&exhaustion.region, &exhaustion.model, view.now());
    let policy = policy::in_force(view)?;
    let stock = stock(view, region, model, &policy)?;
    let list = view.get::<Waitlist>(&Waitlist::key(region, model))?;
    let oldest = list.iter().flat_map(|list| &list.waiters).map(|waiter| waiter.since).min();
    let before = view.get::<Shortage>(&Shortage::new(region, model).id())?;
    let mut shortage = before.clone().unwrap_or_else(|| Shortage::new(region, model));
    if is_scarce(stock.total, stock.free, &policy) {
        shortage.since.get_or_insert(now);
    } else if shortage.since.is_none() || has_recovered(stock.total, stock.free, &policy) {
        shortage.since = None;
    }
    let facts = CapacityFacts {
        total: stock.total,
        free: stock.free,
        scarce_for: shortage.since.map_or(Duration::ZERO, |since| now.since(since)),
        oldest_waits: oldest.map_or(Duration::ZERO, |since| now.since(since)),
    };
    let ruling = is_exhausted(&facts, &policy);
    if !ruling.answer && shortage.since.is_none() {
        shortage.started = None;
    }
    let again = shortage.started.is_none_or(|at| !at.is_recent(AGAIN_AFTER, now));
    let starts = ruling.answer && again && !held;
    let trigger = starts.then(|| describe(&ruling.reasons));
    if let Some(trigger) = &trigger {
        shortage.started = Some(now);
        let exhaustion = CapacityExhaustion { trigger: trigger.clone(), ..exhaustion.clone() };
        let key = String::from(CompositeKey::of(&[&"shortage", &shortage.region, &shortage.model, &now.0]));
        view.start(&exhaustion, SYSTEM_ACTOR, &key)?;
    }
    let empty = shortage.since.is_none() && shortage.started.is_none();
    match before {
        None if empty => {}
        Some(_) if empty => view.delete::<Shortage>(&shortage.id())?,
        Some(before) if before == shortage => {}
        Some(_) | None => view.put(&shortage)?,
    }
    Ok(trigger)
}

/// Returns the rules that counted, with their place in the policy.
fn describe(reasons: &[Reason]) -> String {
    let counted = reasons.iter().filter(|reason| reason.counts());
    counted.map(|reason| format!("{}: {}", reason.rule, reason.detail)).collect::<Vec<_>>().join("; ")
}
