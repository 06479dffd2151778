//! Record keys of an encrypted store.

use async_trait::async_trait;
use engine::{ActionError, Clock, SECOND, Workflow};
use std::{collections::BTreeSet, fmt, sync::Arc};
use store::{Sequence, Store, encrypted::KeyFolder};
use workflows::{
    audit,
    offboarding::{Offboarding, node_sanitisation::NodeSanitisation},
    platform::{Records, codes},
};

/// Workflows whose executions are encrypted with the platform's key instead of the tenant's, because the proof of a
/// tenant's data destruction must outlast the tenant.
pub const PLATFORM_KEY_WORKFLOWS: [&str; 2] = [Offboarding::NAME, NodeSanitisation::NAME];

/// The number of journal entries read at once.
const PAGE: usize = 1_000;

/// Records of a store without encryption; there is no key to destroy.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecordKeys;

#[async_trait]
impl Records for NoRecordKeys {
    fn backend(&self) -> &'static str {
        "not sealed"
    }

    async fn destroy_key(&self, _: &str) -> Result<Vec<String>, ActionError> {
        Ok(Vec::new())
    }
}

/// Records of an encrypted store.
pub struct RecordKeys {
    /// The store, as the engine uses it.
    pub store: Arc<dyn Store>,
    /// The record keys.
    pub keys: Arc<KeyFolder>,
    /// The clock for the time of a key's destruction.
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for RecordKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealedRecords")
    }
}

#[async_trait]
impl Records for RecordKeys {
    fn backend(&self) -> &'static str {
        "sealed"
    }

    async fn destroy_key(&self, tenant: &str) -> Result<Vec<String>, ActionError> {
        let failed = |error: store::Error| ActionError::transient(codes::RECORD_KEYS, error);
        // The digest of an entry covers its content, which is unreadable after the key is destroyed.
        if self.unsealed_entry_of(tenant).await.map_err(failed)? {
            return Err(ActionError::pending(codes::AUDIT_BEHIND, SECOND));
        }
        let destroyed = self.keys.destroy(tenant, self.clock.now()).map_err(failed)?;
        Ok(destroyed.into_iter().map(|gone| gone.key).collect())
    }
}

impl RecordKeys {
    /// Returns true if the audit has not yet sealed an entry that is encrypted with the tenant's key.
    async fn unsealed_entry_of(&self, tenant: &str) -> Result<bool, store::Error> {
        let cursor = audit::cursor(&*self.store).await?;
        let mut after = cursor.after.map(|after| (Sequence(after), u32::MAX));
        let mut others = BTreeSet::new();
        loop {
            let page = self.store.history(after, PAGE).await?;
            for (_, entry) in page.items {
                if others.contains(&entry.execution) {
                    continue;
                }
                let record = self.store.load(entry.execution).await?;
                let kept = |workflow: &str| PLATFORM_KEY_WORKFLOWS.contains(&workflow);
                if record.is_some_and(|record| record.tenant == tenant && !kept(&record.workflow)) {
                    return Ok(true);
                }
                others.insert(entry.execution);
            }
            after = page.next;
            if after.is_none() {
                return Ok(false);
            }
        }
    }
}
