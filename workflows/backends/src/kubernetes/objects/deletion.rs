//! Explains why an object is still terminating, for the operator who must release it.
//!
//! Tenure removes no finalizers: an operator who does must know that the guarded resource is gone.

use crate::kubernetes::labels::{at, text};
use serde_json::Value;

/// Conditions by which the namespace controller reports remaining work.
const CONDITIONS: [&str; 5] = [
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
];

/// Returns what delays the deletion, as the object reports it.
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
        held.push("its controller, for an unknown reason".to_owned());
    }
    format!("{name} is being deleted since {since}; blocked by {}", held.join("; "))
}

fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}
