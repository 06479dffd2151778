//! DSSE, the signing envelope of <https://github.com/secure-systems-lab/dsse>: a signature over the exact bytes and their type.

use super::PublicKey;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// One signature of an envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The id of the key: [`PublicKey::id`].
    pub keyid: String,
    /// The signature in base64.
    pub sig: String,
}

impl Signature {
    /// Returns a signature made by this key.
    #[must_use]
    pub fn new(key: &PublicKey, bytes: &[u8]) -> Self {
        Self { keyid: key.id(), sig: STANDARD.encode(bytes) }
    }
}

/// Returns the bytes to sign: type and content, each with its length, so that they cannot be confused.
#[must_use]
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vector of the DSSE specification.
    #[test]
    fn the_signed_bytes_follow_the_dsse_specification() {
        let bytes = pae("http://example.com/HelloWorld", b"hello world");
        assert_eq!(bytes, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }
}
