//! Masks everything in a log line that has the form of a secret.
//!
//! No code should log a secret. This module protects against errors of libraries that repeat a URL with a password, and against careless
//! log statements. A line without a secret is scanned once and not copied.

use std::borrow::Cow;

/// The replacement for a secret.
pub(super) const MASK: &str = "***";

/// Returns the line with its secrets masked.
pub(super) fn masked(line: &[u8]) -> Cow<'_, [u8]> {
    let (mut masked, mut kept, mut at) = (Vec::new(), 0, 0);
    while let Some(rest) = line.get(at..).filter(|rest| !rest.is_empty()) {
        let Some((from, to)) = secret(rest) else {
            at += 1;
            continue;
        };
        masked.extend_from_slice(line.get(kept..at + from).unwrap_or_default());
        masked.extend_from_slice(MASK.as_bytes());
        (kept, at) = (at + to, at + to);
    }
    if kept == 0 {
        return Cow::Borrowed(line);
    }
    masked.extend_from_slice(line.get(kept..).unwrap_or_default());
    Cow::Owned(masked)
}

/// Returns the range of a secret at the beginning of `rest`, if there is one.
fn secret(rest: &[u8]) -> Option<(usize, usize)> {
    match rest.first()? {
        b't' => token(rest),
        b'w' => after(rest, b"whsec_", is_token68, 1),
        b'B' | b'b' => bearer(rest),
        b'e' => signed(rest),
        b':' => password(rest),
        b'-' => private_key(rest),
        _ => None,
    }
}

/// Finds the secret part of `tn_<id>_<secret>`, the form of all tokens. The id is not secret and stays.
fn token(rest: &[u8]) -> Option<(usize, usize)> {
    let id = run(rest.strip_prefix(b"tn_")?, |c| c.is_ascii_hexdigit());
    let from = 3 + id + 1;
    let is_one = id > 0 && rest.get(from - 1) == Some(&b'_');
    let secret = run(rest.get(from..)?, |c| c.is_ascii_hexdigit());
    (is_one && secret >= LEAST).then_some((from, from + secret))
}

/// The least number of characters of a secret; a shorter run is a word.
const LEAST: usize = 8;

/// Finds the token after `Bearer`, in any case.
fn bearer(rest: &[u8]) -> Option<(usize, usize)> {
    let word = rest.get(..7).filter(|word| word.eq_ignore_ascii_case(b"bearer "))?;
    after(rest, word, is_token68, LEAST)
}

/// Finds a JSON Web Token: three parts in base64, the first of which begins with an encoded JSON object.
fn signed(rest: &[u8]) -> Option<(usize, usize)> {
    let long = run(rest.strip_prefix(b"eyJ")?, is_token68);
    let dots = rest.get(3..3 + long)?.iter().filter(|c| **c == b'.').count();
    (dots >= 2).then_some((3, 3 + long))
}

/// Finds the password in `://user:password@`.
fn password(rest: &[u8]) -> Option<(usize, usize)> {
    let whole = run(rest.strip_prefix(b"://")?, |c| !c.is_ascii_whitespace() && !b"/?#\"\\<>".contains(&c));
    let authority = rest.get(3..3 + whole)?;
    let end = authority.iter().rposition(|c| *c == b'@')?;
    let colon = authority.get(..end)?.iter().position(|c| *c == b':')?;
    (colon + 1 < end).then_some((3 + colon + 1, 3 + end))
}

/// Finds the content of a PEM private key, also if it is cut off. In JSON, its line ends are escaped.
fn private_key(rest: &[u8]) -> Option<(usize, usize)> {
    const KIND: &[u8] = b"PRIVATE KEY-----";
    const LONGEST_KIND: usize = 40;
    const END: &[u8] = b"-----END ";
    let begun = rest.strip_prefix(b"-----BEGIN ")?;
    let kind =
        begun.get(..LONGEST_KIND).unwrap_or(begun).windows(KIND.len()).position(|text| text == KIND)?;
    let from = rest.len() - begun.len() + kind + KIND.len();
    let content = rest.get(from..)?;
    let content = content.get(..run(content, |c| c != b'"'))?;
    let end = content.windows(END.len()).position(|text| text == END);
    // The backslash of an escaped quote stays. Without it, the quote would end the JSON string.
    let without =
        content.iter().rposition(|c| *c != b'\\' && !c.is_ascii_whitespace()).map_or(0, |last| last + 1);
    let long = end.unwrap_or(without);
    (long > 0).then_some((from, from + long))
}

/// Finds the text after `mark`, if it has at least `least` characters.
fn after(rest: &[u8], mark: &[u8], is: impl Fn(u8) -> bool, least: usize) -> Option<(usize, usize)> {
    let long = run(rest.strip_prefix(mark)?, is);
    (long >= least).then_some((mark.len(), mark.len() + long))
}

/// Returns the number of leading bytes that satisfy `is`.
fn run(bytes: &[u8], is: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|c| !is(*c)).unwrap_or(bytes.len())
}

/// Returns true for a character of a token (RFC 9110, token68).
fn is_token68(c: u8) -> bool {
    c.is_ascii_alphanumeric() || b"-._~+/=".contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        String::from_utf8(masked(line.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn each_kind_of_secret_is_masked_and_the_surrounding_text_stays() {
        let secret = "5e".repeat(32);
        for (line, without) in [
            (
                format!("token=tn_0011223344556677_{secret} of olga"),
                "token=tn_0011223344556677_*** of olga".into(),
            ),
            (
                "the key whsec_MfKQ9r8GKYqr/TwjUPD8ILPZIo2LaLaSw== signs".into(),
                "the key whsec_*** signs".into(),
            ),
            ("Authorization: Bearer abc.def-ghi_~+/9=\r\n".into(), "Authorization: Bearer ***\r\n".into()),
            ("authorization: bearer 0123456789, next".into(), "authorization: bearer ***, next".into()),
            ("id_token eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl, next".into(), "id_token eyJ***, next".into()),
            (
                "postgres://tenure:hunter2@db:5432/x?a=b@c".into(),
                "postgres://tenure:***@db:5432/x?a=b@c".into(),
            ),
            (
                "https://u:p%40a:b@c@host/ and http://u:p@h".into(),
                "https://u:***@host/ and http://u:***@h".into(),
            ),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMIIB\nAQAB\n-----END RSA PRIVATE KEY-----\nnext".into(),
                "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----\nnext".into(),
            ),
            (
                "{\"why\":\"-----BEGIN PRIVATE KEY-----\\nMIIB\\n\",\"n\":1}\n".into(),
                "{\"why\":\"-----BEGIN PRIVATE KEY-----***\",\"n\":1}\n".into(),
            ),
        ] as [(String, String); 9]
        {
            assert_eq!(shown(&line), without);
        }
    }

    #[test]
    fn a_line_without_a_secret_is_neither_changed_nor_copied() {
        for line in [
            "",
            "the bearer of this, btn_ok and tn_x; tn_00112233_short",
            "https://id.example:8443/realms/a:b@c and postgres://tenure@db/x",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "eyJust.a word -----BEGIN ",
            "digest 5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e",
        ] {
            assert!(
                matches!(masked(line.as_bytes()), Cow::Borrowed(same) if same == line.as_bytes()),
                "{line}"
            );
        }
    }
}
