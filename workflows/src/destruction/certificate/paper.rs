//! A sheet: JSON with one leaf a line, and a check of each line, so that whoever finds it changed can say where.
//!
//! The checks are no protection, the signature is: it covers every byte of the cover, and the cover names the digest of
//! every page. They only tell which field the change is in.

use crate::destruction::canonical::{Digest, lines};
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
    let digest = Digest::of("checks", &each);
    lines(&json!({ name: content, "checks": { "digest": digest, "each": each } }))
}

/// How the line begins that ends the content.
const HEAD: &str = "  \"checks\": {";

fn check(line: &str) -> String {
    Digest::of_bytes(line.as_bytes()).short().chars().take(CHECK_DIGITS).collect()
}

fn checks<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let all: Vec<String> = lines.map(check).collect();
    all.chunks(CHECKS_PER_TEXT).map(<[String]>::concat).collect()
}
