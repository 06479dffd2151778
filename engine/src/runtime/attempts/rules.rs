//! The limits in force, as last read from the store.

use crate::{Engine, Entity as _, Error, Limit, Limiter, SECOND, limits::rule::LimitRules};
use serde::de::DeserializeOwned;
use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};
use store::Document;

impl<P: Send + Sync + 'static> Engine<P> {
    /// Returns the limits in force, at most two seconds old.
    pub(crate) async fn rules(&self) -> Result<Arc<LimitRules>, Error> {
        let now = self.inner.clock.now();
        let limits = &self.inner.limits;
        let known = limits.rules.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, rules)) = &known
            && *at <= now
            && now < at.after(REFRESH_INTERVAL)
        {
            return Ok(rules.clone());
        }
        let rules = Arc::new(LimitRules::new(self.all_documents::<Limit>(Limit::COLLECTION).await?));
        if known.is_none() {
            limits.take_over(&self.all_documents::<Limiter>(Limiter::COLLECTION).await?);
        }
        *limits.rules.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, rules.clone()));
        Ok(rules)
    }

    /// Returns all documents of a collection. Skips and logs unreadable ones.
    pub(crate) async fn all_documents<T: DeserializeOwned>(&self, collection: &str) -> Result<Vec<T>, Error> {
        let (mut all, mut after): (Vec<T>, Option<String>) = (Vec::new(), None);
        let parse = |found: &Document| match serde_json::from_slice(&found.body) {
            Ok(item) => Some(item),
            Err(error) => {
                tracing::error!(document = %found.key, %error, "skipping an unreadable limit document");
                None
            }
        };
        loop {
            let page = self.inner.store.documents(collection, "", after.as_deref(), 1_000).await?;
            all.extend(page.items.iter().filter_map(parse));
            after = page.next;
            if after.is_none() {
                return Ok(all);
            }
        }
    }
}

/// How long rules are cached. A change through this process applies at once.
const REFRESH_INTERVAL: Duration = SECOND.saturating_mul(2);
