//! Percent-encoding of URL path segments.

use std::fmt::Write as _;

/// Returns `text` as one path segment of a URL.
pub fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// Returns the bytes of a text with `%XX` escapes.
pub fn decode(path: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut parts = path.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let (said, rest) = part.split_at_checked(2).unwrap_or(("", part));
        match u8::from_str_radix(said, 16) {
            Ok(byte) => bytes.push(byte),
            // The characters are not an escape and stay.
            Err(_) => {
                bytes.push(b'%');
                bytes.extend_from_slice(said.as_bytes());
            }
        }
        bytes.extend_from_slice(rest.as_bytes());
    }
    bytes
}
