//! Record keys of a sealed store.

use async_trait::async_trait;
use engine::{ActionError, Clock, SECOND, Workflow};
use std::{collections::BTreeSet, fmt, sync::Arc};
use store::{Sequence, Store, encrypted::KeyFolder};
use workflows::{
    audit,
    offboarding::{Offboarding, node_sanitisation::NodeSanitisation},
    platform::{Records, codes},
};

/// The workflows whose executions lie under the platform's key, whomever they are about: the proof that a tenant's data is
/// destroyed outlasts the tenant.
pub const PLATFORM_KEY_WORKFLOWS: [&str; 2] = [Offboarding::NAME, NodeSanitisation::NAME];

/// Journal entries looked at in one go.
const PAGE: usize = 1_000;

/// Records that are not sealed: there is no key to destroy.
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

/// Records in a sealed store.
pub struct RecordKeys {
    /// The store, as the engine sees it.
    pub store: Arc<dyn Store>,
    /// Its keys.
    pub keys: Arc<KeyFolder>,
    /// Says when a key was destroyed.
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
        // The digest of an entry is over what it says, which nobody can read once the key is gone.
        if self.unsealed_entry_of(tenant).await.map_err(failed)? {
            return Err(ActionError::pending(codes::AUDIT_BEHIND, SECOND));
        }
        let destroyed = self.keys.destroy(tenant, self.clock.now()).map_err(failed)?;
        Ok(destroyed.into_iter().map(|gone| gone.key).collect())
    }
}

impl RecordKeys {
    /// Whether the audit has yet to take over something that lies under the tenant's key.
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
