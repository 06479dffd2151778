//! A fair lock: the caller with the lowest ticket goes next, and a caller that has to try again keeps its ticket.
//!
//! Invariant: at most one [`Turn`] exists per line, and a turn that its caller no longer wants passes to the next caller.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// Callers that take turns at a value.
pub(crate) struct Line<T> {
    state: Mutex<State<T>>,
    value: Mutex<T>,
}

struct State<T> {
    /// Whether a caller has the turn.
    taken: bool,
    waiting: BTreeMap<u64, oneshot::Sender<Turn<T>>>,
    tickets: u64,
}

/// The right to use the value of a line. Dropping it passes it to the next caller.
pub(crate) struct Turn<T> {
    line: Arc<Line<T>>,
    /// The turn is another's by now.
    passed: bool,
}

/// A place in a line, on its way to a turn.
pub(crate) type Promise<T> = oneshot::Receiver<Turn<T>>;

impl<T> Line<T> {
    /// A line before a value that no caller uses yet.
    pub(crate) fn new(value: T) -> Arc<Self> {
        let state = State { taken: false, waiting: BTreeMap::new(), tickets: 0 };
        Arc::new(Self { state: Mutex::new(state), value: Mutex::new(value) })
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ticket behind all that were given out before.
    pub(crate) fn ticket(&self) -> u64 {
        let mut state = self.state();
        state.tickets = state.tickets.saturating_add(1);
        state.tickets
    }

    /// Waits in the line with `ticket`, which no other caller may wait with at the same time.
    pub(crate) fn wait(self: &Arc<Self>, ticket: u64) -> Promise<T> {
        let (sender, promise) = oneshot::channel();
        let mut state = self.state();
        if state.taken {
            state.waiting.insert(ticket, sender);
            return promise;
        }
        state.taken = true;
        drop(state);
        // The receiver is at hand, so the turn arrives.
        drop(sender.send(Turn { line: self.clone(), passed: false }));
        promise
    }

    /// Returns true if no caller has the turn at this moment.
    pub(crate) fn is_free(&self) -> bool {
        !self.state().taken
    }

    /// How many callers wait. Some of them may have gone.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }
}

impl<T> Turn<T> {
    /// The line that it is of.
    pub(crate) fn line(&self) -> &Arc<Line<T>> {
        &self.line
    }

    /// The value, for as long as nothing is waited for.
    pub(crate) fn value(&self) -> MutexGuard<'_, T> {
        self.line.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Turn<T> {
    fn drop(&mut self) {
        if self.passed {
            return;
        }
        let mut state = self.line.state();
        while let Some((_, next)) = state.waiting.pop_first() {
            match next.send(Self { line: self.line.clone(), passed: false }) {
                Ok(()) => return,
                // That caller has gone. The lock is held here, so this one must not look for the next itself.
                Err(mut unwanted) => unwanted.passed = true,
            }
        }
        state.taken = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn callers_have_their_turns_in_the_order_of_their_tickets() {
        let line = Line::new(Vec::new());
        let first = line.wait(line.ticket()).await.unwrap();
        let again = line.ticket();
        let later: Vec<_> = (0..3).map(|_| line.wait(line.ticket())).collect();
        // It waits last, and comes first.
        let again = line.wait(again);
        assert_eq!(line.waiting(), 4);

        drop(first);
        let turn = again.await.unwrap();
        turn.value().push(0);
        drop(turn);
        for (n, next) in later.into_iter().enumerate() {
            let turn = next.await.unwrap();
            turn.value().push(n + 1);
        }

        assert_eq!(*line.wait(line.ticket()).await.unwrap().value(), [0, 1, 2, 3]);
    }

    #[tokio::test]
    async fn a_caller_that_has_gone_stops_no_other() {
        let line = Line::new(());
        let first = line.wait(line.ticket()).await.unwrap();
        let (gone, next) = (line.wait(line.ticket()), line.wait(line.ticket()));
        drop(gone);
        drop(first);

        drop(next.await.unwrap());
        drop(line.wait(line.ticket()));
        drop(line.wait(line.ticket()).await.unwrap());
    }
}
