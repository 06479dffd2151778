//! The same command to many executions: looked at first, bound to what was seen, and then given one by one.
//!
//! A batch is a document, and so is each of its items. The commit that changes an execution is the one that writes its
//! item and counts it, on the condition that nobody has counted it before: a crash at any moment repeats nothing and
//! leaves nothing out. `runner.rs` gives the commands.

mod query;
pub(crate) mod record;
mod request;
mod runner;

pub use record::{BATCH_LIMIT, BATCH_RATE_LIMIT, Batch, BatchItem, BatchResult, BatchVerb};
pub use request::{BATCH_CAP, BATCH_RATE, BatchError, BatchPreview, BatchRequest};
pub use runner::Batches;
