//! Hexadecimal text for tokens, digests and cursors.

use std::fmt::Write as _;

/// Returns `bytes` in lower-case hexadecimal.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the bytes of a hexadecimal text, or `None` if it is not valid.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let (pairs, rest) = digits.as_ref()?.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_reverses_encoding() {
        assert_eq!(decode(&encode(b"\x00acme\xff")), Some(b"\x00acme\xff".to_vec()));
        assert_eq!(decode("abc"), None);
        assert_eq!(decode("zz"), None);
    }
}
