//! What an execution is begun with, by whoever asks for it: another version of this program, perhaps.

use crate::{Error, Workflow};
use serde_json::Value;
use store::ExecutionId;

/// What an execution is begun with: data as a schema has them, which may not be that of whoever begins it.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) schema: u32,
    pub(crate) data: Value,
}

impl Given {
    /// The data as `W` has them, for the execution `id`.
    pub(crate) fn read<W: Workflow>(self, id: ExecutionId) -> Result<W, Error> {
        let unreadable = |why: String| Error::Unreadable { id, why };
        if self.schema > W::SCHEMA {
            return Err(Error::NoWorker { workflow: W::NAME.into(), schema: self.schema });
        }
        let data = if self.schema < W::SCHEMA {
            W::upgrade(self.schema, self.data).map_err(|e| unreadable(e.to_string()))?
        } else {
            self.data
        };
        serde_json::from_value(data).map_err(|e| unreadable(e.to_string()))
    }
}
