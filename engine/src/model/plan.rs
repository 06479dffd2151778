//! Plans, which approvers decide on, and their digests.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fmt::{self, Write as _};

/// The plan of an execution, derived from its data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// One line for lists, such as `onboard acme: 16 H100 in eu`.
    pub title: String,
    /// The approved part: kind, count, model, region, isolation, object set, quotas, price, policy version. In the
    /// digest.
    pub decides: Value,
    /// The part that may vary within the approval, such as the proposed nodes. Shown, and outside the digest.
    pub placement: Value,
}

impl Plan {
    /// Returns the SHA-256 of the workflow, its schema, and the approved part in canonical form.
    #[must_use]
    pub fn digest(&self, workflow: &str, schema: u32) -> PlanDigest {
        let mut canonical = String::new();
        canonicalise(&self.decides, &mut canonical);
        let mut hash = Sha256::new();
        hash.update(format!("tenure plan 1\n{workflow} {schema}\n{canonical}"));
        PlanDigest(format!("sha256:{}", store::hex::encode(&hash.finalize())))
    }
}

impl Plan {
    /// Returns true if this plan covers `child`: somewhere in [`Plan::decides`] is an object that has every field of
    /// the child's plan with the same value, and of each list every item. A child whose plan has no fields is not
    /// covered.
    ///
    /// ```
    /// # use engine::Plan;
    /// # use serde_json::json;
    /// let plan = |decides| Plan { decides, ..Plan::default() };
    /// let parent = plan(json!({ "close": "acme", "nodes": [{ "node": "n1", "erase": "purge" }] }));
    /// assert!(parent.covers(&plan(json!({ "node": "n1", "erase": "purge" }))));
    /// assert!(!parent.covers(&plan(json!({ "node": "n1", "erase": "clear" }))));
    /// assert!(!parent.covers(&plan(json!({}))));
    /// ```
    #[must_use]
    pub fn covers(&self, child: &Self) -> bool {
        child.decides.as_object().is_some_and(|fields| !fields.is_empty())
            && somewhere(&self.decides, &child.decides)
    }
}

fn somewhere(whole: &Value, part: &Value) -> bool {
    says(whole, part)
        || match whole {
            Value::Object(fields) => fields.values().any(|inner| somewhere(inner, part)),
            Value::Array(items) => items.iter().any(|inner| somewhere(inner, part)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
}

/// Returns true if `whole` contains every field and item of `part`.
fn says(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, field)| whole.get(name).is_some_and(|same| says(same, field)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|item| whole.iter().any(|same| says(same, item)))
        }
        (whole, part) => whole == part,
    }
}

/// The digest of a plan: `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlanDigest(pub String);

impl fmt::Display for PlanDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Writes JSON with sorted keys and without spaces.
fn canonicalise(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(name, _)| name.as_str());
            out.push('{');
            for (i, (name, field)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                let _ = write!(out, "{}:", Value::String(name.clone()));
                canonicalise(field, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                canonicalise(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(out, "{value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_digest_covers_the_decision_and_not_the_placement() {
        let plan = |decides, placement| Plan { title: String::new(), decides, placement }.digest("w", 1);
        let digest = plan(json!({"gpus": 8, "model": "T4"}), json!(["n1"]));
        assert_eq!(digest, plan(json!({"model": "T4", "gpus": 8}), json!(["n2"])));
        assert_ne!(digest, plan(json!({"model": "T4", "gpus": 9}), json!(["n1"])));
    }
}
