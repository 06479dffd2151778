//! Passing the keys of an attempt, and leaving them: each one commit, conditional on what stands there.

use super::{
    BreakerRule, Gate, Inside, Limit,
    gate::{Barred, Closed, Hold, Terms, Verdict},
    line::Waiter,
    rule::Rules,
};
use crate::{
    ActionError, Class, Deed, Engine, Entity as _, Error,
    action::{MINUTE, SECOND},
    engine::MOST_TRIES,
    query::parse,
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::{Commit, Document, Key, Lease, Put, Read, TaskId, Timestamp};
use tokio::sync::Notify;

/// How long the first in a line sleeps if nobody wakes it; those behind it longer, up to [`LOOK_AT_MOST`]. Only places that
/// other processes give back are found so late.
const LOOK_AGAIN: Duration = SECOND.saturating_mul(5);
const LOOK_AT_MOST: Duration = MINUTE.saturating_mul(2);
/// What is closed may be opened by another process before its time.
const CLOSED_AT_MOST: Duration = MINUTE.saturating_mul(5);

/// Whether an attempt may begin.
pub(crate) enum Passed {
    Through(Pass),
    /// Not before then, unless it is woken.
    Later(Timestamp),
}

/// The keys that an attempt has passed.
#[derive(Debug)]
pub(crate) struct Pass {
    task: TaskId,
    action: &'static str,
    declared: Vec<String>,
    keys: Vec<Keyed>,
    /// Told when the task is not wanted any more.
    pub(crate) revoked: Arc<Notify>,
}

/// A key and what holds there.
#[derive(Clone, Debug)]
struct Keyed {
    name: String,
    limit: Option<Arc<Limit>>,
    breaker: Option<BreakerRule>,
}

impl Keyed {
    fn terms(&self, before: usize) -> Terms<'_> {
        Terms { limit: self.limit.as_deref(), breaker: self.breaker, before }
    }

    fn holds_places(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.concurrency.is_some())
    }
}

/// The keys of an attempt: its tenant's, its action's, and those that step and action name.
fn keyed(rules: &Rules, tenant: &str, action: &str, declared: &[String]) -> Vec<Keyed> {
    let mut keys: BTreeMap<String, bool> = declared.iter().map(|key| (key.clone(), true)).collect();
    if !tenant.is_empty() {
        keys.entry(format!("tenant/{tenant}")).or_default();
    }
    keys.entry(action_key(action)).or_default();
    let keyed = |(name, declared): (String, bool)| {
        let limit = rules.of(&name).cloned();
        // By default only what an action names as what it depends on: a tenant or an action is not down.
        let named = limit.as_ref().and_then(|limit| limit.breaker);
        let breaker = named.or_else(|| declared.then(BreakerRule::default));
        Keyed { name, limit, breaker: breaker.filter(|rule| rule.after > 0) }
    };
    keys.into_iter().map(keyed).collect()
}

fn action_key(action: &str) -> String {
    format!("action/{}", action.replace([' ', ':', '*'], "-"))
}

/// What an attempt's result says about its keys.
pub(crate) fn verdict(result: &Result<Value, ActionError>) -> Verdict {
    match result.as_ref().map_err(|error| error.class) {
        Ok(_) | Err(Class::Pending { .. } | Class::Permanent) => Verdict::Answered,
        Err(Class::Transient | Class::Unknown) => Verdict::Failed,
    }
}

/// A gate as it was read, and what it is to become.
struct Changing {
    key: Key,
    read: Read,
    before: Gate,
    after: Gate,
}

