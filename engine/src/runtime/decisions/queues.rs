//! The decision queues of a process, one for each contended document.
//!
//! Invariant: a queue lives as long as a caller has a place in it.

use super::{
    batch::Batch,
    turn::{Line, Promise},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use store::Key;

/// At this number of queues, the unused ones are removed.
const MOST_NAMED: usize = 256;

/// The queues of this process, by the name of their document, such as `document cohorts/acme`.
#[derive(Clone, Default)]
pub(crate) struct Queues(Arc<Mutex<HashMap<String, Weak<Line<Batch>>>>>);

/// A caller's place in a queue.
pub(crate) struct Place {
    pub(crate) what: String,
    pub(crate) line: Arc<Line<Batch>>,
    pub(crate) ticket: u64,
    /// The turn that a repeated decision already waits for.
    pub(crate) next: Option<Promise<Batch>>,
}

/// Returns the name of a document's queue. Conflict errors of stores use the same name.
pub(crate) fn name_of(key: &Key) -> String {
    format!("document {key}")
}

impl Queues {
    /// Returns a place at the end of the queue for `what`.
    pub(crate) fn join(&self, what: String) -> Place {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = match queues.get(&what).and_then(Weak::upgrade) {
            Some(line) => line,
            None => {
                if queues.len() >= MOST_NAMED {
                    queues.retain(|_, line| line.strong_count() > 0);
                }
                let line = Line::new(Batch::default());
                queues.insert(what.clone(), Arc::downgrade(&line));
                line
            }
        };
        drop(queues);
        let ticket = line.ticket();
        Place { what, line, ticket, next: None }
    }

    /// Returns the first of `keys` that has waiting callers.
    pub(crate) fn busy<'a>(&self, mut keys: impl Iterator<Item = &'a Key>) -> Option<String> {
        let queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queues.is_empty() {
            return None;
        }
        let is_busy = |what: &String| queues.get(what).is_some_and(|line| line.strong_count() > 0);
        keys.find_map(|key| Some(name_of(key)).filter(is_busy))
    }
}
