//! A sheet: JSON with one leaf a line, and a check of each line, so that whoever finds it changed can say where.
//!
//! The checks are no protection, the signature is: it covers every byte of the cover, and the cover names the digest of
//! every page. They only tell which field the change is in.

use crate::signing::{Digest, canonical::lines};
use serde_json::{Value, json};

/// The type of the signed bytes, in the DSSE envelope.
pub const PAYLOAD_TYPE: &str = "application/vnd.tenure.certificate-of-destruction+json";

/// Digits of one line's check: 32 bits of its SHA-256. A change that goes unnoticed by it is still found, but not placed.
const CHECK_DIGITS: usize = 8;
/// Checks in one text.
const CHECKS_PER_TEXT: usize = 64;

/// The sheet with `content` under `name`, and its checks. `name` sorts before `checks`.
pub(crate) fn write(name: &str, content: &Value) -> String {
    let body = lines(&json!({ name: content, "checks": {} }));
    let each = checks(body.lines().take_while(|line| !line.starts_with(HEAD)));
    let digest = Digest::from_content("checks", &each);
    lines(&json!({ name: content, "checks": { "digest": digest, "each": each } }))
}

/// How the line begins that ends the content.
const HEAD: &str = "  \"checks\": {";

fn check(line: &str) -> String {
    Digest::from_bytes(line.as_bytes()).short().chars().take(CHECK_DIGITS).collect()
}

fn checks<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let all: Vec<String> = lines.map(check).collect();
    all.chunks(CHECKS_PER_TEXT).map(<[String]>::concat).collect()
}

/// A sheet as it was read.
#[derive(Debug)]
pub(crate) struct CheckedJson {
    /// What it says, if it can be read at all.
    pub(crate) content: Option<Value>,
    /// What is wrong with it: the field, and what.
    pub(crate) problems: Vec<(String, String)>,
}

/// Reads a sheet, and says where it was changed. Takes any bytes.
pub(crate) fn read(name: &str, bytes: &[u8]) -> CheckedJson {
    let text = String::from_utf8_lossy(bytes);
    let parsed = serde_json::from_slice::<Value>(bytes);
    let whole = parsed.as_ref().ok();
    let content = whole.and_then(|whole| whole.get(name)).cloned();
    let mut problems = changes(&text).unwrap_or_default();
    let exact = content.as_ref().is_some_and(|content| write(name, content) == text);
    if problems.is_empty() && !exact {
        // Laid out anew, perhaps; then the lines of the usual layout say what else was changed.
        let usual = whole.map(lines).unwrap_or_default();
        problems = changes(&usual).unwrap_or_default();
        problems.push(match &parsed {
            Ok(_) => (first_difference(&text, &usual), "is not written as it was signed".into()),
            Err(error) => ("checks".into(), format!("the sheet cannot be read: {error}")),
        });
    }
    for (field, _) in &mut problems {
        *field = shown(field, name);
    }
    CheckedJson { content, problems }
}

/// Which lines do not match their checks; none when there are no checks.
fn changes(text: &str) -> Option<Vec<(String, String)>> {
    let all: Vec<&str> = text.lines().collect();
    let head = all.iter().rposition(|line| line.starts_with(HEAD))?;
    let (body, tail) = all.split_at_checked(head)?;
    let quoted = |line: &str| line.trim_start().trim_end_matches(',').trim_matches('"').to_owned();
    let each: Vec<String> =
        tail.iter().filter(|line| line.starts_with("      \"")).map(|line| quoted(line)).collect();
    let digest = tail.iter().find_map(|line| line.strip_prefix("    \"digest\": ")).map(quoted);
    let known: Vec<char> = each.concat().chars().collect();
    let known: Vec<String> = known.chunks(CHECK_DIGITS).map(|check| check.iter().collect()).collect();
    let checks_hold = digest == Some(Digest::from_content("checks", &each).0);
    let mut differ: Vec<usize> = (0..body.len().max(known.len()))
        .filter(|place| body.get(*place).map(|line| check(line)) != known.get(*place).cloned())
        .collect();
    if body.len() != known.len() {
        // A line more or less: all that follow are out of step.
        differ.truncate(1);
    }
    let mut problems = Vec::new();
    if !checks_hold && differ.is_empty() {
        problems.push(("checks.digest".to_owned(), "has been changed".to_owned()));
    }
    let paths = if differ.is_empty() { Vec::new() } else { paths(body) };
    for place in differ {
        let path = paths.get(place).cloned().unwrap_or_else(|| "checks".into());
        problems.push(if checks_hold {
            (path, "has been changed".into())
        } else {
            (
                format!("checks.each[{}]", place / CHECKS_PER_TEXT),
                format!("the check of {path}, or it, has been changed"),
            )
        });
    }
    Some(problems)
}

