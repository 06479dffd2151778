//! Starts offboardings of tenants with an ended contract.

use super::report::{SweepReport, all, holder};
use crate::{
    destruction::certificate::{ErasureBasis, LegalBasis},
    offboarding::Offboarding,
    platform::Platform,
    policy::{day, has_ended},
    signing::Moment,
    tenancy::{Entitlement, Tenant, TenantId, TenantState},
};
use engine::{Engine, Entity, Error, Undecided, View, Workflow as _};
use serde::{Deserialize, Serialize};
use store::{CompositeKey, Timestamp};

/// The requester of executions that the sweep starts.
const BY: &str = "sweep";

/// The record that an offboarding was started after the end of a contract. If it is rejected, the sweep does not start another one. It reports that
/// the tenant is served without a contract until that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContractEnded {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The day after the last day of the contract.
    pub to: String,
    /// The time when the sweep found it.
    pub at: Timestamp,
}

impl Entity for ContractEnded {
    const COLLECTION: &'static str = "contracts-ended";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        CompositeKey::of(&[&self.tenant, &self.to]).into()
    }
}

/// Starts the offboarding of every active tenant with an ended contract. It has the usual approvals.
pub(super) async fn sweep(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    let now = engine.clock().now();
    let today = day(now);
    for entitlement in all::<Entitlement>(engine, swept).await? {
        let Some(to) = entitlement.to.clone().filter(|to| has_ended(to, &today)) else { continue };
        let id = &entitlement.tenant;
        let tenant = engine.transact(false, |view| view.get::<Tenant>(id.as_str())).await;
        let tenant = swept.each(format!("tenant {id}"), tenant)?.flatten();
        if !tenant.is_some_and(|tenant| tenant.state == TenantState::Active) {
            continue;
        }
        if engine.clock_jump().is_some() {
            swept.add_finding(format!(
                "the clock jumped forward past the end of the contract of {id}: the offboarding starts after an operator confirms the clock"
            ));
            continue;
        }
        let basis =
            LegalBasis { basis: ErasureBasis::ContractEnd, reference: format!("entitlement until {to}") };
        let reason = format!("the contract has ended: its last day was the day before {to}");
        let leaving = Offboarding::new(id.clone(), basis, BY.into(), Moment::from(now), reason);
        if let Some(other) = holder(engine, &leaving.subject().guard.unwrap_or_default()).await? {
            swept.add_finding(format!(
                "the contract of tenant {id} has ended, but execution {other} still changes the tenant"
            ));
            continue;
        }
        let begun = engine.transact(true, |view| begin(view, &leaving, &to)).await;
        match swept.each(format!("tenant {id}"), begun)? {
            Some(true) => swept.started.push(format!("offboarding of {id}")),
            Some(false) => swept.add_finding(format!(
                "the contract of tenant {id} has ended ({to}), but the tenant is not offboarded yet"
            )),
            None => {}
        }
    }
    Ok(())
}

/// Starts an offboarding, unless one was started for the same end.
fn begin(view: &mut View, leaving: &Offboarding, to: &str) -> Result<bool, Undecided> {
    let ended = ContractEnded { tenant: leaving.tenant.clone(), to: to.to_owned(), at: view.now() };
    if view.get::<ContractEnded>(&ended.id())?.is_some() {
        return Ok(false);
    }
    view.start(leaving, BY, &CompositeKey::of(&[&"contract-ended"]).tail(ended.id()))?;
    view.put(&ended)?;
    Ok(true)
}
