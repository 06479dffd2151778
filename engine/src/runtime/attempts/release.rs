//! Releases the keys of an attempt, and wakes waiting tasks.

use super::{
    acquire::{AcquiredLimits, LimitedKey, action_key, key_kind},
    limiter_update::LimiterUpdate,
};
use crate::{
    ActionError, BreakerRule, Class, Engine, Error, KeyClosure, Limit, Limiter, limits::limiter::KeyVerdict,
    runtime::commit::MAX_TRIES,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use store::{TaskId, Timestamp};

/// Returns the verdict of an attempt's result about its keys.
pub(crate) fn key_verdict(result: &Result<Value, ActionError>) -> KeyVerdict {
    match result.as_ref().map_err(|error| error.class) {
        Ok(_) | Err(Class::Pending { .. } | Class::Permanent) => KeyVerdict::Answered,
        Err(Class::Transient | Class::Unknown) => KeyVerdict::Failed,
    }
}

/// The effects of an attempt on its keys.
pub(crate) struct AttemptEnd {
    pub(crate) verdict: KeyVerdict,
    /// How long the target asks the engine to wait, and the error code.
    pub(crate) alone: Option<(Duration, String)>,
    /// Until when the permits of a pending action are kept.
    pub(crate) keep_until: Option<Timestamp>,
}

impl AttemptEnd {
    /// The effects of an attempt without a result.
    pub(crate) fn unheard() -> Self {
        Self { verdict: KeyVerdict::Unheard, alone: None, keep_until: None }
    }
}

impl AcquiredLimits {
    /// Returns the keys to close. A `retry_after` applies to all systems that an action depends on, or to the action
    /// itself if it names none.
    fn closed_by(&self, left: &AttemptEnd) -> Vec<String> {
        match (&left.alone, self.declared.is_empty()) {
            (None, _) => Vec::new(),
            (Some(_), true) => vec![action_key(self.action)],
            (Some(_), false) => self.declared.clone(),
        }
    }

    /// Releases one key. Returns true if that tripped its breaker.
    fn release_key(&self, key: &LimitedKey, gate: &mut Limiter, left: &AttemptEnd, now: Timestamp) -> bool {
        let place = gate.permit(self.task).cloned();
        let tripped = gate.release(self.task, now, left.verdict, key.breaker);
        if let (Some(until), Some(place)) = (left.keep_until, place) {
            gate.places.push(place);
            gate.extend_permit(self.task, until, true);
        }
        tripped
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Releases the permits of an attempt and reports its result to its keys. Permits that cannot be released lapse
    /// with the lease.
    pub(crate) async fn release(&self, pass: &AcquiredLimits, left: AttemptEnd) {
        {
            let mut inside = self.inner.limits.active_tasks();
            match (left.keep_until, inside.get_mut(&pass.task)) {
                (Some(_), Some(kept)) => kept.at_work = false,
                (None, _) => _ = inside.remove(&pass.task),
                (Some(_), None) => {}
            }
        }
        if let Err(error) = self.try_release(pass, &left).await {
            tracing::warn!(task = %pass.task, %error, "a permit could not be released; it expires with its lease");
        }
    }

    async fn try_release(&self, pass: &AcquiredLimits, left: &AttemptEnd) -> Result<(), Error> {
        let closed = pass.closed_by(left);
        let concerned =
            |key: &&LimitedKey| key.holds_places() || key.breaker.is_some() || closed.contains(&key.name);
        let keys: Vec<&LimitedKey> = pass.keys.iter().filter(concerned).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        if closed.is_empty() && self.changes_nothing(pass, &keys, left).await? {
            return Ok(());
        }
        for _ in 0..MAX_TRIES {
            let _turn = self.inner.limits.lock_keys(names.iter().copied()).await;
            let now = self.inner.clock.now();
            let mut gates = self.gates(names.iter().copied()).await?;
            let mut tripped = Vec::new();
            for (key, gate) in keys.iter().zip(&mut gates) {
                if pass.release_key(key, &mut gate.after, left, now) {
                    tripped.push(key.name.as_str());
                }
                if let Some((span, why)) = left.alone.as_ref().filter(|_| closed.contains(&key.name)) {
                    let until = Some(now.after(*span));
                    gate.after.close(KeyClosure { until, why: why.clone(), by: pass.action.into() });
                }
            }
            let after: Vec<Limiter> = gates.iter().map(|gate| gate.after.clone()).collect();
            if !self.change_gates(gates).await? {
                continue;
            }
            for key in tripped {
                self.inner.metrics.tripped(key_kind(key));
                tracing::warn!(
                    key,
                    action = pass.action,
                    "the circuit breaker of a key has tripped: attempts are paused"
                );
            }
            for (key, gate) in keys.iter().zip(&after) {
                self.wake_waiters(gate, key.limit.as_deref(), now).await?;
            }
            return Ok(());
        }
        Err(Error::Contended(pass.task.execution))
    }

    /// Returns true if an attempt has no permits and changes nothing at its keys: then there is no task to wake.
    async fn changes_nothing(
        &self,
        pass: &AcquiredLimits,
        keys: &[&LimitedKey],
        left: &AttemptEnd,
    ) -> Result<bool, Error> {
        if keys.iter().any(|key| key.holds_places()) {
            return Ok(false);
        }
        let now = self.inner.clock.now();
        let mut gates = self.gates(keys.iter().map(|key| key.name.as_str())).await?;
        for (key, gate) in keys.iter().zip(&mut gates) {
            pass.release_key(key, &mut gate.after, left, now);
        }
        Ok(gates.iter().all(LimiterUpdate::stays))
    }

    /// Renews the permits of an attempt with its lease.
    pub(crate) async fn renew_permits(&self, pass: &AcquiredLimits, until: Timestamp) {
        let keys: Vec<&str> = pass
            .keys
            .iter()
            .filter(|key| key.holds_places() || key.breaker.is_some())
            .map(|key| key.name.as_str())
            .collect();
        if keys.is_empty() {
            return;
        }
        let prolonged = async {
            let _turn = self.inner.limits.lock_keys(keys.iter().copied()).await;
            let mut gates = self.gates(keys.iter().copied()).await?;
            gates.iter_mut().for_each(|gate| gate.after.extend_permit(pass.task, until, false));
            self.change_gates(gates).await
        };
        if let Err(error) = prolonged.await {
            tracing::warn!(task = %pass.task, %error, "a permit could not be renewed; trying again with the lease");
        }
    }

    /// Removes tasks that are no longer needed from the waiting lists, with their permits. A running attempt handles
    /// its own lease.
    pub(crate) async fn withdraw(&self, tasks: &[TaskId]) {
        let mut kept: Vec<(TaskId, Vec<String>)> = Vec::new();
        {
            let mut lines = self.inner.limits.queues();
            let mut inside = self.inner.limits.active_tasks();
            for task in tasks {
                lines.remove(*task);
                match inside.get(task) {
                    Some(found) if found.at_work => found.revoked.notify_one(),
                    Some(_) => kept.extend(inside.remove(task).map(|found| (*task, found.keys))),
                    None => {}
                }
            }
            self.inner.metrics.waiting(lines.len());
        }
        for (task, keys) in kept {
            if let Err(error) = self.vacate(task, &keys).await {
                tracing::warn!(%task, %error, "a permit could not be released; it expires with its lease");
            }
        }
    }

    async fn vacate(&self, task: TaskId, keys: &[String]) -> Result<(), Error> {
        let rules = self.rules().await?;
        for _ in 0..MAX_TRIES {
            let _turn = self.inner.limits.lock_keys(keys.iter().map(String::as_str)).await;
            let now = self.inner.clock.now();
            let mut gates = self.gates(keys.iter().map(String::as_str)).await?;
            for gate in &mut gates {
                gate.after.release(task, now, KeyVerdict::Unheard, Some(BreakerRule::default()));
            }
            let after: Vec<Limiter> = gates.iter().map(|gate| gate.after.clone()).collect();
            if self.change_gates(gates).await? {
                for gate in &after {
                    self.wake_waiters(gate, rules.limit_for(&gate.key).map(Arc::as_ref), now).await?;
                }
                return Ok(());
            }
        }
        Err(Error::Contended(task.execution))
    }

    /// Wakes as many tasks that wait for a key as the key has room for.
    pub(crate) async fn wake_waiters(
        &self,
        gate: &Limiter,
        limit: Option<&Limit>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut free = gate.free_permits(limit, now);
        let mut woken = false;
        while free > 0 {
            let next = self.inner.limits.queues().next(&gate.key, free, now);
            let mut gone = false;
            for task in next {
                let there = self.inner.store.hasten(task, now).await?;
                let mut lines = self.inner.limits.queues();
                if there {
                    lines.hastened(task, now);
                } else {
                    // The task has ended or another process is running it: in both cases it does not wait here.
                    lines.remove(task);
                }
                woken |= there;
                gone |= !there;
            }
            free = if gone { free } else { 0 };
        }
        if woken {
            self.inner.wakeup.notify();
        }
        Ok(())
    }
}
