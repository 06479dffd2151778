//! The conformance kit for keys: in the fake Vault, and in a token. The test stores the amount that a key represents.

use super::TENANT;
use async_trait::async_trait;
use e2e::excuses::{alike, keyless, unchanging};
use engine::ActionError;
use std::{collections::BTreeMap, sync::Mutex, time::Duration};
use tests::kit::{Subject, Trouble, proxy::Proxy};
use workflows::platform::{CallMetadata, FoundObject, Keys};

/// Reads and changes without the backend.
pub(super) trait Behind: Send + Sync {
    /// Returns true if the key exists.
    fn there(&self, name: &str) -> bool;

    /// Removes it.
    fn vanish(&self, name: &str);
}

/// Keys of a backend.
pub(super) struct KeysOf<K, B> {
    pub(super) name: &'static str,
    pub(super) keys: K,
    pub(super) behind: B,
    pub(super) proxy: Option<Proxy>,
    /// How long a key must be absent before a new key of its name is distinguishable from it.
    pub(super) apart: Duration,
    amounts: Mutex<BTreeMap<String, u64>>,
}

impl<K, B> KeysOf<K, B> {
    pub(super) fn new(name: &'static str, keys: K, behind: B, proxy: Option<Proxy>, apart: Duration) -> Self {
        Self { name, keys, behind, proxy, apart, amounts: Mutex::default() }
    }
}

#[async_trait]
impl<K: Keys, B: Behind> Subject for KeysOf<K, B> {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn make(&self, thing: &str, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        if !self.behind.there(thing) {
            self.amounts.lock().unwrap().insert(thing.to_owned(), amount);
        }
        self.keys.create(thing, TENANT, stamp).await?;
        let made = self.keys.read(thing, stamp).await?.map(|(found, _)| found);
        let (tenant, step) = (TENANT.to_owned(), stamp.step.clone());
        let as_if = FoundObject {
            uid: "dry".into(),
            tenant,
            step,
            spec: serde_json::Value::Null,
            terminating: false,
        };
        Ok(made.unwrap_or(as_if))
    }

    async fn look(&self, thing: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        Ok(self.keys.read(thing, stamp).await?.map(|(found, _)| found))
    }

    async fn change(&self, _: &str, _: u64, _: u64, _: &CallMetadata) -> Result<FoundObject, ActionError> {
        unreachable!("excused")
    }

    async fn remove(
        &self,
        thing: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let removed = self.keys.destroy(thing, found, stamp).await;
        tokio::time::sleep(self.apart).await;
        removed
    }

    async fn really(&self, thing: &str) -> Option<u64> {
        let amount = self.amounts.lock().unwrap().get(thing).copied();
        amount.filter(|_| self.behind.there(thing))
    }

    async fn trouble(&self, next: Trouble) -> Result<(), &'static str> {
        match &self.proxy {
            Some(proxy) => proxy.trouble(next).await.map_err(|_| "the proxy's port is taken"),
            None if next == Trouble::Calm => Ok(()),
            None => {
                Err("the token is used through a library of the process: there is no connection to disturb")
            }
        }
    }

    fn excused(&self, case: &str) -> Option<&'static str> {
        unchanging(case).or_else(|| keyless(case)).or_else(|| alike(case))
    }

    async fn vanish(&self, thing: &str) -> Result<(), &'static str> {
        self.behind.vanish(thing);
        tokio::time::sleep(self.apart).await;
        Ok(())
    }
}
