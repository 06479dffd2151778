//! The ledger as a plain map: decisions run through a view and are applied at once, without a store.

pub mod account;

use crate::actions::calls::Calls;
use engine::{ActionError, Call, Entity, LedgerAction, Undecided, View};
use std::collections::BTreeMap;
use store::{Document, ExecutionId, Key, Put, Read, Sequence, Timestamp};
use workflows::fleet::{import_nodes, import_sites, parse_nodes, parse_sites};

/// Documents, and a clock.
#[derive(Clone, Debug, Default)]
pub struct Books {
    documents: BTreeMap<Key, Document>,
    sequence: u64,
    /// The time of the next decision.
    pub now: Timestamp,
}

impl Books {
    /// Decides until all its reads are complete. Returns the reads and the planned writes, and writes nothing.
    pub fn weigh<T>(
        &self,
        mut decide: impl FnMut(&mut View) -> Result<T, Undecided>,
    ) -> Result<(T, Vec<Read>, Vec<Put>), ActionError> {
        let mut known: BTreeMap<Key, Option<Document>> = BTreeMap::new();
        loop {
            let mut view = View::new(self.now, known.clone());
            match decide(&mut view) {
                Ok(output) => {
                    let (reads, puts) = view.into_changes();
                    return Ok((output, reads, puts));
                }
                Err(Undecided::Failed(error)) => return Err(error),
                Err(Undecided::Needs(keys)) => {
                    known
                        .extend(keys.into_iter().map(|key| (key.clone(), self.documents.get(&key).cloned())));
                }
            }
        }
    }

    /// Decides and applies.
    pub fn decide<T>(
        &mut self,
        decide: impl FnMut(&mut View) -> Result<T, Undecided>,
    ) -> Result<T, ActionError> {
        let (output, _, puts) = self.weigh(decide)?;
        self.apply(puts);
        Ok(output)
    }

    /// Decides an action and applies its writes.
    pub fn act<A: LedgerAction>(&mut self, action: &A, call: &Call) -> Result<A::Output, ActionError> {
        self.decide(|view| action.decide(view, call))
    }

    /// Returns true if a decision with these reads could still be committed.
    #[must_use]
    pub fn holds(&self, reads: &[Read]) -> bool {
        reads
            .iter()
            .all(|read| self.documents.get(&read.key).map(|document| document.version) == read.version)
    }

    /// Writes the decision's documents.
    pub fn apply(&mut self, puts: Vec<Put>) {
        self.sequence += 1;
        for put in puts {
            match put.body {
                Some(body) => {
                    let document = Document { key: put.key.clone(), version: Sequence(self.sequence), body };
                    self.documents.insert(put.key, document);
                }
                None => drop(self.documents.remove(&put.key)),
            }
        }
    }

    /// Every document of a kind.
    ///
    /// # Panics
    /// If one cannot be read.
    #[must_use]
    pub fn all<T: Entity>(&self) -> Vec<T> {
        let of_kind = self.documents.values().filter(|document| document.key.collection == T::COLLECTION);
        of_kind.map(|document| serde_json::from_slice(&document.body).unwrap()).collect()
    }

    /// The document `id`, if there is one.
    #[must_use]
    pub fn find<T: Entity>(&self, id: &str) -> Option<T> {
        self.all::<T>().into_iter().find(|entity| entity.id() == id)
    }

    /// Returns the size of the longest body, in bytes.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.documents.values().map(|document| document.body.len()).max().unwrap_or(0)
    }

    /// Returns every document as a write, to fill a store.
    #[must_use]
    pub fn puts(&self) -> Vec<Put> {
        let put = |document: &Document| Put { key: document.key.clone(), body: Some(document.body.clone()) };
        self.documents.values().map(put).collect()
    }

    /// A fleet as operators would import it: sites as YAML, and nodes as CSV rows by cluster.
    ///
    /// # Panics
    /// If it is not well-formed.
    #[must_use]
    pub fn with_fleet(sites: &str, nodes: &[(&str, &str, &str)]) -> Self {
        let mut books = Self::default();
        let sites = parse_sites(sites).unwrap();
        books.decide(|view| import_sites(view, &sites)).unwrap();
        for (cluster, region, rows) in nodes {
            let rows = parse_nodes(&format!("sn,cpu_milli,memory_mib,gpu,model\n{rows}")).unwrap();
            let (cluster, region) = (cluster.parse().unwrap(), region.parse().unwrap());
            books.decide(|view| import_nodes(view, &rows, &cluster, &region)).unwrap();
        }
        books
    }
}

/// Rows for `count` nodes with `gpus` GPUs each.
#[must_use]
pub fn rows(prefix: &str, count: u32, gpus: u32, model: &str) -> String {
    (0..count).map(|n| format!("{prefix}-{n:04},64000,262144,{gpus},{model}\n")).collect()
}

/// Calls on behalf of different executions.
#[derive(Debug)]
pub struct Executions {
    calls: Calls,
}

impl Executions {
    /// From an engine.
    pub async fn new() -> Self {
        Self { calls: Calls::new().await }
    }

    /// A call of the `n`th execution.
    #[must_use]
    pub fn call(&self, n: u8) -> Call {
        let mut call = self.calls.at("State", false, 1);
        call.execution = ExecutionId::from_bytes([n; 16]);
        call
    }
}
