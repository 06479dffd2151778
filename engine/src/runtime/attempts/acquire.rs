//! Acquires the limits of an attempt: all keys or none, in one commit that is conditional on their current state.

use super::limiter_update::LimiterUpdate;
use crate::{
    BreakerRule, Deferral, Engine, ErasedAction, Error, Limit, MINUTE, SECOND,
    limits::{
        limiter::{Denied, KeyTerms},
        rule::LimitRules,
        state::ActiveTask,
        waiters::Waiter,
    },
    runtime::commit::MAX_TRIES,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::{Lease, TaskId, Timestamp};
use tokio::sync::Notify;

/// How long the first waiting task sleeps if it is not woken. Later ones sleep longer, up to [`MAX_RETRY_INTERVAL`].
/// This is how permits that other processes release are found.
const RETRY_INTERVAL: Duration = SECOND.saturating_mul(5);
const MAX_RETRY_INTERVAL: Duration = MINUTE.saturating_mul(2);
/// A closed key is checked again, because another process may open it early.
const MAX_CLOSED_INTERVAL: Duration = MINUTE.saturating_mul(5);

/// The keys that an attempt has acquired.
#[derive(Debug)]
pub(crate) struct AcquiredLimits {
    pub(crate) task: TaskId,
    pub(crate) action: &'static str,
    pub(crate) declared: Vec<String>,
    pub(crate) keys: Vec<LimitedKey>,
    /// Signals that the task is no longer needed.
    pub(crate) revoked: Arc<Notify>,
}

/// A key and its rules.
#[derive(Clone, Debug)]
pub(crate) struct LimitedKey {
    pub(crate) name: String,
    pub(crate) limit: Option<Arc<Limit>>,
    pub(crate) breaker: Option<BreakerRule>,
}

impl LimitedKey {
    fn terms(&self, before: usize) -> KeyTerms<'_> {
        KeyTerms { limit: self.limit.as_deref(), breaker: self.breaker, ahead: before }
    }

    pub(crate) fn holds_places(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.concurrency.is_some())
    }
}

/// An attempt that is acquiring its keys.
struct Attempt<'a> {
    lease: &'a Lease,
    tenant: &'a str,
    keys: Vec<LimitedKey>,
}

/// Returns the keys of an attempt: its tenant, its action, and the keys of the step and the action. A rate limits only
/// new work, so it does not delay an `undo`.
fn limited_keys(
    rules: &LimitRules,
    tenant: &str,
    (action, declared): (&str, &[String]),
    undo: bool,
) -> Vec<LimitedKey> {
    let mut keys: BTreeMap<String, bool> = declared.iter().map(|key| (key.clone(), true)).collect();
    if !tenant.is_empty() {
        keys.entry(format!("tenant/{tenant}")).or_default();
    }
    keys.entry(action_key(action)).or_default();
    let keyed = |(name, declared): (String, bool)| {
        let limit = rules.limit_for(&name).cloned();
        let limit = match limit {
            Some(limit) if undo => Some(Arc::new(Limit { rate: None, ..Limit::clone(&limit) })),
            limit => limit,
        };
        // Only the systems that an action depends on have a breaker by default: a tenant or an action cannot be down.
        let named = limit.as_ref().and_then(|limit| limit.breaker);
        let breaker = named.or_else(|| declared.then(BreakerRule::default));
        LimitedKey { name, limit, breaker: breaker.filter(|rule| rule.after > 0) }
    };
    keys.into_iter().map(keyed).collect()
}

