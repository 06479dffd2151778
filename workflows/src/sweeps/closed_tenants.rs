//! Checks closed tenants for resources that exist again or still.
//!
//! A part of the drift sweep. It reports findings and changes nothing; an operator requests the offboarding of the remains.

use super::report::{SweepReport, all, holder};
use crate::{
    closed_tenants::{SilentSources, all_looks, look_at},
    destruction::ClosedTenantLook,
    platform::Platform,
    signing::Digest,
    tenancy::{Tenant, TenantId, TenantState},
};
use engine::{DAY, Engine, Error, HOUR, MINUTE};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::Timestamp;

/// The maximum number of tenants in one run. The next runs check the others, the least recently checked first.
const TENANTS_PER_RUN: usize = 25;
/// After this time a run starts no further check.
const RUN_FOR: Duration = MINUTE;
/// The interval between two scheduled checks of the same tenant.
const LOOK_EVERY: Duration = DAY;
/// The interval for a tenant with findings or with a source that did not answer.
const LOOK_AGAIN_EVERY: Duration = HOUR;

/// The actor of the audit entries of a scheduled run.
const BY: &str = "sweep";

/// Checks closed tenants, the least recently checked first.
pub(super) async fn sweep(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    let due = due(engine, swept).await?;
    let (begun, mut silent, mut looked) = (engine.clock().now(), SilentSources::default(), 0_usize);
    let by = swept.nominal.is_some().then_some(BY);
    for tenant in &due {
        if looked == TENANTS_PER_RUN || engine.clock().now().since(begun) >= RUN_FOR {
            break;
        }
        looked = looked.saturating_add(1);
        // Resources that are being destroyed are not reported. Earlier findings stay on the list.
        if holder(engine, &format!("tenant/{tenant}")).await?.is_some() {
            continue;
        }
        let report = look_at(engine, tenant, &mut silent, by).await;
        let Some(report) = swept.each(format!("closed tenant {tenant}"), report)?.flatten() else { continue };
        if report.look.has_findings() || !report.look.unanswered.is_empty() {
            swept.add_finding(report.look.describe());
        }
    }
    let left = due.len().saturating_sub(looked);
    if left > 0 && swept.nominal.is_none() {
        swept.add_finding(format!("{left} closed tenants were not checked in this run: run the sweep again"));
    }
    Ok(())
}

/// The order of the checks: the hour of the last check, then tenants of which every source answered. The digest changes the order of the others with
/// each run, so that the sources that are silent in a run are not silent for the same tenants each time.
type Turn = (Option<u64>, bool, Digest);

fn turn(look: Option<&ClosedTenantLook>, tenant: &TenantId, now: Timestamp) -> Turn {
    let hour = look.map(|look| Timestamp::from(look.at).since(Timestamp(0)).as_secs() / HOUR.as_secs());
    let lacks = look.is_some_and(|look| !look.unanswered.is_empty());
    (hour, lacks, Digest::from_content("turn of a closed tenant", &(tenant, now)))
}

/// Returns the closed tenants to check now: all of them if an operator started the sweep.
async fn due(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<Vec<TenantId>, Error> {
    let now = engine.clock().now();
    let looks: BTreeMap<TenantId, Arc<ClosedTenantLook>> =
        all_looks(engine).await?.into_iter().map(|look| (look.tenant.clone(), look)).collect();
    let mut due: Vec<(Turn, TenantId)> = Vec::new();
    for tenant in all::<Tenant>(engine, swept).await? {
        if tenant.state != TenantState::Closed {
            continue;
        }
        let look = looks.get(&tenant.id);
        let last = look.map(|look| Timestamp::from(look.at));
        let every = match look {
            Some(look) if look.has_findings() || !look.unanswered.is_empty() => LOOK_AGAIN_EVERY,
            Some(_) | None => LOOK_EVERY,
        };
        if swept.nominal.is_none() || last.is_none_or(|last| now.since(last) >= every) {
            due.push((turn(look.map(Arc::as_ref), &tenant.id, now), tenant.id.clone()));
        }
    }
    due.sort();
    Ok(due.into_iter().map(|(_, tenant)| tenant).collect())
}
