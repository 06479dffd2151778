//! Shortens the detail of history entries: keeps the beginning of long lists and long texts.
//!
//! The record has the full value. An abridged value contains its full length and its SHA-256, so that it can be
//! compared.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The longest value of a history entry, in bytes as JSON. An entry has three at most, and stays below 64 KiB.
const LIMIT: usize = 16 << 10;
/// The numbers of list entries and of text bytes to keep: the first pair that makes the value short enough is used.
const KEPT: [(usize, usize); 4] = [(256, 4_096), (64, 1_024), (16, 256), (4, 128)];
/// The name of the note in an abridged value.
const NOTE: &str = "abridged";

/// Returns `value`, abridged if it is too long.
pub(super) fn abridged(value: Value) -> Value {
    if estimate(&value) <= LIMIT / 8 {
        return value;
    }
    let whole = value.to_string();
    if whole.len() <= LIMIT {
        return value;
    }
    let sha256 = store::hex::encode(&Sha256::digest(&whole));
    let note = json!({ "bytes": whole.len(), "sha256": sha256 });
    for (entries, bytes) in KEPT {
        let mut shorter = value.clone();
        shorten(&mut shorter, entries, bytes);
        if shorter.to_string().len() <= LIMIT {
            return with_note(shorter, note);
        }
    }
    json!({ NOTE: note })
}

/// Estimates the length of a value as JSON. At worst, if every character is escaped, it is an eighth of the length.
fn estimate(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len().saturating_add(4),
        Value::Array(items) => items.iter().map(estimate).fold(4, usize::saturating_add),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                name.len().saturating_add(4).saturating_add(estimate(value))
            };
            fields.iter().map(field).fold(4, usize::saturating_add)
        }
    }
}

fn with_note(mut value: Value, note: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.insert(NOTE.into(), note);
            value
        }
        Value::Array(items) => {
            items.push(json!({ NOTE: note }));
            value
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            json!({ "value": value, NOTE: note })
        }
    }
}

fn shorten(value: &mut Value, entries: usize, bytes: usize) {
    match value {
        Value::Array(items) => {
            items.truncate(entries);
            items.iter_mut().for_each(|item| shorten(item, entries, bytes));
        }
        Value::Object(fields) => {
            let over: Vec<String> = fields.keys().skip(entries).cloned().collect();
            over.iter().for_each(|name| drop(fields.remove(name)));
            fields.values_mut().for_each(|field| shorten(field, entries, bytes));
        }
        Value::String(text) if text.len() > bytes => {
            let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
            text.truncate(end);
            text.push('…');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_any_size_fits_and_keeps_its_form_and_a_small_one_is_not_changed() {
        let small = json!({ "settled": { "result": { "Ok": [1, 2, 3] } } });
        assert_eq!(abridged(small.clone()), small);

        for nodes in [1_000, 4_000, 100_000] {
            let list: Vec<_> =
                (0..nodes).map(|n| json!({ "node": format!("node-{n}"), "gpus": [n, n] })).collect();
            let long =
                json!({ "settled": { "ticket": { "visit": 3 }, "result": { "Ok": { "nodes": list } } } });
            let short = abridged(long.clone());

            assert!(short.to_string().len() <= LIMIT + 200);
            assert_eq!(short.pointer("/settled/ticket/visit"), Some(&json!(3)));
            assert_eq!(
                short.pointer("/settled/result/Ok/nodes/0"),
                long.pointer("/settled/result/Ok/nodes/0")
            );
            assert_eq!(short.pointer("/abridged/bytes"), Some(&json!(long.to_string().len())));
        }
        let text = abridged(json!("é".repeat(100_000)));
        assert!(text.to_string().len() <= LIMIT && text.get("value").is_some());
    }
}
