//! The owner label of a Slurm object, in the single text field that Slurm stores for it.
//!
//! Slurm stores an account's description in lower case and replaces double quotes. A label therefore has only
//! lower-case letters, digits and a few signs that Slurm keeps: `tenure tenant=acme step=^abc/... epoch=3 uid=9f..`.

use serde_json::Value;
use std::fmt;
use workflows::platform::{CallMetadata, FoundObject};

const OURS: &str = "tenure";

/// The label of an object that Tenure created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnerLabel {
    pub(super) tenant: String,
    pub(super) step: String,
    pub(super) epoch: u64,
    /// Distinguishes objects that have the same name at different times.
    pub(super) uid: String,
}

impl OwnerLabel {
    /// Creates the label of a new object.
    pub(super) fn new(tenant: &str, stamp: &CallMetadata) -> Self {
        let uid = format!("{:016x}", fastrand::u64(..));
        Self { tenant: tenant.to_owned(), step: stamp.step.clone(), epoch: stamp.epoch.0, uid }
    }

    /// Parses a label. Returns `None` if the text is not one.
    pub(super) fn read(text: &str) -> Option<Self> {
        let word = |key| word_of(text, key);
        Some(Self {
            tenant: plain(word("tenant")?),
            step: plain(word("step")?),
            epoch: word("epoch")?.parse().ok()?,
            uid: word("uid")?.to_owned(),
        })
    }

    pub(super) fn found(self, spec: Value) -> FoundObject {
        FoundObject { uid: self.uid, tenant: self.tenant, step: self.step, spec, terminating: false }
    }
}

impl fmt::Display for OwnerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tenant, step) = (escaped(&self.tenant), escaped(&self.step));
        write!(f, "{OURS} tenant={tenant} step={step} epoch={} uid={}", self.epoch, self.uid)
    }
}

/// Returns the value of `key` in a label. Returns `None` if the text is not a label.
pub(super) fn word_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut words = text.split_ascii_whitespace();
    if words.next() != Some(OURS) {
        return None;
    }
    words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// Escapes upper case, blanks and signs that Slurm changes.
pub(super) fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b':' | b'#' | b'-' | b'_' => all.push(char::from(byte)),
            b'A'..=b'Z' => {
                all.push('^');
                all.push(char::from(byte.to_ascii_lowercase()));
            }
            other => all.push_str(&format!("~{other:02x}")),
        }
    }
    all
}

/// Reverses [`escaped`].
pub(super) fn plain(text: &str) -> String {
    let mut all = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'^' => all.extend(bytes.next().map(|b| b.to_ascii_uppercase())),
            b'~' => {
                let digits: String = bytes.by_ref().take(2).map(char::from).collect();
                all.extend(u8::from_str_radix(&digits, 16).ok());
            }
            other => all.push(other),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_from_lower_case_text() {
        let step = "0193/CreatingAccount/2/Slot é=|,\"x\"".to_owned();
        let mark = OwnerLabel { tenant: "acme".into(), step, epoch: 7, uid: "0a".into() };
        assert_eq!(OwnerLabel::read(&mark.to_string().to_lowercase()), Some(mark.clone()));
        assert!(!mark.to_string().contains(['"', '|', ',', '\'']));
        for foreign in ["", "the physics department", "tenured staff tenant=a step=b epoch=1 uid=c"] {
            assert_eq!(OwnerLabel::read(foreign), None, "{foreign}");
        }
    }
}