impl Changing {
    fn put(&self) -> Option<Put> {
        if self.before == self.after || (self.read.version.is_none() && self.after.is_plain()) {
            return None;
        }
        let body = (!self.after.is_plain()).then(|| serde_json::to_vec(&self.after).unwrap_or_default());
        Some(Put { key: self.key.clone(), body })
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Lets an attempt pass all its keys, or says when it should be looked at again.
    pub(crate) async fn pass(&self, lease: &Lease, tenant: &str, deed: &Deed<P>) -> Result<Passed, Error> {
        let limits = &self.inner.limits;
        let task = lease.task.id;
        let keys = keyed(&*self.rules().await?, tenant, deed.name, &deed.keys);
        for _ in 0..MOST_TRIES {
            let _turn = limits.turnstile(limited(&keys)).await;
            let now = self.inner.clock.now();
            let since = limits.lines().since(task).unwrap_or(lease.task.due.min(now));
            let mut gates = self.gates(keys.iter().map(|key| key.name.as_str())).await?;
            for (key, gate) in keys.iter().zip(&mut gates) {
                let before = limits.lines().before(&key.name, tenant, task, since, now);
                if let Err(hold) = gate.before.admits(task, now, key.terms(before)) {
                    return Ok(self.put_off(&key.name, tenant, task, since, hold));
                }
                gate.after.admit(task, now, now.after(self.inner.options.lease), key.terms(before));
            }
            if !self.change_gates(gates).await? {
                continue;
            }
            let mut lines = limits.lines();
            lines.leave(task);
            keys.iter().for_each(|key| lines.served(&key.name, tenant));
            self.inner.metrics.waiting(lines.len());
            drop(lines);
            let revoked: Arc<Notify> = Arc::default();
            let names = keys.iter().map(|key| key.name.clone()).collect();
            limits.inside().insert(task, Inside { keys: names, at_work: true, revoked: revoked.clone() });
            return Ok(Passed::Through(Pass {
                task,
                action: deed.name,
                declared: deed.keys.clone(),
                keys,
                revoked,
            }));
        }
        Err(Error::Contended(task.execution))
    }

    fn put_off(&self, key: &str, tenant: &str, task: TaskId, since: Timestamp, hold: Hold) -> Passed {
        let now = self.inner.clock.now();
        let due = match (&hold.why, hold.until) {
            (Barred::Full { before, .. }, _) => {
                let place = u32::try_from(*before).unwrap_or(u32::MAX).saturating_add(1);
                now.after(LOOK_AGAIN.saturating_mul(place).min(LOOK_AT_MOST))
            }
            (Barred::Paced { .. }, until) => until.unwrap_or(now),
            (Barred::Closed(_) | Barred::Tripped { .. }, until) => {
                let most = now.after(CLOSED_AT_MOST);
                until.unwrap_or(most).min(most)
            }
        };
        let due = due.max(now.after(Duration::from_millis(1)));
        self.inner.metrics.put_off(kind(key));
        tracing::debug!(%task, key, why = %hold.why, "put off");
        let waiter = Waiter { tenant: tenant.into(), since, due, why: hold.why };
        let mut lines = self.inner.limits.lines();
        lines.join(key, task, waiter);
        self.inner.metrics.waiting(lines.len());
        Passed::Later(due)
    }

    /// Gives back what an attempt took, and tells its keys how it ended. What fails to be given back lapses with the lease.
    ///
    /// `keep` says until when its places are kept all the same, for an action that is pending.
    pub(crate) async fn leave(
        &self,
        pass: &Pass,
        verdict: Verdict,
        left_alone: Option<(Duration, String)>,
        keep: Option<Timestamp>,
    ) {
        {
            let mut inside = self.inner.limits.inside();
            match (keep, inside.get_mut(&pass.task)) {
                (Some(_), Some(kept)) => kept.at_work = false,
                (None, _) => _ = inside.remove(&pass.task),
                (Some(_), None) => {}
            }
        }
        if let Err(error) = self.try_leave(pass, verdict, left_alone, keep).await {
            tracing::warn!(task = %pass.task, %error, "a place could not be given back; it lapses by itself");
        }
    }

    async fn try_leave(
        &self,
        pass: &Pass,
        verdict: Verdict,
        left_alone: Option<(Duration, String)>,
        keep: Option<Timestamp>,
    ) -> Result<(), Error> {
        // What an action is told holds for all that it depends on; for itself where it says nothing of that.
        let own = [action_key(pass.action)];
        let closed: &[String] = match (&left_alone, pass.declared.is_empty()) {
            (None, _) => &[],
            (Some(_), true) => &own,
            (Some(_), false) => &pass.declared,
        };
        let concerned =
            |key: &&Keyed| key.holds_places() || key.breaker.is_some() || closed.contains(&key.name);
        let keys: Vec<&Keyed> = pass.keys.iter().filter(concerned).collect();
        if keys.is_empty() {
            return Ok(());
        }
        for _ in 0..MOST_TRIES {
            let _turn = self.inner.limits.turnstile(keys.iter().map(|key| key.name.as_str())).await;
            let now = self.inner.clock.now();
            let mut gates = self.gates(keys.iter().map(|key| key.name.as_str())).await?;
            let mut tripped = Vec::new();
            for (key, gate) in keys.iter().zip(&mut gates) {
                let place = gate.after.place(pass.task).cloned();
                if gate.after.leave(pass.task, now, verdict, key.breaker) {
                    tripped.push(key.name.as_str());
                }
                if let (Some(until), Some(place)) = (keep, place) {
                    gate.after.places.push(place);
                    gate.after.keep(pass.task, until, true);
                }
                if let Some((span, why)) = left_alone.as_ref().filter(|_| closed.contains(&key.name)) {
                    let until = Some(now.after(*span));
                    gate.after.close(Closed { until, why: why.clone(), by: pass.action.into() });
                }
            }
            let after: Vec<Gate> = gates.iter().map(|gate| gate.after.clone()).collect();
            if self.change_gates(gates).await? {
                for key in tripped {
                    self.inner.metrics.tripped(kind(key));
                    tracing::warn!(
                        key,
                        action = pass.action,
                        "its breaker has tripped: it is left alone for a while"
                    );
                }
                for (key, gate) in keys.iter().zip(&after) {
                    self.wake(gate, key.limit.as_deref(), now).await?;
                }
                return Ok(());
            }
        }
        Err(Error::Contended(pass.task.execution))
    }

    /// Prolongs the places of an attempt with its lease.
    pub(crate) async fn stay(&self, pass: &Pass, until: Timestamp) {
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
            let _turn = self.inner.limits.turnstile(keys.iter().copied()).await;
            let mut gates = self.gates(keys.iter().copied()).await?;
            gates.iter_mut().for_each(|gate| gate.after.keep(pass.task, until, false));
            self.change_gates(gates).await
        };
        if let Err(error) = prolonged.await {
            tracing::warn!(task = %pass.task, %error, "a place could not be prolonged; trying again with the lease");
        }
    }

