//! A sheet: JSON with one leaf on each line and a checksum for each line, so that a change can be located.
//!
//! The checksums give no protection; the signature does. It covers every byte of the cover, and the cover has the digest of every page. The checksums
//! only identify the changed field.

use crate::signing::{Digest, canonical::lines};
use serde_json::{Value, json};

/// The type of the signed bytes, in the DSSE envelope.
pub const PAYLOAD_TYPE: &str = "application/vnd.tenure.certificate-of-destruction+json";

/// Digits of one line's checksum: 32 bits of its SHA-256. If two lines have the same checksum, a change is still found, but not located.
const CHECK_DIGITS: usize = 8;
/// The number of checksums in one text.
const CHECKS_PER_TEXT: usize = 64;

/// Returns the sheet with `content` under `name`, and its checksums. `name` sorts before `checks`.
pub(crate) fn write(name: &str, content: &Value) -> String {
    let body = lines(&json!({ name: content, "checks": {} }));
    let each = checks(body.lines().take_while(|line| !line.starts_with(HEAD)));
    let digest = Digest::from_content("checks", &each);
    lines(&json!({ name: content, "checks": { "digest": digest, "each": each } }))
}

/// The beginning of the line that ends the content.
const HEAD: &str = "  \"checks\": {";

fn check(line: &str) -> String {
    Digest::from_bytes(line.as_bytes()).short().chars().take(CHECK_DIGITS).collect()
}

fn checks<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let all: Vec<String> = lines.map(check).collect();
    all.chunks(CHECKS_PER_TEXT).map(<[String]>::concat).collect()
}

/// A parsed sheet.
#[derive(Debug)]
pub(crate) struct CheckedJson {
    /// The content, if the sheet can be parsed.
    pub(crate) content: Option<Value>,
    /// The problems: each has a field and a description.
    pub(crate) problems: Vec<(String, String)>,
}

/// Reads a sheet and locates changes. Accepts any bytes.
pub(crate) fn read(name: &str, bytes: &[u8]) -> CheckedJson {
    let text = String::from_utf8_lossy(bytes);
    let parsed = serde_json::from_slice::<Value>(bytes);
    let whole = parsed.as_ref().ok();
    let content = whole.and_then(|whole| whole.get(name)).cloned();
    let mut problems = changes(&text).unwrap_or_default();
    let exact = content.as_ref().is_some_and(|content| write(name, content) == text);
    if problems.is_empty() && !exact {
        // The sheet may have been reformatted, so the usual layout is checked for other changes.
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

/// Returns the lines that do not match their checksums, or `None` if there are no checksums.
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
        // A line was added or removed, so all later lines differ as well.
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

/// Returns the path of each line, from its indentation and the lines before it.
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

/// Returns a path for display: without the name of the sheet, and without control characters.
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
    fn an_unchanged_sheet_has_no_problems() {
        assert_eq!(read("assets", sheet().as_bytes()).problems, []);
    }

    #[test]
    fn a_changed_value_is_named_with_its_path() {
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

    /// A script that rewrites the JSON changes the layout, but the changed field is still named.
    #[test]
    fn a_value_changed_by_a_script_is_also_named() {
        let mut content: Value = serde_json::from_str(&sheet()).unwrap();
        content["assets"][3]["serial"] = json!("other");
        let problems = read("assets", content.to_string().as_bytes()).problems;
        assert!(problems.contains(&("assets[3].serial".into(), "has been changed".into())), "{problems:?}");
    }

    #[test]
    fn any_single_changed_byte_is_found_and_a_problem_is_named() {
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
