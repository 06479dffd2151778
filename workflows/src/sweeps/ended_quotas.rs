//! Starts the decrease of temporary quotas that have ended.

use super::report::{SweepReport, all, holder};
use crate::{
    platform::Platform,
    quota_change::{QuotaRequest, decrease::QuotaDecrease},
    tenancy::Quota,
};
use engine::{Engine, Error, Workflow as _};
use store::CompositeKey;

/// The requester of executions that the sweep starts.
const BY: &str = "sweep";

/// Starts the decrease of every part of a quota that has ended. It waits for another open change of the quota, and the next occurrence finds the
/// remaining parts.
pub(super) async fn sweep(engine: &Engine<Platform>, swept: &mut SweepReport) -> Result<(), Error> {
    let now = engine.clock().now();
    for quota in all::<Quota>(engine, swept).await? {
        for request in QuotaRequest::due_decreases(&quota, now) {
            let decrease = QuotaDecrease::new(request);
            let subject = decrease.subject();
            if let Some(other) = holder(engine, &subject.guard.unwrap_or_default()).await? {
                swept.add_finding(format!(
                    "{} has ended, but execution {other} still changes it",
                    subject.name
                ));
                continue;
            }
            let key = CompositeKey::of(&[&"ended", &subject.name, &quota.version, &swept.at.0]);
            let begun = engine.transact(true, |view| view.start(&decrease, BY, &key)).await;
            if swept.each(&subject.name, begun)?.is_some() {
                swept.started.push(format!("decrease of {}", subject.name));
            }
        }
    }
    Ok(())
}
