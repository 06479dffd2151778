//! Answers on standard output: a table for a terminal, plain text for pipes, JSON for programs.

pub(crate) mod preview;
pub(crate) mod progress;
pub(crate) mod style;
pub(crate) mod timestamps;

pub(crate) use program::terminal::{note, pour, redraw, say};

use crate::{
    common::Format,
    output::style::{Paint, Stream},
};
use chrono::{DateTime, Utc};
use comfy_table::{ContentArrangement, Table, presets};
use program::exit::Failure;
use serde_json::{Map, Value};
use std::io::{self, IsTerminal as _};
use unicode_width::UnicodeWidthStr as _;
use workflows::foreign_text;

/// A column: its title, and the JSON pointer of its value.
pub(super) type Column = (&'static str, &'static str);

/// Returns the value with sorted field names, so that the output is reproducible.
fn sorted(value: &Value) -> Value {
    let mut value = value.clone();
    value.sort_all_objects();
    value
}

/// Returns the value as JSON: indented on a terminal, otherwise on one line.
fn json(value: &Value) -> Result<String, Failure> {
    let value = &sorted(value);
    let text = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value).map_err(Failure::other)?
    } else {
        value.to_string()
    };
    Ok(format!("{}\n", foreign_text::json(&text)))
}

/// Returns the value as JSON on one line, for standard error.
pub(crate) fn json_line(value: &Value) -> String {
    foreign_text::json(&value.to_string()).into_owned()
}