/// The path of each line, by its indentation and the lines before it.
fn paths(lines: &[&str]) -> Vec<String> {
    struct Inside {
        path: String,
        array: bool,
        next: usize,
    }
    let mut inside: Vec<Inside> = Vec::new();
    let mut all = Vec::with_capacity(lines.len());
    for line in lines {
        let content = line.trim_start();
        let depth = ((line.len() - content.len()) / 2).min(inside.len());
        if content.starts_with(['}', ']']) {
            all.push(inside.get(depth).map(|closed| closed.path.clone()).unwrap_or_default());
            inside.truncate(depth);
            continue;
        }
        inside.truncate(depth);
        let path = match inside.last_mut() {
            None => String::new(),
            Some(parent) if parent.array => {
                parent.next += 1;
                format!("{}[{}]", parent.path, parent.next - 1)
            }
            Some(parent) => {
                let name =
                    content.strip_prefix('"').and_then(|rest| rest.split_once("\": ")).map(|(name, _)| name);
                match name {
                    Some(name) if parent.path.is_empty() => name.to_owned(),
                    Some(name) => format!("{}.{name}", parent.path),
                    None => parent.path.clone(),
                }
            }
        };
        all.push(path.clone());
        if content.ends_with(['{', '[']) {
            inside.push(Inside { path, array: content.ends_with('['), next: 0 });
        }
    }
    all
}

fn first_difference(text: &str, usual: &str) -> String {
    let all: Vec<&str> = usual.lines().collect();
    let place = text.lines().zip(&all).position(|(one, other)| one != *other);
    let paths = paths(&all);
    place.and_then(|place| paths.get(place).cloned()).unwrap_or_default()
}

/// A path for people: without the name of the sheet, and with nothing in it that a terminal would obey.
fn shown(path: &str, name: &str) -> String {
    let within = path.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')).unwrap_or(path);
    let harmless: String =
        within.chars().take(160).map(|c| if c.is_control() || c == '\u{fffd}' { '?' } else { c }).collect();
    if harmless.is_empty() { "the sheet's outline".into() } else { harmless }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> String {
        let assets: Vec<Value> = (0..40)
            .map(|n| json!({ "serial": format!("S{n}"), "of": { "node": null, "tags": ["a", "b"] } }))
            .collect();
        write("assets", &json!(assets))
    }

    #[test]
    fn a_sheet_as_written_has_no_problems() {
        assert_eq!(read("assets", sheet().as_bytes()).problems, []);
    }

    #[test]
    fn a_changed_value_is_named_by_its_path() {
        let problems =
            |from: &str, to: &str| read("assets", sheet().replacen(from, to, 1).as_bytes()).problems;
        assert_eq!(problems("\"S17\"", "\"S18\""), [("assets[17].serial".into(), "has been changed".into())]);
        assert_eq!(
            problems("\"S17\"", "\"S1\u{1}\"")[0].0,
            "assets[17].serial",
            "also where it is JSON no more"
        );
        assert_eq!(problems("\"b\"", "\"c\"")[0].0, "assets[0].of.tags[1]");
    }

    /// Whoever writes the JSON anew, as a script would, is told of the field all the same.
    #[test]
    fn a_value_changed_by_a_script_is_named_too() {
        let mut content: Value = serde_json::from_str(&sheet()).unwrap();
        content["assets"][3]["serial"] = json!("other");
        let problems = read("assets", content.to_string().as_bytes()).problems;
        assert!(problems.contains(&("assets[3].serial".into(), "has been changed".into())), "{problems:?}");
    }

    #[test]
    fn any_one_changed_byte_is_found_and_something_is_named() {
        let sheet = sheet();
        for place in 0..sheet.len() {
            for mask in [0x01, 0x20, 0x80] {
                let mut bytes = sheet.clone().into_bytes();
                bytes[place] ^= mask;
                let problems = read("assets", &bytes).problems;
                assert!(!problems.is_empty(), "byte {place} of {sheet:?}");
                assert!(problems.iter().all(|(field, _)| !field.is_empty()));
            }
        }
    }
}
