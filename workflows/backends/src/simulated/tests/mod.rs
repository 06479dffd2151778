//! Tests of the simulated platform with a tenant's account.

mod slices;

use engine::{ActionError, Undecided, View};
use std::collections::BTreeMap;
use store::{Document, Key, Put, Sequence, Timestamp};

/// Documents in a map, without a store.
#[derive(Default)]
struct Books {
    documents: BTreeMap<Key, Document>,
    sequence: u64,
}

impl Books {
    pub(super) fn decide<T>(
        &mut self,
        now: Timestamp,
        mut decide: impl FnMut(&mut View) -> Result<T, Undecided>,
    ) -> Result<T, ActionError> {
        let mut known: BTreeMap<Key, Option<Document>> = BTreeMap::new();
        loop {
            let mut view = View::new(now, known.clone());
            match decide(&mut view) {
                Ok(output) => {
                    let (_, puts) = view.into_changes();
                    puts.into_iter().for_each(|put| self.apply(put));
                    return Ok(output);
                }
                Err(Undecided::Failed(error)) => return Err(error),
                Err(Undecided::Needs(keys)) => {
                    let found = |key: Key| (key.clone(), self.documents.get(&key).cloned());
                    known.extend(keys.into_iter().map(found));
                }
            }
        }
    }

    fn apply(&mut self, put: Put) {
        self.sequence += 1;
        match put.body {
            Some(body) => {
                let document = Document { key: put.key.clone(), version: Sequence(self.sequence), body };
                self.documents.insert(put.key, document);
            }
            None => drop(self.documents.remove(&put.key)),
        }
    }

    pub(super) fn all<T: engine::Entity>(&self) -> Vec<T> {
        let of_kind = self.documents.values().filter(|document| document.key.collection == T::COLLECTION);
        of_kind.map(|document| serde_json::from_slice(&document.body).unwrap()).collect()
    }
}
