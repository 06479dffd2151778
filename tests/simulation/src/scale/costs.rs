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
    /// `y_commit`: how much longer that takes for each commit in it: its log has to be written as well.
    pub sync_commit: u64,
    /// `r`: round trips of a batch, from its beginning to its end.
    pub round_trips: u64,
    /// `s_batch`: of the server, each batch.
    pub server_batch: u64,
    /// `s_commit`: of the server, each commit in it.
    pub server_commit: u64,
    /// `c_batch`: of the process, each batch.
    pub node_batch: u64,
    /// `c_commit`: of the process, each commit in it.
    pub node_commit: u64,
    /// `f`: the part of a process's work on a batch that it does with the lock, in hundredths.
    pub locked: u64,
    /// `l_look`: the server's work for a query of due tasks, whatever their tenant.
    pub look: u64,
    /// `l_tenant`: the same, each tenant that has tasks.
    pub look_tenant: u64,
    /// `l_row`: the same, each row that is found, in nanoseconds.
    pub look_row: u64,
    /// `c_row`: of the process, each of those rows, in nanoseconds.
    pub node_row: u64,
    /// `l_take`: of the server, taking what was found.
    pub take: u64,
    /// `l_task`: the same, each task.
    pub take_task: u64,
    /// `l_renew`: of the server, prolonging one lease.
    pub renew: u64,
    /// `l_next`: of the server, saying when something is due next.
    pub next: u64,
    /// `l_load`: of the server, reading one record.
    pub load: u64,
    /// `l_told`: of the server, each listener of each notification.
    pub told: u64,
    /// `q_idle`: what a node asks beside its work, round trips a second.
    pub idle: u64,
    /// `l_idle`: of the server, each of those.
    pub idle_each: u64,
    /// True if nodes and database share the processors.
    pub shared: bool,
}

impl Costs {
    /// The machine on which everything was measured: 2 processors for the database and all processes, no network between them.
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

/// How long a lease lasts: `engine.lease`.
pub const LEASE: Duration = Duration::from_secs(30);
/// Tasks that a node works on at once: `engine.concurrency`.
pub const PLACES: usize = 64;
/// Commits of a batch at the most.
pub const BATCH: usize = 512;
/// How long the database allows an idle transaction.
pub const STANDSTILL: Duration = Duration::from_secs(3);
/// How often a node says that it lives.
pub const BEAT: Duration = Duration::from_secs(5);
