//! The state of a store, for `/readyz` and `/metrics`.

use crate::{Histogram, Hold, Sequence};

/// The state of a store, for `/readyz` and `/metrics`. Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// False when commits are refused or late; `problem` says why.
    pub writable: bool,
    /// The problem and the remedy, or `None`.
    pub problem: Option<String>,
    /// Commits so far.
    pub sequence: Sequence,
    /// Content: keys and values as last written.
    pub live_bytes: u64,
    /// Everything in the store's folder.
    pub disk_bytes: u64,
    /// Bytes sent to the device since the store was opened, for the journal and checkpoints.
    pub written_bytes: u64,
    /// Device syncs of the journal since the store was opened.
    pub syncs: u64,
    /// Commits since the store was opened, so that `commits / syncs` is the mean group.
    pub commits: u64,
    /// The number of retries since the store was opened, because the database refused something.
    pub retries: u64,
    /// Commits that the index has not applied yet.
    pub index_lag: u64,
    /// Tasks waiting or leased.
    pub tasks: u64,
    /// The hold, while no work is leased.
    pub hold: Option<Hold>,
    /// Free bytes of the volume of the store's folder, if there is one and they are known.
    pub free_bytes: Option<u64>,
    /// Commits that were made durable with one sync. Without bounds if unknown.
    pub groups: Histogram,
    /// How long the device took for a write and its sync, in seconds. Without bounds if unknown.
    pub sync_seconds: Histogram,
}
