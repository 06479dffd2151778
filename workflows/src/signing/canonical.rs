//! Canonical JSON: equal content has equal bytes. Names are sorted, and there is no choice of spaces or escapes.
//!
//! There are two layouts. Digests use [`compact`]. Certificates use [`lines`], with one leaf on each line, so that a change can be located.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

/// A SHA-256: `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(pub String);

impl Digest {
    /// Returns the digest of bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let hex = Sha256::digest(bytes).iter().fold(String::from("sha256:"), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        Self(hex)
    }

    /// Returns the digest of content, independent of the order of its fields. `kind` separates digests of different types.
    #[must_use]
    pub fn from_content(kind: &str, content: &impl Serialize) -> Self {
        Self::from_bytes(format!("tenure {kind} 1\n{}", compact(&value(content))).as_bytes())
    }

    /// Returns the first digits, for display.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.strip_prefix("sha256:").and_then(|hex| hex.get(..12)).unwrap_or(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Converts content to JSON. All types with a digest can be represented in JSON.
pub(crate) fn value(content: &impl Serialize) -> Value {
    serde_json::to_value(content).unwrap_or(Value::Null)
}

/// Returns JSON without spaces and with sorted names.
pub(crate) fn compact(value: &Value) -> String {
    let mut out = String::new();
    write_compact(value, &mut out);
    out
}

fn write_compact(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            out.push('{');
            for (i, (name, field)) in sorted(fields).into_iter().enumerate() {
                let comma = if i > 0 { "," } else { "" };
                let _ = write!(out, "{comma}{}:", Value::from(name));
                write_compact(field, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_compact(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(out, "{value}");
        }
    }
}

/// Returns JSON with one leaf on each line, two spaces for each level, sorted names, and a newline after each line.
pub(crate) fn lines(value: &Value) -> String {
    let mut out = String::new();
    write_lines(value, 0, &mut out);
    out.push('\n');
    out
}

fn write_lines(value: &Value, depth: usize, out: &mut String) {
    let pad = |out: &mut String, depth: usize| out.extend(std::iter::repeat_n("  ", depth));
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push_str("{\n");
            for (i, (name, field)) in sorted(fields).into_iter().enumerate() {
                out.push_str(if i > 0 { ",\n" } else { "" });
                pad(out, depth + 1);
                let _ = write!(out, "{}: ", Value::from(name));
                write_lines(field, depth + 1, out);
            }
            out.push('\n');
            pad(out, depth);
            out.push('}');
        }
        Value::Array(items) if !items.is_empty() => {
            out.push_str("[\n");
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ",\n" } else { "" });
                pad(out, depth + 1);
                write_lines(item, depth + 1, out);
            }
            out.push('\n');
            pad(out, depth);
            out.push(']');
        }
        Value::Object(_)
        | Value::Array(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_) => {
            let _ = write!(out, "{value}");
        }
    }
}

fn sorted(fields: &serde_json::Map<String, Value>) -> BTreeMap<&str, &Value> {
    fields.iter().map(|(name, field)| (name.as_str(), field)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equal_content_has_equal_bytes_in_both_layouts() {
        let one: Value = serde_json::from_str(r#"{"b":[1,{}],"a":{"y":"\u0041","x":[]}}"#).unwrap();
        let two = json!({"a": {"x": [], "y": "A"}, "b": [1, {}]});
        assert_eq!(compact(&one), compact(&two));
        assert_eq!(compact(&one), r#"{"a":{"x":[],"y":"A"},"b":[1,{}]}"#);
        assert_eq!(serde_json::from_str::<Value>(&lines(&one)).unwrap(), two);
        assert_eq!(lines(&one).lines().count(), 10);
    }

    #[test]
    fn digests_of_different_content_differ() {
        assert_ne!(Digest::from_content("record", &"x"), Digest::from_content("inventory", &"x"));
    }
}
