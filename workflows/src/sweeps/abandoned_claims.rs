//! Claims of executions that have ended, which no step will release.
//!
//! A part of the drift sweep. It reports them and changes nothing; `tenure leftovers release` releases them.

use super::report::{SweepReport, all};
use crate::{
    platform::Platform,
    tenancy::{AccountState, Cohort, Earmarks, Node, NodeState, Tenant, TenantState, Waitlist},
};
use engine::{Engine, Error};
use std::collections::{BTreeMap, btree_map::Entry};
use store::ExecutionId;

/// The executions that have ended, each read once.
#[derive(Default)]
struct Ended(BTreeMap<ExecutionId, bool>);

impl Ended {
    async fn has(&mut self, engine: &Engine<Platform>, id: ExecutionId) -> Result<bool, Error> {
        Ok(match self.0.entry(id) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let record = engine.store().load(id).await?;
                *new.insert(record.is_none_or(|record| !record.open))
            }
        })
    }

    async fn note(
        &mut self,
        engine: &Engine<Platform>,
        swept: &mut SweepReport,
        (what, by): (String, ExecutionId),
    ) -> Result<(), Error> {
        if self.has(engine, by).await? {
            swept.add_finding(format!(
                "{what} by execution {by}, which has ended: run `tenure leftovers show {by}`"
            ));
        }
        Ok(())
    }
}

pub(super) async fn sweep(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    let mut ended = Ended::default();
    for node in all::<Node>(engine, swept).await? {
        let is_claim = matches!(node.state, NodeState::Claimed | NodeState::Provisioning);
        if let Some(by) = node.claimed_by.filter(|_| is_claim) {
            let owner = node.owner.as_ref().map(|owner| format!(" for tenant {owner}")).unwrap_or_default();
            ended.note(engine, swept, (format!("node {} is claimed{owner}", node.id), by)).await?;
        }
    }
    for tenant in all::<Tenant>(engine, swept).await? {
        if tenant.state == TenantState::Onboarding {
            let what = format!("the name of tenant {} is reserved", tenant.id);
            ended.note(engine, swept, (what, tenant.onboarded_by)).await?;
        }
    }
    for marks in all::<Earmarks>(engine, swept).await? {
        for by in marks.open.keys() {
            let what = format!("capacity is earmarked for tenant {}", marks.tenant);
            ended.note(engine, swept, (what, *by)).await?;
        }
    }
    for cohort in all::<Cohort>(engine, swept).await? {
        for (workspace, account) in &cohort.accounts {
            if let AccountState::Frozen { by } = account.admitting {
                let what = format!("workspace {workspace} of tenant {} is frozen", cohort.tenant);
                ended.note(engine, swept, (what, by)).await?;
            }
        }
    }
    for list in all::<Waitlist>(engine, swept).await? {
        for waits in &list.waiters {
            let what = format!("a place on the waitlist for {} in {} is reserved", list.model, list.region);
            ended.note(engine, swept, (what, waits.execution)).await?;
        }
    }
    Ok(())
}