pub(crate) fn action_key(action: &str) -> String {
    format!("action/{}", action.replace([' ', ':', '*'], "-"))
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Acquires all keys of an attempt. Returns `None` if one is not available; the task is then deferred and waits
    /// for that key.
    pub(crate) async fn acquire(
        &self,
        lease: &Lease,
        tenant: &str,
        deed: &ErasedAction<P>,
        undo: bool,
    ) -> Result<Option<AcquiredLimits>, Error> {
        let at = Attempt {
            lease,
            tenant,
            keys: limited_keys(&*self.rules().await?, tenant, (deed.name, &deed.keys), undo),
        };
        // Most attempts find no obstacle and write nothing. They do not wait for each other.
        let found = self.try_keys(&at).await?;
        if found.is_ok_and(|gates| gates.iter().all(LimiterUpdate::stays)) {
            return Ok(Some(self.enter(at, deed)));
        }
        for _ in 0..MAX_TRIES {
            // A release waits for this lock too, so that it does not miss a task that is about to wait.
            let _turn = self.inner.limits.lock_keys(at.keys.iter().map(|key| key.name.as_str())).await;
            match self.try_keys(&at).await? {
                Err((key, hold)) => {
                    self.defer(key, &at, hold).await?;
                    return Ok(None);
                }
                Ok(gates) => {
                    if self.change_gates(gates).await? {
                        return Ok(Some(self.enter(at, deed)));
                    }
                }
            }
        }
        Err(Error::Contended(lease.task.id.execution))
    }

    /// Returns the limiters of an attempt as they are and as they would be after it acquired them, or the key that is
    /// not available.
    async fn try_keys<'a>(
        &self,
        at: &'a Attempt<'_>,
    ) -> Result<Result<Vec<LimiterUpdate>, (&'a str, Denied)>, Error> {
        let (now, task) = (self.inner.clock.now(), at.lease.task.id);
        let since = self.waiting_since(at.lease, now);
        let mut gates = self.gates(at.keys.iter().map(|key| key.name.as_str())).await?;
        for (key, gate) in at.keys.iter().zip(&mut gates) {
            let before = self.inner.limits.queues().count_ahead(&key.name, at.tenant, task, since, now);
            if let Err(hold) = gate.before.admits(task, now, key.terms(before)) {
                return Ok(Err((&key.name, hold)));
            }
            gate.after.admit(task, now, now.after(self.inner.options.lease), key.terms(before));
        }
        Ok(Ok(gates))
    }

    /// Returns since when a task waits.
    fn waiting_since(&self, lease: &Lease, now: Timestamp) -> Timestamp {
        let line = self.inner.limits.queues().waiting_since(lease.task.id);
        line.unwrap_or(lease.task.due.min(now))
    }

    /// Returns the acquired keys of an attempt.
    fn enter(&self, at: Attempt<'_>, deed: &ErasedAction<P>) -> AcquiredLimits {
        let (limits, task) = (&self.inner.limits, at.lease.task.id);
        let mut lines = limits.queues();
        lines.remove(task);
        at.keys.iter().for_each(|key| lines.mark_served(&key.name, at.tenant));
        self.inner.metrics.waiting(lines.len());
        drop(lines);
        let revoked: Arc<Notify> = Arc::default();
        let names = at.keys.iter().map(|key| key.name.clone()).collect();
        limits
            .active_tasks()
            .insert(task, ActiveTask { keys: names, at_work: true, revoked: revoked.clone(), beats: None });
        AcquiredLimits { task, action: deed.name, declared: deed.keys.clone(), keys: at.keys, revoked }
    }

    /// Returns a task to the store as if it had not been leased.
    async fn defer(&self, key: &str, at: &Attempt<'_>, hold: Denied) -> Result<(), Error> {
        let (lease, task) = (at.lease, at.lease.task.id);
        let now = self.inner.clock.now();
        let since = self.waiting_since(lease, now);
        let due = match (&hold.why, hold.until) {
            (Deferral::Full { before, .. }, _) => {
                let place = u32::try_from(*before).unwrap_or(u32::MAX).saturating_add(1);
                now.after(RETRY_INTERVAL.saturating_mul(place).min(MAX_RETRY_INTERVAL))
            }
            (Deferral::Paced { .. }, until) => until.unwrap_or(now),
            (Deferral::Closed(_) | Deferral::Tripped { .. }, until) => {
                let most = now.after(MAX_CLOSED_INTERVAL);
                until.unwrap_or(most).min(most)
            }
        };
        let due = due.max(now.after(Duration::from_millis(1)));
        self.inner.metrics.put_off(key_kind(key));
        tracing::debug!(%task, key, why = %hold.why, "deferred");
        let waiter = Waiter { tenant: at.tenant.into(), since, due, why: hold.why };
        {
            let mut lines = self.inner.limits.queues();
            lines.join(key, task, waiter);
            self.inner.metrics.waiting(lines.len());
        }
        let untried = lease.deliveries.saturating_sub(1);
        Ok(self.hand_back(task, lease.epoch, due, untried).await?)
    }
}

/// Returns the part of a key that metrics may name.
pub(crate) fn key_kind(key: &str) -> &str {
    key.split_once('/').map_or(key, |(kind, _)| kind)
}
