//! One attempt of an action, from the acquisition of its limits to their release.

use super::{
    perform::{AttemptLease, AttemptLost},
    release::{AttemptEnd, key_verdict},
};
use crate::{
    Call, Class, Engine, ErasedAction, Error, Event, SECOND, WhilePending, limits::limiter::KeyVerdict,
    model::execution::directive::AttemptLimits, runtime::worker::task::fenced_error,
};
use std::pin::pin;
use store::{Lease, Settle, Timestamp};

impl<P: Send + Sync + 'static> Engine<P> {
    /// Runs an attempt and commits its result if its keys are available. If not, the task has been deferred and
    /// nothing was begun.
    pub(crate) async fn act_within_limits(
        &self,
        lease: &Lease,
        tenant: &str,
        deed: ErasedAction<P>,
        call: Call,
        doubt: bool,
        limits: AttemptLimits,
    ) -> Result<(), Error> {
        let (task, epoch) = (lease.task.id, lease.epoch);
        let pass = match self.acquire(lease, tenant, &deed, call.undo).await {
            Ok(Some(pass)) => pass,
            Ok(None) => return Ok(()),
            Err(error) => {
                tracing::warn!(%error, "the limits of an attempt could not be acquired; the task is returned untried");
                let (due, untried) =
                    (self.inner.clock.now().after(SECOND), lease.deliveries.saturating_sub(1));
                return Ok(self.hand_back(task, epoch, due, untried).await?);
            }
        };
        let event = match self.perform(deed, call, doubt, limits, lease, &pass).await {
            Ok(event) => event,
            Err(AttemptLost::Lease) => {
                self.release(&pass, AttemptEnd::unheard()).await;
                return Err(fenced_error(lease));
            }
            Err(AttemptLost::Unheard) => {
                self.release(&pass, AttemptEnd::unheard()).await;
                // The attempt was given up. If another worker has the lease, the history records it. If only the
                // store was unavailable, the task is returned.
                let until = self.inner.clock.now().after(self.inner.options.lease);
                self.inner.store.renew(task, epoch, until).await?;
                let why = "a lease could not be renewed in time, so the attempt was given up".to_owned();
                return Err(store::Error::Unavailable { why }.into());
            }
        };
        let (mut left, pending) = attempt_end(&event);
        let settling = pin!(self.deliver_settling(task.execution, event, Some(Settle { task, epoch })));
        let settled = self.while_leased(&AttemptLease { lease, pass: &pass }, settling).await;
        if pending && limits.while_pending == WhilePending::KeepPermits && settled.is_ok() {
            left.keep_until = self.pending_until(lease).await;
        }
        self.release(&pass, left).await;
        settled.map(|_| ())
    }

    /// Returns until when the permits of a pending action are kept: its next check plus two leases.
    async fn pending_until(&self, lease: &Lease) -> Option<Timestamp> {
        let tasks = self.inner.store.tasks(lease.task.id.execution).await.ok()?;
        let again = tasks.into_iter().find(|task| task.id == lease.task.id)?;
        Some(again.due.after(self.inner.options.lease.saturating_mul(2)))
    }
}

/// Returns the effects of an attempt on its keys, and whether the action is pending.
fn attempt_end(event: &Event) -> (AttemptEnd, bool) {
    let Event::Settled { result, .. } = event else {
        // A probe that was answered.
        return (AttemptEnd { verdict: KeyVerdict::Answered, alone: None, keep_until: None }, false);
    };
    let error = result.as_ref().err();
    let alone = error.and_then(|error| Some((error.retry_after?, error.code.clone())));
    let pending = error.is_some_and(|error| matches!(error.class, Class::Pending { .. }));
    (AttemptEnd { verdict: key_verdict(result), alone, keep_until: None }, pending)
}
