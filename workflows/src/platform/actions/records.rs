//! The keys that encrypt the engine's own records of a tenant, where encryption at rest is on.

use crate::platform::Platform;
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Destroys the key that encrypts the engine's own records of a tenant. The records are unreadable from then on.
///
/// Safe to run twice: a destroyed key stays destroyed, and its name is returned again. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DestroyRecordKey {
    /// The tenant's id.
    pub tenant: String,
}

impl Action for DestroyRecordKey {
    const NAME: &'static str = "DestroyRecordKey";
    type Platform = Platform;
    type Output = Vec<String>;

    async fn run(&self, on: &Platform, _: &Call) -> Result<Vec<String>, ActionError> {
        on.records.destroy_key(&self.tenant).await
    }
}
