//! A fair lock: the caller with the lowest ticket goes next, and a caller that tries again keeps its ticket.
//!
//! Invariant: each line has at most one [`Turn`], and a turn whose caller has gone passes to the next caller.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// A line of callers that use a value one after the other.
pub(crate) struct Line<T> {
    state: Mutex<State<T>>,
    value: Mutex<T>,
}

struct State<T> {
    /// True if a caller has the turn.
    taken: bool,
    waiting: BTreeMap<u64, oneshot::Sender<Turn<T>>>,
    tickets: u64,
}

/// The right to use the value of a line. Dropping it passes it to the next caller.
pub(crate) struct Turn<T> {
    line: Arc<Line<T>>,
    /// True if the turn has passed to another caller.
    passed: bool,
}

/// A waiting place in a line.
pub(crate) type Promise<T> = oneshot::Receiver<Turn<T>>;

impl<T> Line<T> {
    /// Creates a line for an unused value.
    pub(crate) fn new(value: T) -> Arc<Self> {
        let state = State { taken: false, waiting: BTreeMap::new(), tickets: 0 };
        Arc::new(Self { state: Mutex::new(state), value: Mutex::new(value) })
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a ticket behind all earlier ones.
    pub(crate) fn ticket(&self) -> u64 {
        let mut state = self.state();
        state.tickets = state.tickets.saturating_add(1);
        state.tickets
    }

    /// Waits in the line with `ticket`. No other caller may use the same ticket at the same time.
    pub(crate) fn wait(self: &Arc<Self>, ticket: u64) -> Promise<T> {
        let (sender, promise) = oneshot::channel();
        let mut state = self.state();
        if state.taken {
            state.waiting.insert(ticket, sender);
            return promise;
        }
        state.taken = true;
        drop(state);
        // The receiver exists, so the turn arrives.
        drop(sender.send(Turn { line: self.clone(), passed: false }));
        promise
    }

    /// Returns true if no caller has the turn at this moment.
    pub(crate) fn is_free(&self) -> bool {
        !self.state().taken
    }

    /// Returns the number of waiting callers. Some of them may have gone.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }
}

impl<T> Turn<T> {
    /// Returns its line.
    pub(crate) fn line(&self) -> &Arc<Line<T>> {
        &self.line
    }

    /// Returns the value. The guard must not be held across an await.
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
                // The caller has gone. The lock is held here, so its turn must not pass itself on.
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
        // It arrives last, but has the lowest ticket.
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
    async fn a_cancelled_caller_blocks_no_other() {
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
