//! The lines of an export: one JSON object on each line, in a fixed form, with its number and its own digest.

use super::{checkpoint::Checkpoint, entry::Entry};
use crate::signing::{
    Digest, Moment,
    canonical::{compact, value},
    dsse::Signature,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of the format in the header.
pub(super) const FORMAT: &str = "tenure-audit";
/// The version of the format that is written.
pub(super) const VERSION: u32 = 2;
/// The oldest version that can be read. Version 2 added fields to entries.
pub(super) const OLDEST: u32 = 1;
/// The type of the content that the signature of the last line covers.
pub(super) const END_TYPE: &str = "application/vnd.tenure.audit-export+json";

/// The first line: the audit and its exported part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// `tenure-audit`.
    pub format: String,
    /// The version of the format.
    pub version: u32,
    /// The tenant's id. Empty for the platform's own audit.
    pub tenant: String,
    /// The start of the requested period, included.
    pub from: Option<Moment>,
    /// The end of the requested period, excluded.
    pub to: Option<Moment>,
    /// The number of the first entry, or 0 for an empty export.
    pub first: u64,
    /// The digest of the entry before the first. `None` at the beginning of the chain.
    pub previous: Option<Digest>,
    /// The time of the export.
    pub exported_at: Moment,
}

/// The last line, with totals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// The number of lines before this one.
    pub lines: u64,
    /// The number of entries.
    pub entries: u64,
    /// The number of checkpoints.
    pub checkpoints: u64,
    /// The digest of all bytes of these lines.
    pub digest: Digest,
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Content {
    Header(Header),
    Entry(Box<Entry>),
    Checkpoint(Checkpoint),
    End(End),
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Written {
    #[serde(flatten)]
    content: Content,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Signature>,
    line: u64,
}

/// A parsed line with a valid digest.
pub(super) struct Read {
    pub(super) content: Content,
    pub(super) by: Option<Signature>,
    pub(super) line: u64,
}

/// Returns line number `line` of a file.
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

/// Reads a line without its line ending.
///
/// # Errors
/// The difference from the written form.
pub(super) fn read(line: &[u8]) -> Result<Read, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
    let mut object: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    if compact(&object) != text {
        return Err("it is not in canonical form: names sorted, no spaces".into());
    }
    let fields = object.as_object_mut().ok_or("it is not a JSON object")?;
    let said = fields.remove("sha256").ok_or("it has no digest")?;
    let is = Digest::from_bytes(compact(&object).as_bytes());
    if said != is.0.as_str() {
        return Err(format!("it was changed: its digest is {is}, but it names {said}"));
    }
    let read: Written = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    if value(&read) != object {
        return Err("it has fields that this format does not know".into());
    }
    Ok(Read { content: read.content, by: read.by, line: read.line })
}
