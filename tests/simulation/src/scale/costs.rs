//! The inputs of the model. `docs/evidence/scale.md` has the same table; `cargo bench -p tests --bench capacity` measures them.

use std::time::Duration;

/// The costs of the database and of a node. Processor times are microseconds of one processor of the measured speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// `p`: processors of the database's machine.
    pub processors: u64,
    /// `d`: a round trip between a node and the database, in microseconds.
    pub round_trip: u64,
    /// `y`: a sync of the database's log, in microseconds; a transaction that comes meanwhile shares the next one.
    pub sync: u64,
    /// `y_commit`: the additional time for each commit in it, for writing its log.
    pub sync_commit: u64,
    /// `r`: round trips of a batch, from start to end.
    pub round_trips: u64,
    /// `s_batch`: the server's work for each batch.
    pub server_batch: u64,
    /// `s_commit`: the server's work for each commit in it.
    pub server_commit: u64,
    /// `c_batch`: the process's work for each batch.
    pub node_batch: u64,
    /// `c_commit`: the process's work for each commit in it.
    pub node_commit: u64,
    /// `f`: the part of a process's work on a batch that it does with the lock, in hundredths.
    pub locked: u64,
    /// `l_look`: the server's work for a query of due tasks, whatever their tenant.
    pub look: u64,
    /// `l_tenant`: the same, for each tenant with tasks.
    pub look_tenant: u64,
    /// `l_row`: the same, for each found row, in nanoseconds.
    pub look_row: u64,
    /// `c_row`: the process's work for each of those rows, in nanoseconds.
    pub node_row: u64,
    /// `l_take`: the server's work for leasing the found tasks.
    pub take: u64,
    /// `l_task`: the same, for each task.
    pub take_task: u64,
    /// `l_renew`: the server's work for extending a lease.
    pub renew: u64,
    /// `l_next`: the server's work for returning the next due time.
    pub next: u64,
    /// `l_load`: the server's work for reading a record.
    pub load: u64,
    /// `l_told`: the server's work for each listener of each notification.
    pub told: u64,
    /// `q_idle`: a node's other requests, in round trips a second.
    pub idle: u64,
    /// `l_idle`: the server's work for each of those.
    pub idle_each: u64,
    /// True if nodes and database share the processors.
    pub shared: bool,
}

impl Costs {
    /// The measured machine: 2 processors for the database and all processes, without a network.
    #[must_use]
    pub fn measured() -> Self {
        Self {
            processors: 2,
            round_trip: 20,
            sync: 86,
            sync_commit: 35,
            round_trips: 12,
            server_batch: 1_726,
            server_commit: 62,
            node_batch: 426,
            node_commit: 19,
            locked: 50,
            look: 180,
            look_tenant: 6,
            look_row: 350,
            node_row: 1_000,
            take: 450,
            take_task: 25,
            renew: 165,
            next: 46,
            load: 42,
            told: 40,
            idle: 7,
            idle_each: 60,
            shared: true,
        }
    }

    /// A database with 32 such processors, half a millisecond away, that syncs in half a millisecond and writes 500 MB of log
    /// a second. The other costs are the measured ones.
    #[must_use]
    pub fn large() -> Self {
        Self { processors: 32, round_trip: 500, sync: 500, sync_commit: 6, shared: false, ..Self::measured() }
    }
}

/// The term of a lease: `engine.lease`.
pub const LEASE: Duration = Duration::from_secs(30);
/// Tasks that a node works on at once: `engine.concurrency`.
pub const PLACES: usize = 64;
/// The maximum number of commits in a batch.
pub const BATCH: usize = 512;
/// How long the database allows an idle transaction.
pub const STANDSTILL: Duration = Duration::from_secs(3);
/// The interval of a node's heartbeats.
pub const BEAT: Duration = Duration::from_secs(5);
