//! The last line of defence: whatever has the shape of a secret is masked in a line before it is written.
//!
//! Nothing is meant to log a secret. This is for the error of a library that repeats the address which it was given, and for whoever
//! adds a line without thinking of it. A line in which nothing is found is looked through once, and not copied.

use std::borrow::Cow;

/// Stands where a secret was.
pub(super) const MASK: &str = "***";

/// The line without what has the shape of a secret.
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

/// From where to where `rest` has a secret, if the shape of one begins with it.
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

/// The secret half of `tn_<id>_<secret>`, as tokens of people, sessions, clusters and agents are formed. The id names it and stays.
fn token(rest: &[u8]) -> Option<(usize, usize)> {
    let id = run(rest.strip_prefix(b"tn_")?, |c| c.is_ascii_hexdigit());
    let from = 3 + id + 1;
    let is_one = id > 0 && rest.get(from - 1) == Some(&b'_');
    let secret = run(rest.get(from..)?, |c| c.is_ascii_hexdigit());
    (is_one && secret >= LEAST).then_some((from, from + secret))
}

/// Fewer characters than this are a word of a sentence, and no secret.
const LEAST: usize = 8;

/// What follows `Bearer`, however it is written.
fn bearer(rest: &[u8]) -> Option<(usize, usize)> {
    let word = rest.get(..7).filter(|word| word.eq_ignore_ascii_case(b"bearer "))?;
    after(rest, word, is_token68, LEAST)
}

/// A token of an identity provider: three parts in base64, of which the first begins as JSON does.
fn signed(rest: &[u8]) -> Option<(usize, usize)> {
    let long = run(rest.strip_prefix(b"eyJ")?, is_token68);
    let dots = rest.get(3..3 + long)?.iter().filter(|c| **c == b'.').count();
    (dots >= 2).then_some((3, 3 + long))
}

/// The password in `://user:password@`.
fn password(rest: &[u8]) -> Option<(usize, usize)> {
    let whole = run(rest.strip_prefix(b"://")?, |c| !c.is_ascii_whitespace() && !b"/?#\"\\<>".contains(&c));
    let authority = rest.get(3..3 + whole)?;
    let end = authority.iter().rposition(|c| *c == b'@')?;
    let colon = authority.get(..end)?.iter().position(|c| *c == b':')?;
    (colon + 1 < end).then_some((3 + colon + 1, 3 + end))
}

/// The content of a private key as PEM, to its end or to that of what was told of it. In JSON the ends of its lines are escaped.
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
    // The backslash of a quote that is escaped stays, or the quote would end the text of a line in JSON.
    let without =
        content.iter().rposition(|c| *c != b'\\' && !c.is_ascii_whitespace()).map_or(0, |last| last + 1);
    let long = end.unwrap_or(without);
    (long > 0).then_some((from, from + long))
}

/// What follows `mark` in `rest`, if there is enough of it.
fn after(rest: &[u8], mark: &[u8], is: impl Fn(u8) -> bool, least: usize) -> Option<(usize, usize)> {
    let long = run(rest.strip_prefix(mark)?, is);
    (long >= least).then_some((mark.len(), mark.len() + long))
}

/// How many bytes at the beginning are so.
fn run(bytes: &[u8], is: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|c| !is(*c)).unwrap_or(bytes.len())
}

/// What tokens are written with (RFC 9110, token68).
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
    fn each_kind_of_secret_is_masked_and_what_stands_around_it_stays() {
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
