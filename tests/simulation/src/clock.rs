//! The clock of one node: simulated time, and this node's offset.

use engine::{BoxFuture, Clock};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use store::Timestamp;
use tokio::time::Instant;

/// The start of every simulation: 2026-01-01T00:00:00Z, in milliseconds.
pub const BEGIN: u64 = 1_767_225_600_000;

/// Simulated time as one node sees it.
#[derive(Debug)]
pub struct NodeClock {
    began: Instant,
    /// Milliseconds ahead of simulated time; negative when behind.
    off: AtomicI64,
    made: AtomicU64,
    node: u8,
}

impl NodeClock {
    /// A correct clock.
    #[must_use]
    pub fn new(node: u8, began: Instant) -> Self {
        Self { began, off: AtomicI64::new(0), made: AtomicU64::new(0), node }
    }

    /// Sets the offset of the clock in milliseconds.
    pub fn set_off(&self, by: i64) {
        self.off.store(by, Ordering::SeqCst);
    }
}

/// Returns the simulated time.
#[must_use]
pub fn truth(began: Instant) -> Timestamp {
    Timestamp(BEGIN + u64::try_from(began.elapsed().as_millis()).unwrap())
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        Timestamp(truth(self.began).0.saturating_add_signed(self.off.load(Ordering::SeqCst)))
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(at.since(self.now())))
    }

    fn entropy(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[0] = self.node;
        bytes[2..].copy_from_slice(&self.made.fetch_add(1, Ordering::SeqCst).to_be_bytes());
        bytes
    }
}
