//! The status of limits, and the commands of operators on them.

use crate::{
    Breaker, Deferral, Engine, Entity as _, Error, KeyClosure, Limit, LimitError, Limiter, Permit,
    limits::rule::check_key,
};
use std::collections::BTreeMap;
use store::{ExecutionId, TaskId, Timestamp};

/// The status of one key or pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyStatus {
    /// The key or pattern.
    pub key: String,
    /// The limit: its own or that of a pattern.
    pub limit: Option<Limit>,
    /// The permits in use, on all engines of the store.
    pub permits: Vec<Permit>,
    /// The number of attempts that wait in this process.
    pub queued: usize,
    /// Since when the oldest of them waits.
    pub oldest: Option<Timestamp>,
    /// The closure.
    pub closed: Option<KeyClosure>,
    /// The state of its breaker.
    pub breaker: Breaker,
}

/// An attempt that waits for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingAttempt {
    /// Its task.
    pub task: TaskId,
    /// The key.
    pub key: String,
    /// Since when it has waited, for any key.
    pub since: Timestamp,
    /// When it tries again unless it is woken.
    pub due: Timestamp,
    /// The reason.
    pub reason: Deferral,
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Returns the status of every limit and of every key with some state, by key.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn limit_statuses(&self) -> Result<Vec<KeyStatus>, Error> {
        let rules = self.rules().await?;
        let now = self.inner.clock.now();
        let mut all: BTreeMap<String, KeyStatus> = BTreeMap::new();
        let plain = |key: &str| KeyStatus {
            key: key.into(),
            limit: rules.limit_for(key).map(|limit| (**limit).clone()),
            permits: Vec::new(),
            queued: 0,
            oldest: None,
            closed: None,
            breaker: Breaker::default(),
        };
        for limit in rules.all() {
            all.insert(limit.key.clone(), plain(&limit.key));
        }
        for gate in self.all_documents::<Limiter>(Limiter::COLLECTION).await? {
            let row = all.entry(gate.key.clone()).or_insert_with(|| plain(&gate.key));
            row.permits = gate.places.into_iter().filter(|place| place.until > now).collect();
            row.closed = gate.closed.filter(|closed| closed.until.is_none_or(|until| until > now));
            row.breaker = gate.breaker;
        }
        for (key, _, waiter) in self.inner.limits.queues().all() {
            let row = all.entry(key.to_owned()).or_insert_with(|| plain(key));
            row.queued = row.queued.saturating_add(1);
            row.oldest = Some(row.oldest.map_or(waiter.since, |oldest| oldest.min(waiter.since)));
        }
        Ok(all.into_values().collect())
    }

    /// Returns the status of `key`. A key without state has one if a limit applies to it.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn limit_status(&self, key: &str) -> Result<Option<KeyStatus>, Error> {
        if let Some(found) = self.limit_statuses().await?.into_iter().find(|row| row.key == key) {
            return Ok(Some(found));
        }
        if check_key(key).is_err() {
            return Ok(None);
        }
        let governing = self.rules().await?.limit_for(key).cloned();
        Ok(governing.map(|limit| KeyStatus {
            key: key.into(),
            limit: Some((*limit).clone()),
            permits: Vec::new(),
            queued: 0,
            oldest: None,
            closed: None,
            breaker: Breaker::default(),
        }))
    }

    /// Returns the keys that the attempts of an execution wait for in this process, by slot, with their current
    /// positions.
    #[must_use]
    pub fn waiting_attempts(&self, id: ExecutionId) -> Vec<WaitingAttempt> {
        let now = self.inner.clock.now();
        let mut lines = self.inner.limits.queues();
        let all = lines.all().filter(|(_, task, _)| task.execution == id);
        let mut found: Vec<(WaitingAttempt, String)> = all
            .map(|(key, task, waiter)| {
                let (since, due, why) = (waiter.since, waiter.due, waiter.why.clone());
                (WaitingAttempt { task, key: key.to_owned(), since, due, reason: why }, waiter.tenant.clone())
            })
            .collect();
        for (waiting, tenant) in &mut found {
            let ahead = lines.count_ahead(&waiting.key, tenant, waiting.task, waiting.since, now);
            if let Deferral::Full { before, .. } | Deferral::Paced { before, .. } = &mut waiting.reason {
                *before = ahead;
            }
        }
        found.into_iter().map(|(waiting, _)| waiting).collect()
    }

    /// Sets a limit, and replaces one for the same key. Running attempts continue.
    ///
    /// # Errors
    /// Returns a [`LimitError`] in the inner result for an invalid field; otherwise the store's error.
    pub async fn set_limit(&self, limit: Limit) -> Result<Result<Limit, LimitError>, Error> {
        if let Err(error) = limit.validate() {
            return Ok(Err(error));
        }
        let limit = Limit { set_at: self.inner.clock.now(), ..limit };
        self.transact(true, |view| {
            view.get::<Limit>(&limit.key)?;
            view.put(&limit)
        })
        .await?;
        self.wake_all_waiters().await?;
        Ok(Ok(limit))
    }

    /// Removes a limit. Returns false if it does not exist.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn remove_limit(&self, key: &str) -> Result<bool, Error> {
        let there = self
            .transact(true, |view| {
                let there = view.get::<Limit>(key)?.is_some();
                view.delete::<Limit>(key)?;
                Ok(there)
            })
            .await?;
        self.wake_all_waiters().await?;
        Ok(there)
    }

    /// Closes `key` until a moment or until it is opened. Running attempts continue.
    ///
    /// # Errors
    /// Returns a [`LimitError`] in the inner result for an invalid key; otherwise the store's error.
    pub async fn close_key(&self, key: &str, closed: KeyClosure) -> Result<Result<(), LimitError>, Error> {
        if key.ends_with('*') {
            let why = "a pattern cannot be closed: close each key, such as cluster/eu-1, separately";
            return Ok(Err(LimitError { field: "key", why: why.into() }));
        }
        if let Err(error) = check_key(key) {
            return Ok(Err(error));
        }
        self.transact(true, |view| {
            let gate = view.get::<Limiter>(key)?.unwrap_or_else(|| Limiter::for_key(key));
            view.put(&Limiter { closed: Some(closed.clone()), ..gate })
        })
        .await?;
        Ok(Ok(()))
    }

    /// Opens `key` and resets its breaker. Returns false if it was open.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn open_key(&self, key: &str) -> Result<bool, Error> {
        let opened = self
            .transact(true, |view| {
                let Some(gate) = view.get::<Limiter>(key)? else { return Ok(false) };
                let opened = gate.closed.is_some() || !gate.breaker.is_untouched();
                let open = Limiter { closed: None, breaker: Breaker::default(), ..gate };
                if open.is_plain() {
                    view.delete::<Limiter>(key)?;
                } else if opened {
                    view.put(&open)?;
                }
                Ok(opened)
            })
            .await?;
        self.wake_all_waiters().await?;
        Ok(opened)
    }

    /// Wakes all tasks that may be able to start after a change by an operator.
    async fn wake_all_waiters(&self) -> Result<(), Error> {
        self.inner.limits.forget_rules();
        let (rules, now) = (self.rules().await?, self.inner.clock.now());
        let mut gates: BTreeMap<String, Limiter> = BTreeMap::new();
        for gate in self.all_documents::<Limiter>(Limiter::COLLECTION).await? {
            gates.insert(gate.key.clone(), gate);
        }
        let keys: std::collections::BTreeSet<String> =
            self.inner.limits.queues().all().map(|(key, ..)| key.to_owned()).collect();
        for key in keys {
            let _turn = self.inner.limits.lock_keys(std::iter::once(key.as_str())).await;
            let gate = gates.remove(&key).unwrap_or_else(|| Limiter::for_key(&key));
            self.wake_waiters(&gate, rules.limit_for(&key).map(AsRef::as_ref), now).await?;
        }
        Ok(())
    }
}
