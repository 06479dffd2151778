//! Merges the workloads of many workspaces in the order of preemption.

use crate::scheduling::planner::{
    model::{
        cohort_tree::NodeIx,
        snapshot::{Key, LoadIx, RunningLoad},
    },
    preemption::preemptor::Preemptor,
};
use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, btree_set},
    iter::Peekable,
};

/// A workspace whose workloads are candidates.
#[derive(Clone, Copy, Debug)]
pub(in crate::scheduling::planner) struct Source {
    pub(in crate::scheduling::planner) node: NodeIx,
    /// The lowest cohort shared with the demand; `None` for the demand's own workspace.
    pub(in crate::scheduling::planner) common: Option<NodeIx>,
}

struct Stream<'a> {
    head: &'a Key,
    rest: btree_set::Iter<'a, Key>,
    source: Source,
}

impl Ord for Stream<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.head.cmp(other.head)
    }
}

impl PartialOrd for Stream<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Stream<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Stream<'_> {}

/// The workloads of several workspaces that use a contested kind, in order. Skips the rest of a workspace once policy protects all of it.
pub(in crate::scheduling::planner) struct Merge<'a, 'b> {
    ask: &'b Preemptor<'a>,
    heap: BinaryHeap<Reverse<Stream<'a>>>,
    last: Option<LoadIx>,
    /// True if workloads protected by policy or a filter are skipped.
    free_to_go: bool,
}

impl<'a, 'b> Merge<'a, 'b> {
    pub(in crate::scheduling::planner) fn new(ask: &'b Preemptor<'a>, sources: &[Source]) -> Self {
        let streams = sources.iter().flat_map(|source| streams(ask, *source));
        Self { ask, heap: streams.map(Reverse).collect(), last: None, free_to_go: false }
    }

    /// Creates a merge of the workloads that neither policy nor a filter protects.
    pub(in crate::scheduling::planner) fn free_to_go(ask: &'b Preemptor<'a>, sources: &[Source]) -> Self {
        Self { free_to_go: true, ..Self::new(ask, sources) }
    }
}

fn streams<'a>(ask: &Preemptor<'a>, source: Source) -> impl Iterator<Item = Stream<'a>> {
    let snapshot = ask.snapshot;
    ask.contested.iter().filter_map(move |kind| {
        let mut rest = snapshot.running(source.node, *kind)?.iter();
        Some(Stream { head: rest.next()?, rest, source })
    })
}

impl<'a> Iterator for Merge<'a, '_> {
    type Item = (&'a RunningLoad, Source);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Reverse(mut stream) = self.heap.pop()?;
            let (key, source) = (stream.head, stream.source);
            if self.ask.exhausted(source.common.is_none(), key) {
                continue;
            }
            if let Some(head) = stream.rest.next() {
                stream.head = head;
                self.heap.push(Reverse(stream));
            }
            // A workload with several contested kinds appears once for each, in sequence.
            if self.last.replace(key.load) != Some(key.load)
                && let Some(load) = self.ask.snapshot.load(key.load)
                && (!self.free_to_go || (self.ask.allowed(load) && self.ask.filter(load).is_none()))
            {
                return Some((load, source));
            }
        }
    }
}

/// A merge whose next item can be peeked.
pub(in crate::scheduling::planner) type Queue<'a, 'b> = Peekable<Merge<'a, 'b>>;

/// Returns true if any workload of these workspaces may be preempted.
pub(in crate::scheduling::planner) fn any(ask: &Preemptor<'_>, sources: &[Source]) -> bool {
    sources.iter().any(|source| Merge::free_to_go(ask, std::slice::from_ref(source)).next().is_some())
}
