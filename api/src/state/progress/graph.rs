//! The position of a state on the paths of its workflow.

use engine::Diagram;
use std::collections::{BTreeMap, BTreeSet};

/// The end of every path.
const END: &str = "[*]";

/// Returns for each state of a workflow the number of states before it, and of all, on the longest path through it. States on no path to the end are absent.
pub(super) fn places(drawn: &Diagram) -> BTreeMap<String, (usize, usize)> {
    let graph = Graph::of(drawn);
    let places =
        drawn.states.iter().filter_map(|state| Some((state.name.clone(), graph.place(&state.name)?)));
    places.collect()
}

/// The forward edges of a workflow, without edges of failures and edges back.
#[derive(Debug, Default)]
struct Graph {
    initial: String,
    ways: BTreeMap<String, Vec<String>>,
}

impl Graph {
    fn of(drawn: &Diagram) -> Self {
        let mut ways: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for edge in &drawn.edges {
            // Error codes contain a dot; other labels, except those of signals, do not.
            let failure = edge.label.contains('.') && !edge.label.starts_with("signal ");
            if !failure {
                ways.entry(edge.from.clone()).or_default().push(edge.to.clone());
            }
        }
        let mut graph = Self { initial: drawn.initial.clone(), ways };
        graph.cut(&drawn.initial, &mut BTreeSet::new(), &mut BTreeSet::new());
        graph
    }

    /// Removes every edge that leads back.
    fn cut(&mut self, at: &str, above: &mut BTreeSet<String>, seen: &mut BTreeSet<String>) {
        if !seen.insert(at.to_owned()) {
            return;
        }
        above.insert(at.to_owned());
        let mut ways = self.ways.get(at).cloned().unwrap_or_default();
        ways.retain(|to| !above.contains(to));
        for to in &ways {
            self.cut(to, above, seen);
        }
        above.remove(at);
        self.ways.insert(at.to_owned(), ways);
    }

    /// Returns the number of states before a state on the longest path through it, and the length of that path; `None` off every path to the end.
    fn place(&self, state: &str) -> Option<(usize, usize)> {
        let before = self.longest(&self.initial, state, &mut BTreeMap::new())?;
        let after = self.longest(state, END, &mut BTreeMap::new())?;
        Some((before, before + after))
    }

    /// Returns the number of steps of the longest path between two states. The graph has no cycles, so this ends.
    fn longest(&self, from: &str, to: &str, known: &mut BTreeMap<String, Option<usize>>) -> Option<usize> {
        if from == to {
            return Some(0);
        }
        if let Some(known) = known.get(from) {
            return *known;
        }
        let ways = self.ways.get(from).map(Vec::as_slice).unwrap_or_default();
        let longest = ways.iter().filter_map(|next| self.longest(next, to, known)).max().map(|rest| rest + 1);
        known.insert(from.to_owned(), longest);
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{DiagramEdge, DiagramState};

    fn drawn(edges: &[(&str, &str, &str)]) -> Diagram {
        let edge = |(from, label, to): &(&str, &str, &str)| DiagramEdge {
            from: (*from).into(),
            label: (*label).into(),
            text: String::new(),
            to: (*to).into(),
        };
        let names: BTreeSet<&str> = edges.iter().map(|(from, ..)| *from).collect();
        let state = |name: &str| DiagramState {
            name: name.into(),
            kind: "act",
            actions: Vec::new(),
            undos: Vec::new(),
            forward_only: false,
        };
        Diagram {
            workflow: "w".into(),
            schema: 1,
            initial: "A".into(),
            states: names.into_iter().map(state).collect(),
            edges: edges.iter().map(edge).collect(),
        }
    }

    #[test]
    fn a_state_is_counted_on_the_path_to_the_end() {
        let places = places(&drawn(&[
            ("A", "done", "B"),
            ("A", "capacity.short", "Waits"),
            ("Waits", "signal capacity.freed", "Again"),
            ("Again", "done", "B"),
            ("B", "short", "D"),
            ("B", "long", "C"),
            ("C", "done", "D"),
            ("C", "again", "B"),
            ("D", "completed", "[*]"),
        ]));
        assert_eq!(places.get("A"), Some(&(0, 4)));
        assert_eq!(places.get("B"), Some(&(1, 4)));
        assert_eq!(places.get("D"), Some(&(3, 4)), "the last state");
        assert_eq!(places.get("Waits"), None, "no path to the end contains it");
    }
}
