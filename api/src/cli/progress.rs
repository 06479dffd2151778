//! How far an execution is, on one line that is drawn anew: only where a person looks at standard error.

use super::{
    client::Client,
    moment,
    style::{Paint, Stream},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
};

/// The line, while it stands.
pub(super) struct Line {
    /// The graph of the workflow; asked for once.
    graph: Option<Graph>,
    stands: bool,
    wanted: bool,
}

impl Line {
    pub(super) fn new() -> Self {
        Self { graph: None, stands: false, wanted: Stream::Err.is_terminal() }
    }

    /// Draws how far `item` is.
    pub(super) async fn draw(&mut self, client: &Client, item: &Value) {
        let part = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        if !self.wanted || part("state").is_empty() {
            return;
        }
        if self.graph.is_none() {
            let path = format!("/v1/executions/{}/diagram?format=json", part("id"));
            let drawn = client.get(&path).await.and_then(|answer| answer.value());
            self.graph = Some(drawn.map(|drawn| Graph::of(&drawn)).unwrap_or_default());
        }
        let done = self.graph.as_ref().and_then(|graph| graph.place(part("state")));
        let done =
            done.map(|(done, total)| format!("{} {done} of {total}  ", bar(done, total))).unwrap_or_default();
        let since = moment::parse(part("since")).map(|since| (moment::now() - since).num_seconds());
        let since =
            since.map(|since| format!("  {}", moment::span(since.max(0).unsigned_abs()))).unwrap_or_default();
        let line = format!("{done}{}{since}", part("state"));
        let _ = write!(io::stderr().lock(), "\r\u{1b}[2K{}", Paint::Dim.on(Stream::Err, &line));
        self.stands = true;
    }

    /// Takes the line away, before anything else is said and at the end.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.stands) {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[2K");
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.clear();
    }
}

fn bar(done: usize, total: usize) -> String {
    const WIDTH: usize = 20;
    let full = (done * WIDTH).checked_div(total).unwrap_or(0).min(WIDTH);
    format!("[{}{}]", "#".repeat(full), " ".repeat(WIDTH - full))
}

/// The ways of a workflow that lead on: not those that a failure takes, and none back.
#[derive(Debug, Default)]
struct Graph {
    initial: String,
    ways: BTreeMap<String, Vec<String>>,
}

impl Graph {
    fn of(drawn: &Value) -> Self {
        let text =
            |of: &Value, name: &str| of.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let diagram = drawn.get("diagram").unwrap_or(&Value::Null);
        let mut ways: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for edge in diagram.get("edges").and_then(Value::as_array).into_iter().flatten() {
            let label = text(edge, "label");
            // The codes of errors have a point in them, as no other label but that of a signal.
            let failure = label.contains('.') && !label.starts_with("signal ");
            if !failure {
                ways.entry(text(edge, "from")).or_default().push(text(edge, "to"));
            }
        }
        let initial = text(diagram, "initial");
        let mut graph = Self { initial: initial.clone(), ways };
        graph.cut(&initial, &mut BTreeSet::new(), &mut BTreeSet::new());
        graph
    }

    /// Takes out every way that leads back.
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

    /// The number of a state on the longest way through it, and how many that way has; `None` off every way that leads on.
    fn place(&self, state: &str) -> Option<(usize, usize)> {
        let before = self.longest(&self.initial, state, &mut BTreeMap::new())?;
        let after = self.longest(state, END, &mut BTreeMap::new())?;
        Some((before + 1, before + after))
    }

    /// Steps on the longest way between two states. There is no way back in the graph, so it ends.
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

/// Where every way ends.
const END: &str = "[*]";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn graph(edges: &[(&str, &str, &str)]) -> Graph {
        let edges: Vec<Value> =
            edges.iter().map(|(from, label, to)| json!({ "from": from, "label": label, "to": to })).collect();
        Graph::of(&json!({ "diagram": { "initial": "A", "edges": edges } }))
    }

    #[test]
    fn a_state_is_counted_on_the_way_that_leads_on() {
        let graph = graph(&[
            ("A", "done", "B"),
            ("A", "capacity.short", "Waits"),
            ("Waits", "signal capacity.freed", "Again"),
            ("Again", "done", "B"),
            ("B", "short", "D"),
            ("B", "long", "C"),
            ("C", "done", "D"),
            ("C", "again", "B"),
            ("D", "completed", "[*]"),
        ]);
        assert_eq!(graph.place("A"), Some((1, 4)));
        assert_eq!(graph.place("B"), Some((2, 4)));
        assert_eq!(graph.place("D"), Some((4, 4)), "the last of them");
        assert_eq!(graph.place("Waits"), None, "no way that leads on goes there");
    }

    #[test]
    fn a_bar_is_full_at_the_end() {
        assert_eq!(bar(0, 4), "[                    ]");
        assert_eq!(bar(4, 4), "[####################]");
    }
}
