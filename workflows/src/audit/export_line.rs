//! The lines of an export: one JSON object each, in one form only, with its number and the digest of itself.

use super::{checkpoint::Checkpoint, entry::Entry};
use crate::signing::{
    Digest, Moment,
    canonical::{compact, value},
    dsse::Signature,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the header calls the format.
pub(super) const FORMAT: &str = "tenure-audit";
/// The version of the format that is written.
pub(super) const VERSION: u32 = 2;
/// The oldest version that is read. Version 2 has further fields of entries.
pub(super) const OLDEST: u32 = 1;
/// What the signature of the last line is of.
pub(super) const END_TYPE: &str = "application/vnd.tenure.audit-export+json";

/// The first line: whose audit it is, and which part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// `tenure-audit`.
    pub format: String,
    /// Of the format.
    pub version: u32,
    /// Whose; empty for the platform's own.
    pub tenant: String,
    /// What was asked for: entries of this moment or later.
    pub from: Option<Moment>,
    /// What was asked for: entries before this moment.
    pub to: Option<Moment>,
    /// The number of the first entry; 0 if there is none.
    pub first: u64,
    /// The digest of the entry before the first, `None` where the chain begins.
    pub previous: Option<Digest>,
    /// When it was written.
    pub exported_at: Moment,
}

/// The last line: how much there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Lines before this one.
    pub lines: u64,
    /// Entries among them.
    pub entries: u64,
    /// Checkpoints among them.
    pub checkpoints: u64,
    /// The digest of all bytes of these lines.
    pub digest: Digest,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Content {
    Header(Header),
    Entry(Box<Entry>),
    Checkpoint(Checkpoint),
    End(End),
}

/// A line as it stands in a file.
#[derive(Serialize, Deserialize)]
struct Written {
    #[serde(flatten)]
    content: Content,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Signature>,
    line: u64,
}

/// A line that has been read, and is what its digest says.
pub(super) struct Read {
    pub(super) content: Content,
    pub(super) by: Option<Signature>,
    pub(super) line: u64,
}

/// The `line`th line of a file.
pub(super) fn written(content: Content, by: Option<Signature>, line: u64) -> String {
    let mut object = value(&Written { content, by, line });
    let digest = Digest::from_bytes(compact(&object).as_bytes());
    if let Some(fields) = object.as_object_mut() {
        fields.insert("sha256".into(), Value::String(digest.0));
    }
    let mut text = compact(&object);
    text.push('\n');
    text
}

/// Reads a line without its end.
///
/// # Errors
/// Why it is not as it was written.
pub(super) fn read(line: &[u8]) -> Result<Read, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
    let mut object: Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    if compact(&object) != text {
        return Err("it is not written in the one form there is: names sorted, no spaces".into());
    }
    let fields = object.as_object_mut().ok_or("it is no JSON object")?;
    let said = fields.remove("sha256").ok_or("it has no digest")?;
    let is = Digest::from_bytes(compact(&object).as_bytes());
    if said != is.0.as_str() {
        return Err(format!("it was changed: its digest is {is}, and it says {said}"));
    }
    let read: Written = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    if value(&read) != object {
        return Err("it says more than this format knows".into());
    }
    Ok(Read { content: read.content, by: read.by, line: read.line })
}
