//! Batches: the same command for many executions. A batch is previewed, bound to the preview, and then applied one by
//! one.
//!
//! A batch is a document, and so is each of its items. The commit that changes an execution also writes its item and
//! counts it, on the condition that it was not counted before. So a crash repeats nothing and skips nothing.
//! `runner.rs` applies the commands.

mod query;
pub(crate) mod record;
mod request;
mod runner;

pub use record::{BATCH_LIMIT, BATCH_RATE_LIMIT, Batch, BatchItem, BatchResult, BatchVerb};
pub use request::{BATCH_CAP, BATCH_RATE, BatchError, BatchPreview, BatchRequest};
pub use runner::Batches;
