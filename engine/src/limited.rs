//! An attempt of an action on the world, from the keys that it has to pass to those that it leaves.

use crate::{
    Call, Class, Deed, Engine, Error, Event, WhilePending,
    action::SECOND,
    attempt::Lost,
    directive::Limits,
    limits::{Passed, Verdict, verdict},
    worker::fenced,
};
use std::time::Duration;
use store::{Lease, Settle, Timestamp};

/// What an attempt leaves behind at its keys.
struct Left {
    verdict: Verdict,
    /// What it was addressed to asks to be left alone, and why.
    alone: Option<(Duration, String)>,
    /// It is not done yet.
    pending: bool,
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Performs an attempt and commits its result if its keys let it pass; puts it off if they do not, as if it had not been
    /// handed out.
    pub(crate) async fn act_within_limits(
        &self,
        lease: &Lease,
        tenant: &str,
        deed: Deed<P>,
        call: Call,
        doubt: bool,
        limits: Limits,
    ) -> Result<(), Error> {
        let (task, epoch) = (lease.task.id, lease.epoch);
        let untried = lease.deliveries.saturating_sub(1);
        let pass = match self.pass(lease, tenant, &deed).await {
            Ok(Passed::Through(pass)) => pass,
            Ok(Passed::Later(due)) => {
                return Ok(self.inner.store.release(task, epoch, due, untried).await?);
            }
            Err(error) => {
                tracing::warn!(%error, "an attempt could not pass its keys; it is handed back untried");
                let due = self.inner.clock.now().after(SECOND);
                return Ok(self.inner.store.release(task, epoch, due, untried).await?);
            }
        };
        let event = match self.perform(deed, call, doubt, limits, lease, &pass).await {
            Ok(event) => event,
            Err(Lost::Lease) => {
                self.leave(&pass, Verdict::Unheard, None, None).await;
                return Err(fenced(lease));
            }
        };
        let left = left(&event);
        let settled = self.deliver_settling(task.execution, event, Some(Settle { task, epoch })).await;
        let keeps = left.pending && limits.while_pending == WhilePending::KeepsItsPlaces && settled.is_ok();
        let keep = if keeps { self.looked_at_again(lease).await } else { None };
        self.leave(&pass, left.verdict, left.alone, keep).await;
        settled.map(|_| ())
    }

    /// Until when the places of a pending action are kept: until it should have been looked at again, and a lease more.
    async fn looked_at_again(&self, lease: &Lease) -> Option<Timestamp> {
        let tasks = self.inner.store.tasks(lease.task.id.execution).await.ok()?;
        let again = tasks.into_iter().find(|task| task.id == lease.task.id)?;
        Some(again.due.after(self.inner.options.lease.saturating_mul(2)))
    }
}

fn left(event: &Event) -> Left {
    let Event::Settled { result, .. } = event else {
        // It was asked about, and answered.
        return Left { verdict: Verdict::Answered, alone: None, pending: false };
    };
    let error = result.as_ref().err();
    let alone = error.and_then(|error| Some((error.retry_after?, error.code.clone())));
    let pending = error.is_some_and(|error| matches!(error.class, Class::Pending { .. }));
    Left { verdict: verdict(result), alone, pending }
}
