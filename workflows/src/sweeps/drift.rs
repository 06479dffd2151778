//! Finds differences between the platform and the ledger.
//!
//! It only reports. Operators fix a difference, or the next change does, because it compares before it writes. An automatic reset would overwrite the
//! changes of others without an approval.

use super::{
    abandoned_claims, closed_tenants,
    report::{SweepReport, all, holder},
};
use crate::{
    platform::{ANSWER_WITHIN, CallMetadata, FlavorQuota, LayerLimits, Platform, read_limits},
    quota_change,
    tenancy::{Cluster, Entitlement, Gpus, Occupancy, Quota, Tenant, TenantState},
};
use engine::{Engine, Error};
use store::{CompositeKey, Epoch};

pub(super) async fn sweep(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    for quota in all::<Quota>(engine, swept).await? {
        let tenant = quota.tenant.as_str();
        let read = |view: &mut engine::View| {
            let tenant = view.get::<Tenant>(tenant)?.filter(|tenant| tenant.state == TenantState::Active);
            let bought = view.get::<Entitlement>(quota.tenant.as_str())?;
            let cluster = match tenant.and_then(|tenant| tenant.cluster) {
                Some(cluster) => view.get::<Cluster>(cluster.as_str())?,
                None => None,
            };
            let bought = bought.map_or(0, |bought| bought.pieces());
            Ok(cluster.zip(Some(Gpus(u32::try_from(bought).unwrap_or(u32::MAX)))))
        };
        let found = engine.transact(false, read).await;
        let whose = format!("workspace {} of tenant {}", quota.workspace, quota.tenant);
        let Some((cluster, bought)) = swept.each(whose, found)?.flatten() else { continue };
        check(engine, swept, &quota, &cluster, bought).await?;
    }
    abandoned_claims::sweep(engine, swept).await?;
    for occupancy in all::<Occupancy>(engine, swept).await? {
        for (node, kinds) in &occupancy.nodes {
            for (kind, room) in kinds.iter().filter(|(_, room)| room.astray > 0) {
                swept.add_finding(format!(
                    "{} of {kind} on {node} are free in the ledger, but in use or missing",
                    room.astray
                ));
            }
        }
    }
    // Last, because external systems may answer slowly.
    closed_tenants::sweep(engine, swept).await
}

/// Compares the limits of every layer with one workspace's quota. A quota with an open change is skipped.
async fn check(
    engine: &Engine<Platform>,
    swept: &mut SweepReport,
    quota: &Quota,
    cluster: &Cluster,
    bought: Gpus,
) -> Result<(), Error> {
    let now = engine.clock().now();
    for (resource, allowance) in &quota.allowances {
        let subject = quota_change::subject(&quota.tenant, &quota.workspace, resource);
        if holder(engine, &subject).await?.is_some() {
            continue;
        }
        let of =
            quota_change::layer_names(&cluster.id, cluster.kind, &quota.tenant, &quota.workspace, resource);
        let wanted = quota_change::layer_limits(cluster.kind, resource, allowance, bought);
        let key = String::from(CompositeKey::of(&[&"drift", &now.0]).tail(&subject));
        let stamp = CallMetadata {
            action: "ReadLimits",
            step: key.clone(),
            key,
            epoch: Epoch(0),
            undo: false,
            deadline: ANSWER_WITHIN,
            dry_run: false,
        };
        match read_limits(engine.platform(), &of, &stamp).await {
            Ok(found) => differences(&wanted, &found).into_iter().for_each(|what| {
                swept.add_finding(format!("{subject} in {}: {what}", cluster.id));
            }),
            Err(error) => swept.add_finding(format!("{subject} in {} cannot be read: {error}", cluster.id)),
        }
    }
    Ok(())
}

/// Returns one sentence for each layer that differs.
fn differences(wanted: &LayerLimits, found: &LayerLimits) -> Vec<String> {
    let queue = |queue: &Option<FlavorQuota>| queue.as_ref().map(|queue| queue.nominal);
    let limits =
        |limits: &LayerLimits| [limits.cohort, queue(&limits.queue), limits.hard, limits.association];
    let show = |limit: Option<u64>| limit.map_or_else(|| "nothing".to_owned(), |limit| limit.to_string());
    let layers = ["the cohort", "the queue", "the resource quota", "the association"];
    let mut differ = Vec::new();
    for ((layer, wanted), found) in layers.iter().zip(limits(wanted)).zip(limits(found)) {
        if wanted != found {
            differ.push(format!("{layer} has {}, but the ledger has {}", show(found), show(wanted)));
        }
    }
    let terms = |limits: &LayerLimits| limits.queue.as_ref().map(|q| (q.borrowing_limit, q.lending_limit));
    if queue(&wanted.queue) == queue(&found.queue) && terms(wanted) != terms(found) {
        differ.push("the borrowing or lending limit of the queue differs from the ledger".to_owned());
    }
    differ
}
