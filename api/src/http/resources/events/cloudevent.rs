//! Parses a CloudEvent 1.0, structured or binary.

use crate::{
    http::{
        extract::{TextBody, is_yaml, parse_json},
        problem::{Problem, code::ProblemCode},
        resources::workflow_start::document,
    },
    types::problems::Fault,
};
use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use program::encoding::percent::decode;
use serde_json::{Map, Value};

/// The attributes and data of an event.
pub(super) struct IncomingEvent {
    pub(super) id: String,
    pub(super) source: String,
    pub(super) kind: String,
    pub(super) data: EventData,
}

pub(super) enum EventData {
    /// Data inside the envelope.
    Value(Value),
    /// Data as a separate document.
    Document { text: String, is_json: bool },
}

impl EventData {
    /// Returns the data as a text body.
    pub(super) fn text(&self) -> TextBody {
        match self {
            Self::Value(value) => {
                TextBody { text: value.to_string(), media: "application/json".into(), labels: Vec::new() }
            }
            Self::Document { text, is_json } => {
                let media = if *is_json { "application/json" } else { "application/yaml" };
                TextBody { text: text.clone(), media: media.into(), labels: Vec::new() }
            }
        }
    }

    /// Returns the data as text in a canonical form.
    pub(super) fn plain(&self) -> Result<String, Problem> {
        let mut said = document::<Value>(&self.text())?;
        said.sort_all_objects();
        Ok(said.to_string())
    }
}

pub(super) fn structured(text: &str) -> Result<IncomingEvent, Problem> {
    envelope(parse_json(text)?, "/")
}

/// Parses an event whose attributes and data are fields of one object, at `place`.
pub(super) fn envelope(mut fields: Map<String, Value>, place: &str) -> Result<IncomingEvent, Problem> {
    let (plain, encoded) = (fields.remove("data"), fields.remove("data_base64"));
    let content = fields.get("datacontenttype").and_then(Value::as_str).unwrap_or("application/json");
    let content = content.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let data = match (plain, encoded) {
        (Some(_), Some(_)) => {
            let why = "an event has either `data` or `data_base64`, not both";
            return Err(wrong(&format!("{place}data_base64"), why));
        }
        (None, Some(encoded)) => decoded(&encoded, &content, &format!("{place}data_base64"))?,
        (Some(Value::String(text)), None) if is_yaml(&content) => {
            EventData::Document { text, is_json: false }
        }
        (plain, None) => EventData::Value(plain.unwrap_or_default()),
    };
    let attribute = |name: &str| fields.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    happened(attribute, data, place)
}

/// Decodes base64 data.
fn decoded(encoded: &Value, content: &str, place: &str) -> Result<EventData, Problem> {
    let is_json = content == "application/json" || content.ends_with("+json");
    if !is_json && !is_yaml(content) {
        let detail = format!("datacontenttype {content:?} is not supported; send the data as JSON or YAML");
        return Err(Problem::new(ProblemCode::MediaType, detail));
    }
    let bytes = encoded.as_str().and_then(|text| STANDARD.decode(text).ok());
    let bytes =
        bytes.ok_or_else(|| wrong(place, "`data_base64` is not valid base64 (RFC 4648, with padding)"))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong(place, "`data_base64` is not UTF-8"))?;
    Ok(EventData::Document { text, is_json })
}

/// The problem of an event with a fault at `place`.
pub(super) fn wrong(place: &str, message: &str) -> Problem {
    let fault = Fault { pointer: place.to_owned(), message: message.to_owned(), line: None, column: None };
    let detail = format!("the event is not a CloudEvent 1.0: {message}");
    Problem::new(ProblemCode::Malformed, detail).at(vec![fault])
}

/// Decodes a header of an event: senders percent-encode the UTF-8 of special characters, and may quote the value.
fn unescaped(said: &str) -> Option<String> {
    let said = said.trim();
    let inner = said.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let plain = inner.map(|inner| inner.replace("\\\"", "\"").replace("\\\\", "\\"));
    let plain = plain.as_deref().unwrap_or(said);
    String::from_utf8(decode(plain)).ok()
}

pub(super) fn binary(headers: &HeaderMap, body: TextBody) -> Result<IncomingEvent, Problem> {
    if !body.is_json() && !body.is_yaml() {
        let detail = format!("{:?} is not supported; send the data as JSON or YAML", body.media);
        return Err(Problem::new(ProblemCode::MediaType, detail));
    }
    let attribute = |name: &str| unescaped(headers.get(format!("ce-{name}"))?.to_str().ok()?);
    let is_json = body.is_json();
    happened(attribute, EventData::Document { text: body.text, is_json }, "ce-")
}

fn happened(
    attribute: impl Fn(&str) -> Option<String>,
    data: EventData,
    prefix: &str,
) -> Result<IncomingEvent, Problem> {
    let mut faults = Vec::new();
    let mut must = |name: &str| {
        let text = attribute(name).unwrap_or_default();
        if text.is_empty() || text.len() > 256 {
            let message = format!("a CloudEvent needs `{name}` with 1 to 256 characters");
            faults.push(Fault { pointer: format!("{prefix}{name}"), message, line: None, column: None });
        }
        text
    };
    let (id, source, kind, version) = (must("id"), must("source"), must("type"), must("specversion"));
    if faults.is_empty() && version != "1.0" {
        let message = format!("specversion {version:?} is not supported; use 1.0");
        faults.push(Fault { pointer: format!("{prefix}specversion"), message, line: None, column: None });
    }
    if let Some(first) = faults.first() {
        let detail = format!("the event is not a CloudEvent 1.0: {}", first.message);
        return Err(Problem::new(ProblemCode::Malformed, detail).at(faults));
    }
    Ok(IncomingEvent { id, source, kind, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_an_event_is_decoded() {
        for (said, means) in [
            ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro \u{20ac} \u{1f600}"),
            (" plain ", "plain"),
            ("\"a \\\"b\\\" %41\"", "a \"b\" A"),
            ("100%", "100%"),
        ] {
            assert_eq!(unescaped(said).as_deref(), Some(means), "{said}");
        }
        assert_eq!(unescaped("%FF"), None);
    }
}
