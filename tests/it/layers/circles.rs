//! Cycles of a graph: its strongly connected components of more than one node.

use std::collections::{BTreeMap, BTreeSet};

/// Returns the cycles, the largest first.
pub(super) fn circles<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<BTreeSet<&'a str>> {
    let mut left: BTreeSet<&str> = graph.keys().copied().collect();
    let mut backwards: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in graph.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to))) {
        backwards.entry(to).or_default().insert(from);
    }
    let mut found = Vec::new();
    while let Some(node) = left.pop_first() {
        let ahead = reached(graph, node);
        let circle: BTreeSet<_> = reached(&backwards, node).intersection(&ahead).copied().collect();
        left.retain(|other| !circle.contains(other));
        found.push(circle);
    }
    found.retain(|circle| circle.len() > 1);
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

fn reached<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        for next in graph.get(node).into_iter().flatten() {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    seen
}

#[test]
fn a_cycle_is_found_and_a_chain_is_accepted() {
    let graph = BTreeMap::from([
        ("a", BTreeSet::from(["b"])),
        ("b", BTreeSet::from(["c"])),
        ("c", BTreeSet::from(["b", "d"])),
        ("d", BTreeSet::new()),
    ]);
    assert_eq!(circles(&graph), [BTreeSet::from(["b", "c"])]);
}
