//! The state that the tasks of a process share.

use super::{PostgresOptions, fair_queue::FairQueue};
use sqlx::PgPool;
use std::sync::{
    Mutex,
    atomic::{AtomicI64, AtomicU64},
};
use tokio::sync::Notify;
use uuid::Uuid;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) pool: PgPool,
    pub(super) options: PostgresOptions,
    /// The entry of this process.
    pub(super) id: Uuid,
    pub(super) fair_queue: Mutex<FairQueue>,
    /// Wakes callers that wait for work of another process.
    pub(super) notifications: Notify,
    /// The lineage of the database's history.
    pub(super) lineage: Uuid,
    /// The last commit seen by this process, or by an earlier one with the same file.
    pub(super) seen: AtomicU64,
    /// The newest partition of the history known to this process; -1 for none.
    pub(super) parts: AtomicI64,
    /// Where the database was when this process looked last.
    pub(super) location: Mutex<String>,
    pub(super) counters: Counters,
}

/// The counters of this process since it was opened.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) commits: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) retries: AtomicU64,
}

impl Shared {
    /// Returns the channel for notifications of work.
    pub(super) fn channel(&self) -> String {
        format!("tenure_{}", self.options.schema)
    }
}
