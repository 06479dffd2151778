//! Promises of GPUs: demands without a reclaim, and missed deadlines.

use super::report::{SweepReport, all, holder};
use crate::{
    platform::Platform,
    reclaim::{Reclaim, ReclaimCause, ledger},
    scheduling::admission,
    tenancy::{Cohort, Resource, TenantId, WorkspaceName},
};
use engine::{Engine, Entity, Error, MINUTE, Undecided, View, Workflow as _};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::{CompositeKey, ExecutionId, Timestamp};

/// The delay before the next reclaim for a demand, after a reclaim ended without serving it.
const AGAIN_AFTER: Duration = Duration::from_secs(5 * 60);

/// A broken promise: a demand within its workspace's own quota waited past its deadline. Kept permanently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedPromise {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The workspace's name.
    pub workspace: WorkspaceName,
    /// The resource of the demand.
    pub resource: Resource,
    /// The name of the waiting workload.
    pub workload: String,
    /// The deadline.
    pub deadline: Timestamp,
    /// The reclaim that was too slow. `None` if there was none.
    pub reclaim: Option<ExecutionId>,
    /// The workloads that still held GPUs then.
    pub held_by: Vec<String>,
    /// The time when it was recorded.
    pub noticed_at: Timestamp,
}

impl Entity for MissedPromise {
    const COLLECTION: &'static str = "reclaims-missed";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        let deadline = format!("{:020}", self.deadline.0);
        CompositeKey::of(&[&self.tenant, &self.resource, &self.workload, &deadline]).into()
    }
}

impl MissedPromise {
    /// Returns true if it is recorded, with its id or with the id of an earlier version.
    fn is_recorded(&self, view: &mut View) -> Result<bool, Undecided> {
        if view.get::<Self>(&self.id())?.is_some() {
            return Ok(true);
        }
        let deadline = format!("{:020}", self.deadline.0);
        let parts: [&dyn std::fmt::Display; 4] = [&self.tenant, &self.resource, &self.workload, &deadline];
        let Some(earlier) = CompositeKey::unescaped(&parts) else { return Ok(false) };
        let same = |found: Self| found.resource == self.resource && found.workload == self.workload;
        Ok(view.get::<Self>(&earlier)?.is_some_and(same))
    }
}

/// Records every deadline that has passed at `view.now()`, each once.
///
/// # Errors
/// The read errors of the view.
pub fn record_missed(view: &mut View, tenant: &TenantId) -> Result<Vec<MissedPromise>, Undecided> {
    let now = view.now();
    let Some(cohort) = view.get_shared::<Cohort>(tenant.as_str())? else { return Ok(Vec::new()) };
    let serving = |demand: &admission::ReclaimDemand| {
        let reclaim = cohort.reclaims.get(&demand.resource);
        reclaim.filter(|reclaim| {
            let served = || reclaim.beneficiaries().any(|served| served.workspace == demand.workspace);
            reclaim.workspace == demand.workspace || served()
        })
    };
    let mut fresh = Vec::new();
    for demand in admission::past_deadline(view, tenant)? {
        let reclaim = serving(&demand);
        let missed = MissedPromise {
            tenant: tenant.clone(),
            reclaim: reclaim.map(|reclaim| reclaim.execution),
            held_by: reclaim.map(|reclaim| reclaim.victims.iter().cloned().collect()).unwrap_or_default(),
            workspace: demand.workspace,
            resource: demand.resource,
            workload: demand.workload,
            deadline: demand.deadline,
            noticed_at: now,
        };
        if !missed.is_recorded(view)? {
            view.put(&missed)?;
            fresh.push(missed);
        }
    }
    Ok(fresh)
}

/// Runs the queue of every tenant, starts missing reclaims, and records every broken promise.
pub(super) async fn sweep(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    for cohort in all::<Cohort>(engine, swept).await? {
        let done = look_after(engine, swept, &cohort.tenant).await;
        swept.each(format!("tenant {}", cohort.tenant), done)?;
    }
    Ok(())
}

async fn look_after(
    engine: &Engine<Platform>,
    swept: &mut SweepReport,
    tenant: &TenantId,
) -> Result<(), Error> {
    wake(engine, tenant).await?;
    for missed in engine.transact(true, |view| record_missed(view, tenant)).await? {
        tracing::error!(
            tenant = %missed.tenant, workload = missed.workload, resource = %missed.resource,
            code = "reclaim.deadline_missed", "a workload within its workspace's own quota waits past its deadline"
        );
        let MissedPromise { tenant, workspace, resource, workload, .. } = &missed;
        swept.add_finding(format!(
            "reclaim.deadline_missed: {workload} of workspace {workspace} of {tenant} waits for {resource}"
        ));
    }
    for demand in engine.transact(false, |view| admission::demands(view, tenant)).await? {
        let cause =
            ReclaimCause::Demand { workspace: demand.workspace.clone(), workload: demand.workload.clone() };
        let reclaim = Reclaim::new(demand.tenant.clone(), demand.resource.clone(), cause);
        let guard = reclaim.subject().guard.unwrap_or_default();
        if holder(engine, &guard).await?.is_some() {
            continue;
        }
        let asked = engine.transact(true, |view| ask_again(view, &demand)).await?;
        if asked {
            swept.started.push(format!("reclaim for {} of {}", demand.workload, demand.tenant));
        }
    }
    Ok(())
}

/// Starts a reclaim for a demand without one, unless a reclaim has just ended.
fn ask_again(view: &mut View, demand: &admission::ReclaimDemand) -> Result<bool, Undecided> {
    let id = ledger::LastReclaim::key(&demand.tenant, &demand.resource);
    let now = view.now();
    let before = view.get::<ledger::LastReclaim>(&id)?;
    let same = |asked: &ledger::LastReclaim| asked.workload == demand.workload && asked.since == demand.since;
    if before.as_ref().is_some_and(|asked| same(asked) && asked.at.is_recent(AGAIN_AFTER, now)) {
        return Ok(false);
    }
    ledger::start_reclaim(view, demand)?;
    Ok(true)
}

/// Runs the queue of every tenant, and reports demands that have waited long.
pub(super) async fn wake_all(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    let now = engine.clock().now();
    for cohort in all::<Cohort>(engine, swept).await? {
        let woken = wake(engine, &cohort.tenant).await;
        if swept.each(format!("tenant {}", cohort.tenant), woken)?.is_none() {
            continue;
        }
        for (name, account) in &cohort.accounts {
            let waited = account.oldest.map_or(Duration::ZERO, |since| now.since(since));
            if waited > 24 * 60 * MINUTE {
                let hours = waited.as_secs() / 3_600;
                swept.add_finding(format!(
                    "a workload has waited for {hours} h in workspace {name} of tenant {}",
                    cohort.tenant
                ));
            }
        }
    }
    Ok(())
}

/// Admits the workloads at the front of the queue, and starts the executions that result from it.
pub(super) async fn wake(engine: &Engine<Platform>, tenant: &TenantId) -> Result<(), Error> {
    loop {
        let news = engine
            .transact(true, |view| {
                let news = admission::admit_queued(view, tenant)?;
                ledger::start_reclaims(view, &news)?;
                Ok(news)
            })
            .await?;
        if !news.more {
            return Ok(());
        }
    }
}