    /// Tasks that are no longer wanted wait in no line and keep no place; an attempt at work on one looks to its lease.
    pub(crate) async fn unwanted(&self, tasks: &[TaskId]) {
        let mut kept: Vec<(TaskId, Vec<String>)> = Vec::new();
        {
            let mut lines = self.inner.limits.lines();
            let mut inside = self.inner.limits.inside();
            for task in tasks {
                lines.leave(*task);
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
                tracing::warn!(%task, %error, "a place could not be given back; it lapses by itself");
            }
        }
    }

    async fn vacate(&self, task: TaskId, keys: &[String]) -> Result<(), Error> {
        let rules = self.rules().await?;
        for _ in 0..MOST_TRIES {
            let _turn = self.inner.limits.turnstile(keys.iter().map(String::as_str)).await;
            let now = self.inner.clock.now();
            let mut gates = self.gates(keys.iter().map(String::as_str)).await?;
            for gate in &mut gates {
                gate.after.leave(task, now, Verdict::Unheard, Some(BreakerRule::default()));
            }
            let after: Vec<Gate> = gates.iter().map(|gate| gate.after.clone()).collect();
            if self.change_gates(gates).await? {
                for gate in &after {
                    self.wake(gate, rules.of(&gate.key).map(Arc::as_ref), now).await?;
                }
                return Ok(());
            }
        }
        Err(Error::Contended(task.execution))
    }

    /// Brings forward as many of those that wait at a key as could be let in.
    pub(super) async fn wake(&self, gate: &Gate, limit: Option<&Limit>, now: Timestamp) -> Result<(), Error> {
        let mut free = gate.room(limit, now);
        let mut woken = false;
        while free > 0 {
            let next = self.inner.limits.lines().next(&gate.key, free, now);
            let mut gone = false;
            for task in next {
                let there = self.inner.store.hasten(task, now).await?;
                let mut lines = self.inner.limits.lines();
                if there {
                    lines.hastened(task, now);
                } else {
                    // It has ended, or another process is at it: in either case it is not waiting here.
                    lines.leave(task);
                }
                woken |= there;
                gone |= !there;
            }
            free = if gone { free } else { 0 };
        }
        if woken {
            self.inner.due.notify_one();
        }
        Ok(())
    }

    async fn gates(&self, keys: impl Iterator<Item = &str>) -> Result<Vec<Changing>, Error> {
        let mut gates = Vec::new();
        for name in keys {
            let key = Key::new(Gate::COLLECTION, name);
            let found = self.inner.store.document(&key).await?;
            let read = Read { key: key.clone(), version: found.as_ref().map(|document| document.version) };
            let before = found.as_ref().and_then(readable).unwrap_or_else(|| Gate::of(name));
            gates.push(Changing { key, read, after: before.clone(), before });
        }
        Ok(gates)
    }

    /// Commits what has changed, if all is still as it was read; false when it is not.
    async fn change_gates(&self, gates: Vec<Changing>) -> Result<bool, Error> {
        let documents: Vec<Put> = gates.iter().filter_map(Changing::put).collect();
        if documents.is_empty() {
            return Ok(true);
        }
        let reads = gates.into_iter().map(|gate| gate.read).collect();
        match self.inner.store.commit(Commit { reads, documents, ..Commit::default() }).await {
            Ok(_) => Ok(true),
            Err(store::Error::Conflict { .. }) => {
                self.inner.metrics.conflict();
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// What stands at a key. What cannot be read is written anew, rather than be in everybody's way for ever.
fn readable(found: &Document) -> Option<Gate> {
    let gate = parse::<Gate>(found);
    gate.inspect_err(|error| tracing::error!(%error, "what stands at a key is forgotten")).ok()
}

/// The keys at which attempts of this process wait for each other.
fn limited(keys: &[Keyed]) -> impl Iterator<Item = &str> {
    keys.iter().filter(|key| key.limit.is_some()).map(|key| key.name.as_str())
}

/// The part of a key that metrics may name.
pub(super) fn kind(key: &str) -> &str {
    key.split_once('/').map_or(key, |(kind, _)| kind)
}
