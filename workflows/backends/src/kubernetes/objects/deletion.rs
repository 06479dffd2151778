//! What holds an object that is being deleted, in words for the person who has to free it.
//!
//! Nothing here takes a finalizer off: whoever does must know that what it guards is gone.

use crate::kubernetes::labels::{at, text};
use serde_json::Value;

/// The conditions by which the namespace controller says what it waits for.
const CONDITIONS: [&str; 5] = [
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
];

/// What holds the object, by its own word.
pub(in crate::kubernetes) fn of(name: &str, object: &Value) -> String {
    let since = text(object, &["metadata", "deletionTimestamp"]);
    let mut held: Vec<String> = Vec::new();
    let finalizers = strings(at(object, &["metadata", "finalizers"]));
    if !finalizers.is_empty() {
        held.push(format!("finalizers {}", finalizers.join(", ")));
    }
    let conditions = at(object, &["status", "conditions"]).and_then(Value::as_array);
    for condition in conditions.into_iter().flatten() {
        let kind = text(condition, &["type"]);
        if CONDITIONS.contains(&kind) && text(condition, &["status"]) == "True" {
            held.push(format!("{kind}: {}", text(condition, &["message"])));
        }
    }
    if held.is_empty() {
        held.push("its controller, which has not said what it waits for".to_owned());
    }
    format!("{name} is being deleted since {since}; held by {}", held.join("; "))
}

fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}
