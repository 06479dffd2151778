//! Bytes as hexadecimal text, for digests, keys, tokens and cursors in every crate.

use std::fmt::Write as _;

/// Returns `bytes` in lower-case hexadecimal.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len().saturating_mul(2)), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the bytes of a hexadecimal text, or `None` if it is not valid.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = pairs.iter().map(|[high, low]| Some((digit(*high)? << 4) | digit(*low)?));
    rest.is_empty().then(|| bytes.collect())?
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
