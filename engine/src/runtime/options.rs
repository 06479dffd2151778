//! The options of an engine: its name, its concurrency, its leases, and faults for tests.

use crate::Separation;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// The options of an engine. Start from `Options::default()`.
#[derive(Clone)]
pub struct Options {
    /// The name of this process in leases and logs.
    pub holder: String,
    /// The most concurrent tasks. Default 64.
    pub concurrency: usize,
    /// The length of a lease. It is renewed after a third. Default 30 s.
    pub lease: Duration,
    /// The number of deliveries without a result after which a task is poisoned. Default 8.
    pub poison_after: u32,
    /// How long a graceful stop waits for running work. Default 10 s.
    pub drain: Duration,
    /// How long a decision on documents waits for its turn and is repeated after conflicts with other servers.
    /// Default 30 s.
    pub patience: Duration,
    /// How long an event waits for an engine of another version, if only that version can read the execution. Default
    /// `None`: there is no such engine, and the event is refused at once.
    pub relay: Option<Duration>,
    /// The commands that need a second person, by their [`command_name`](crate::command_name).
    pub second_person: BTreeSet<String>,
    /// How strictly votes must come from separate people. Default: enforced.
    pub separation: Separation,
    /// Observes every attempt and may inject faults; for fault sweeps.
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