fn has_unsafe(value: &Value) -> bool {
    let unsafe_text = |text: &str| text.contains(|c| foreign_text::is_unsafe(c) && !matches!(c, '\n' | '\t'));
    match value {
        Value::String(text) => unsafe_text(text),
        Value::Array(items) => items.iter().any(has_unsafe),
        Value::Object(fields) => fields.iter().any(|(name, inner)| unsafe_text(name) || has_unsafe(inner)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns the value with every text and every name as one line that is safe for a terminal.
pub(crate) fn harmless_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(sanitize(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(harmless_value).collect()),
        Value::Object(fields) => {
            let field = |(name, inner): (String, Value)| (sanitize(&name), harmless_value(inner));
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// Returns the value as YAML. If a text holds unsafe characters, returns JSON, which is valid YAML and can escape them.
fn yaml(value: &Value) -> Result<String, Failure> {
    if has_unsafe(value) {
        let text = serde_json::to_string_pretty(&sorted(value)).map_err(Failure::other)?;
        return Ok(format!("{}\n", foreign_text::json(&text)));
    }
    let text = serde_saphyr::to_string(&sorted(value)).map_err(Failure::other)?;
    Ok(format!("{}\n", text.trim_end()))
}

/// Writes a list: one JSON array, or a table whose first column is the id.
pub(super) fn list(format: Format, items: Vec<Value>, columns: &[Column]) -> Result<(), Failure> {
    say(&listing(format, &items, columns)?)
}

/// Returns a list in the requested format.
pub(super) fn listing(format: Format, items: &[Value], columns: &[Column]) -> Result<String, Failure> {
    let now = if style::wide() { None } else { Some(timestamps::now()) };
    match format {
        Format::Json => json(&Value::Array(items.to_vec())),
        Format::Yaml => yaml(&Value::Array(items.to_vec())),
        Format::Table if io::stdout().is_terminal() => Ok(boxed(items, columns, now)),
        Format::Table => Ok(plain(items, columns, now)),
    }
}

/// Writes one item: JSON, YAML, or an outline.
pub(super) fn one(format: Format, item: &Value) -> Result<(), Failure> {
    let text = match format {
        Format::Json => json(item)?,
        Format::Yaml => yaml(item)?,
        Format::Table if style::wide() => outline(item),
        Format::Table => outline(&timestamps::with_relative(item, timestamps::now())),
    };
    say(&text)
}

/// Reports that the command `what` was applied to `id`.
pub(super) fn done(format: Format, what: &str, id: &str) -> Result<(), Failure> {
    match format {
        Format::Json | Format::Yaml => one(format, &serde_json::json!({ what: id })),
        Format::Table => say(&format!("{id} {what}\n")),
    }
}

/// Returns the cells of a row. Timestamps are shown relative to `now` if it is given, except in the first column, which is the id.
fn row(item: &Value, columns: &[Column], now: Option<DateTime<Utc>>) -> Vec<String> {
    let cells = columns.iter().enumerate();
    cells.map(|(place, (_, path))| cell(item, path, now.filter(|_| place > 0))).collect()
}

fn boxed(items: &[Value], columns: &[Column], now: Option<DateTime<Utc>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|(title, _)| *title));
    for item in items {
        table.add_row(row(item, columns, now));
    }
    let text = table.to_string();
    let lines = text.lines().enumerate().map(|(at, line)| match at {
        1 => format!("{}\n", Paint::Bold.on(Stream::Out, line)),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

/// Pads columns and separates them by two spaces. An empty value is `-`, so that every row has the same number of fields.
fn plain(items: &[Value], columns: &[Column], now: Option<DateTime<Utc>>) -> String {
    let titles = columns.iter().map(|(title, _)| title.to_uppercase()).collect();
    let mut rows: Vec<Vec<String>> = vec![titles];
    rows.extend(items.iter().map(|item| row(item, columns, now)));
    let width = |place: usize| rows.iter().filter_map(|row| row.get(place)).map(|cell| cell.width()).max();
    let widths: Vec<usize> = (0..columns.len()).map(|place| width(place).unwrap_or(0)).collect();
    let padded = |(cell, width): (&String, &usize)| {
        format!("{cell}{}", " ".repeat(width.saturating_sub(cell.width())))
    };
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(padded).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn cell(item: &Value, path: &str, now: Option<DateTime<Utc>>) -> String {
    let spoken = |text: &str| Some(timestamps::relative(timestamps::parse(text)?, now?));
    let text = match item.pointer(path) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => spoken(text).unwrap_or_else(|| sanitize(text)),
        Some(Value::Array(items)) => items.iter().map(scalar).collect::<Vec<_>>().join(","),
        Some(Value::Object(fields)) => {
            let part = |(name, value): (&String, &Value)| format!("{} {}", sanitize(name), brief(value));
            fields.iter().map(part).collect::<Vec<_>>().join(", ")
        }
        Some(other @ (Value::Bool(_) | Value::Number(_))) => other.to_string(),
    };
    if text.is_empty() { "-".into() } else { text }
}

/// Returns `free/gpus` or `used/nominal` for a value with both fields, and `own+borrowed` for spent time.
/// Any other value is shown as it is.
fn brief(value: &Value) -> String {
    let parts = |part: &str, whole: &str| Some((value.get(part)?, value.get(whole)?));
    if let Some((part, whole)) = parts("free", "gpus").or_else(|| parts("used", "nominal")) {
        return format!("{}/{}", scalar(part), scalar(whole));
    }
    match parts("own", "borrowed") {
        Some((own, borrowed)) => sanitize(&format!("{own}+{borrowed}")),
        None => scalar(value),
    }
}

/// Returns foreign text as one line that is safe for a terminal: control characters are escaped.
pub(super) fn sanitize(text: &str) -> String {
    foreign_text::one_line(text).into_owned()
}

/// Returns each line of foreign text, safe for a terminal.
pub(super) fn sanitize_lines(text: &str) -> Vec<String> {
    text.lines().map(sanitize).collect()
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => sanitize(text),
        Value::Null => "-".into(),
        other => sanitize(&other.to_string()),
    }
}

/// Returns a value as indented lines.
pub(super) fn outline(value: &Value) -> String {
    let mut text = String::new();
    indent(&sorted(value), 0, &mut text);
    text
}

fn indent(value: &Value, depth: usize, text: &mut String) {
    let pad = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let name = sanitize(name);
                match flat(inner) {
                    // An empty object has a name and nothing else to show.
                    _ if inner.as_object().is_some_and(Map::is_empty) => {
                        text.push_str(&format!("{pad}{name}\n"))
                    }
                    Some(shown) => text.push_str(&format!("{pad}{name}: {shown}\n")),
                    None => {
                        text.push_str(&format!("{pad}{name}:\n"));
                        indent(inner, depth + 1, text);
                    }
                }
            }
        }
        Value::Array(items) => {
            for inner in items {
                // The dash replaces the last two spaces of the first line.
                let mut lines = String::new();
                indent(inner, depth + 1, &mut lines);
                text.push_str(&format!("{pad}- {}", lines.get(pad.len() + 2..).unwrap_or(&lines)));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&format!("{pad}{}\n", scalar(value)));
        }
    }
}

/// Returns the value as one line, if it fits on one.
fn flat(value: &Value) -> Option<String> {
    match value {
        Value::Object(fields) => fields.is_empty().then(|| "none".into()),
        Value::Array(items) if items.is_empty() => Some("none".into()),
        Value::Array(items) => {
            let simple = items.iter().all(|item| !item.is_object() && !item.is_array());
            simple.then(|| items.iter().map(scalar).collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(scalar(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_piped_row_has_the_id_first_and_a_dash_for_an_empty_value() {
        let items = [json!({ "id": "a", "tenant": null }), json!({ "id": "bb", "tenant": "acme" })];
        let text = plain(&items, &[("id", "/id"), ("tenant", "/tenant")], None);
        assert_eq!(text, "ID  TENANT\na   -\nbb  acme\n");
    }

    #[test]
    fn a_resource_without_a_limit_is_shown_with_a_dash() {
        let items =
            [json!({ "id": "acme/research", "use": { "cpu_milli": { "used": 1, "nominal": null } } })];
        let text = plain(&items, &[("id", "/id"), ("used/nominal", "/use")], None);
        assert_eq!(text.lines().nth(1), Some("acme/research  cpu_milli 1/-"));
    }

    #[test]
    fn columns_are_aligned_for_characters_of_any_width() {
        let items = [json!({ "id": "深圳", "tenant": "a" }), json!({ "id": "e-1", "tenant": "b" })];
        let text = plain(&items, &[("id", "/id"), ("tenant", "/tenant")], None);
        assert_eq!(text, "ID    TENANT\n深圳  a\ne-1   b\n");
    }

    #[test]
    fn timestamps_are_relative_except_in_the_first_column_and_with_wide_output() {
        let at = "2026-11-22T11:00:00.000Z";
        let items = [json!({ "nominal": at, "at": at })];
        let columns = [("nominal", "/nominal"), ("at", "/at")];
        let now = timestamps::parse("2026-11-22T14:00:00.000Z");
        assert_eq!(plain(&items, &columns, now).lines().nth(1), Some(&*format!("{at}  3h ago")));
        assert_eq!(plain(&items, &columns, None).lines().nth(1), Some(&*format!("{at}  {at}")));
    }

    #[test]
    fn an_outline_shows_every_leaf() {
        let text = outline(&json!({
            "none": [], "plan": { "gpus": 8, "nodes": ["n1", "n2"], "seats": [{ "any": "ops", "count": 1 }] }
        }));
        let wanted =
            "none: none\nplan:\n  gpus: 8\n  nodes: n1, n2\n  seats:\n    - any: ops\n      count: 1\n";
        assert_eq!(text, wanted);
    }
}
