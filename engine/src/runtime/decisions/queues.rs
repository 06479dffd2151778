//! The queues of a process, by the document that their decisions change.
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

/// When so many queues are named, those that no caller uses are forgotten.
const MOST_NAMED: usize = 256;

/// The queues of this process, by the name of what they are before, such as `document cohorts/acme`.
#[derive(Clone, Default)]
pub(crate) struct Queues(Arc<Mutex<HashMap<String, Weak<Line<Batch>>>>>);

/// A caller's place in a queue.
pub(crate) struct Place {
    pub(crate) what: String,
    pub(crate) line: Arc<Line<Batch>>,
    pub(crate) ticket: u64,
    /// The turn that a decision which has to be taken again already waits for.
    pub(crate) next: Option<Promise<Batch>>,
}

/// The name of the queue before a document; stores name what has changed the same way.
pub(crate) fn name_of(key: &Key) -> String {
    format!("document {key}")
}

impl Queues {
    /// A place at the end of the queue before `what`.
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

    /// The first of `keys` that callers queue for.
    pub(crate) fn busy<'a>(&self, mut keys: impl Iterator<Item = &'a Key>) -> Option<String> {
        let queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queues.is_empty() {
            return None;
        }
        let is_busy = |what: &String| queues.get(what).is_some_and(|line| line.strong_count() > 0);
        keys.find_map(|key| Some(name_of(key)).filter(is_busy))
    }
}
