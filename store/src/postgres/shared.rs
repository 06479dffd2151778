//! What the tasks of a process share.

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
    /// This process among those that write.
    pub(super) id: Uuid,
    pub(super) fair_queue: Mutex<FairQueue>,
    /// Wakes callers that wait for work of another process.
    pub(super) notifications: Notify,
    /// Which history the database holds.
    pub(super) lineage: Uuid,
    /// The last commit that this process, or one here before it, has seen there.
    pub(super) seen: AtomicU64,
    /// The newest part of the history that this process knows to be there; -1 while it knows of none.
    pub(super) parts: AtomicI64,
    /// Where the database was when this process looked last.
    pub(super) location: Mutex<String>,
    pub(super) counters: Counters,
}

/// What this process has done since it was opened.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) commits: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) retries: AtomicU64,
}

impl Shared {
    /// Where those who wait for work are told of it.
    pub(super) fn channel(&self) -> String {
        format!("tenure_{}", self.options.schema)
    }
}
