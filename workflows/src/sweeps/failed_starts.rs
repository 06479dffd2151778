//! Retries starts of admitted workloads that failed in their clusters.

use super::report::{SweepReport, all};
use crate::{platform::Platform, tenancy::FailedStart, workload_start};
use engine::{Engine, Error};

/// Retries each failed start after its delay.
pub(super) async fn sweep(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    for failed in all::<FailedStart>(engine, swept).await? {
        let (tenant, workload) = (&failed.tenant, &failed.workload);
        let tried = engine.transact(true, |view| workload_start::try_again(view, tenant, workload)).await;
        if swept.each(format!("start of {workload} of tenant {tenant}"), tried)? == Some(true) {
            swept.started.push(format!("start of {workload} of {tenant} after {} failures", failed.tries));
        }
    }
    Ok(())
}
