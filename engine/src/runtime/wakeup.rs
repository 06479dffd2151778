//! Wakes the dispatcher when something falls due before it would look by itself.

use std::sync::atomic::{AtomicU64, Ordering};
use store::Timestamp;
use tokio::sync::Notify;

/// The dispatcher's bell.
#[derive(Debug)]
pub(crate) struct Wakeup {
    signal: Notify,
    /// When it looks by itself; while it is looking, everything comes before that.
    until: AtomicU64,
}

impl Default for Wakeup {
    fn default() -> Self {
        Self { signal: Notify::new(), until: AtomicU64::new(u64::MAX) }
    }
}

impl Wakeup {
    /// Rings, whatever is due. Kept if nobody waits: the dispatcher may be between looking and waiting.
    pub(crate) fn notify(&self) {
        self.signal.notify_one();
    }

    /// Rings if something falls due at one of these moments before the dispatcher looks by itself.
    pub(crate) fn notify_before(&self, moments: impl IntoIterator<Item = Timestamp>) {
        let until = self.until.load(Ordering::SeqCst);
        if moments.into_iter().any(|at| at.0 < until) {
            self.notify();
        }
    }

    /// Until [`Wakeup::sleep_until`] the dispatcher wants to hear of everything: it may have looked already where something is put next.
    pub(crate) fn start_looking(&self) {
        self.until.store(u64::MAX, Ordering::SeqCst);
    }

    /// The dispatcher has found nothing that is due before `until`.
    pub(crate) fn sleep_until(&self, until: Timestamp) {
        self.until.store(until.0, Ordering::SeqCst);
    }

    /// When it rings, or has rung since it was last waited for.
    pub(crate) async fn notified(&self) {
        self.signal.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn was_notified(due: &Wakeup) -> bool {
        tokio::select! {
            biased;
            () = due.notified() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn it_rings_for_what_falls_due_before_the_dispatcher_looks_by_itself_and_for_all_while_it_looks() {
        let due = Wakeup::default();
        due.notify_before([Timestamp(900)]);
        assert!(was_notified(&due).await, "nobody has looked yet");
        due.start_looking();
        due.notify_before([Timestamp(900)]);
        due.sleep_until(Timestamp(500));
        assert!(was_notified(&due).await, "it came while the dispatcher was looking");

        due.notify_before([Timestamp(900), Timestamp(500)]);
        due.notify_before([]);
        assert!(!was_notified(&due).await);
        due.notify_before([Timestamp(900), Timestamp(499)]);
        assert!(was_notified(&due).await);
    }
}
