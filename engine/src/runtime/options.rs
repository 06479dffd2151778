//! How an engine works: its name, its concurrency, its leases, and what it injects in tests.

use crate::Separation;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How an engine works. Start from `Options::default()`.
#[derive(Clone)]
pub struct Options {
    /// Names this process in leases and logs.
    pub holder: String,
    /// Tasks worked on at once. Default 64.
    pub concurrency: usize,
    /// How long a lease lasts unless renewed; renewed at a third. Default 30 s.
    pub lease: Duration,
    /// After this many deliveries without a result a task is poison. Default 8.
    pub poison_after: u32,
    /// How long a graceful stop waits for work in flight. Default 10 s.
    pub drain: Duration,
    /// How long a decision on documents waits for its turn, and is taken again when other servers commit between. Default 30 s.
    pub patience: Duration,
    /// How long an event for an execution that only another version can read waits for an engine of that version to take it.
    /// Default `None`: there is no other engine, and it is refused at once.
    pub relay: Option<Duration>,
    /// The commands that take effect only when a second person agrees, as [`command_name`](crate::command_name) names them.
    pub second_person: BTreeSet<String>,
    /// Whether votes count that are not those of another person. Default: they do not.
    pub separation: Separation,
    /// Sees every attempt and may bend it; for fault sweeps.
    pub fault_injector: Option<Arc<dyn crate::FaultInjector>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            holder: format!("engine-{}", std::process::id()),
            concurrency: 64,
            lease: Duration::from_secs(30),
            poison_after: 8,
            drain: Duration::from_secs(10),
            patience: Duration::from_secs(30),
            relay: None,
            second_person: BTreeSet::new(),
            separation: Separation::default(),
            fault_injector: None,
        }
    }
}
