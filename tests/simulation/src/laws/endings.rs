//! Laws about the end of an execution: its remaining objects match its outcome.

use super::{Laws, body, list, short, text};
use crate::cast::{Chore, Demolition, Errand, Spec};
use engine::Workflow;
use serde_json::Value;
use std::collections::BTreeSet;
use store::Record;

impl Laws {
    /// Compares the end of an execution with its remaining objects.
    pub fn ended(&self, record: &Record, things: &[String], tokens: u64) {
        let (id, body) = (short(record.id), body(record));
        let finished = &body["phase"]["finished"];
        let outcome = text(finished, "outcome");
        let (wanted, asked) = wanted(record, &body);
        let has: BTreeSet<&str> = things.iter().map(String::as_str).collect();
        match outcome {
            "completed" => {
                let wants: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
                self.hold(has == wants, || format!("{id} completed and left {has:?}, not {wants:?}"));
                self.hold(tokens == asked, || format!("{id} completed with {tokens} tokens, not {asked}"));
            }
            "terminated" => {
                // The leak report names everything that may be left.
                let leaks: BTreeSet<&str> = list(finished, "leaks")
                    .iter()
                    .filter_map(|leak| leak["arguments"]["name"].as_str())
                    .collect();
                let past = !body["pivot"].is_null();
                let unlisted: Vec<_> = has.iter().filter(|thing| !leaks.contains(*thing)).collect();
                self.hold(past || unlisted.is_empty(), || {
                    format!("{id} was terminated and leaves {unlisted:?} unlisted")
                });
            }
            _ => {
                let clean = body["pivot"].is_null();
                self.hold(!clean || has.is_empty(), || format!("{id} ended {outcome} and left {has:?}"));
                self.hold(!clean || tokens == 0, || format!("{id} ended {outcome} with {tokens} tokens"));
            }
        }
    }
}

/// Returns the objects and the tokens that a completed execution leaves.
fn wanted(record: &Record, body: &Value) -> (Vec<String>, u64) {
    match record.workflow.as_str() {
        Errand::NAME => {
            let errand: Errand = serde_json::from_value(body["data"].clone()).unwrap();
            let mut things = Vec::new();
            let mut tokens = 0;
            for step in errand.steps {
                match step {
                    Spec::Make(names) => things.extend(names),
                    Spec::Reserve(count) => tokens += count,
                    Spec::Ask | Spec::Listen | Spec::Sleep | Spec::Send(_) | Spec::Pay(_) => {}
                }
            }
            (things, tokens)
        }
        Chore::NAME => {
            let chore: Chore = serde_json::from_value(body["data"].clone()).unwrap();
            (vec![format!("{}-polish", chore.name), chore.name], 0)
        }
        _ => {
            let house: Demolition = serde_json::from_value(body["data"].clone()).unwrap();
            (vec![house.thing("fence"), house.thing("lawn")], 0)
        }
    }
}
