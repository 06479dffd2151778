//! The keys under which the engine's own records of a tenant lie, where they are sealed.

use crate::platform::Platform;
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Destroys the key that the engine's own records of a tenant are sealed with; from then on nobody reads them.
///
/// Safe to run twice: a key that is gone stays gone, and is named again. Nothing undoes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DestroyRecordKey {
    /// Whose.
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
