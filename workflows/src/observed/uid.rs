//! The identity of an observed object.

use sha2::{Digest as _, Sha256};
use std::fmt;
use store::CompositeKey;

/// The UID of an object, in 16 bytes. A UUID keeps its value. Any other text is hashed to a UUID of version 8, which API servers do not create.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid([u8; 16]);

impl Uid {
    /// Returns the UID that a text names. Two different texts never name the same object.
    #[must_use]
    pub fn of(text: &str) -> Self {
        uuid(text).map_or_else(|| Self::hashed(text), Self)
    }

    /// Returns the UID of an object without one, from all parts of its identity.
    #[must_use]
    pub fn of_parts(parts: &[&dyn fmt::Display]) -> Self {
        Self::hashed(&CompositeKey::of(parts))
    }

    /// Returns the UUID that the cluster gave; `None` if the UID is the hash of another text.
    #[must_use]
    pub fn uuid(self) -> Option<String> {
        (!self.is_hashed()).then(|| self.to_string())
    }

    fn is_hashed(self) -> bool {
        let [_, _, _, _, _, _, version, ..] = self.0;
        version >> 4 == 8
    }

    fn hashed(text: &str) -> Self {
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(Sha256::digest(text.as_bytes())) {
            *to = from;
        }
        let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
        *version = (*version & 0x0f) | 0x80;
        *variant = (*variant & 0x3f) | 0x80;
        Self(bytes)
    }
}

/// Returns the bytes of a UUID in its canonical form. Upper case is another text, and so another object.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let dashes = [8, 13, 18, 23];
    let digit = |(at, byte): (usize, u8)| match byte {
        b'-' => dashes.contains(&at).then_some(None),
        b'0'..=b'9' => (!dashes.contains(&at)).then_some(Some(byte - b'0')),
        b'a'..=b'f' => (!dashes.contains(&at)).then_some(Some(byte - b'a' + 10)),
        _ => None,
    };
    if text.len() != 36 {
        return None;
    }
    let digits: Option<Vec<Option<u8>>> = text.bytes().enumerate().map(digit).collect();
    let digits: Vec<u8> = digits?.into_iter().flatten().collect();
    let mut bytes = [0; 16];
    for (to, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *to = (high << 4) | low;
    }
    // A real UUID of version 8 is hashed like any other text.
    (!Uid(bytes).is_hashed()).then_some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if [4, 6, 8, 10].contains(&at) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_keeps_its_value_and_any_other_text_gets_a_value_of_its_own() {
        let uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";
        assert_eq!(Uid::of(uuid).to_string(), uuid);

        let texts = [
            uuid,
            &uuid.to_uppercase(),
            "0f8fad5b-d9cb-869f-a165-70867728950e",
            "0f8fad5bd9cb469fa16570867728950e",
            "-f8fad5b-d9cb-469f-a165-70867728950e",
            "mirror",
            "",
        ];
        let uids: std::collections::BTreeSet<Uid> = texts.iter().map(|text| Uid::of(text)).collect();
        assert_eq!(uids.len(), texts.len());
        assert_ne!(Uid::of_parts(&[&"a/b", &"c"]), Uid::of_parts(&[&"a", &"b/c"]));
    }
}
