//! A provider that is looked at on purpose, for `tenure doctor`: read as the server reads it, and nobody signs in.

use super::{Provider, SignInError};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{
    DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse},
};
use store::Timestamp;

/// The shortest RSA modulus that signatures are checked with, in bytes; `ring` refuses shorter ones.
const SHORTEST_RSA: usize = 256;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderCheck {
    /// Keys that it publishes and that could be read.
    pub published: usize,
    /// Those of them that an ID token may be signed with here.
    pub usable: usize,
    /// Whether it offers sign-in for devices, which is how the command line signs in.
    pub has_devices: bool,
}

impl Provider {
    /// Reads its discovery document and its keys.
    ///
    /// # Errors
    /// [`SignInError::Unavailable`]: it does not answer, not as OpenID Connect says, or calls itself otherwise.
    pub async fn look(&self, now: Timestamp) -> Result<ProviderCheck, SignInError> {
        let (metadata, keys) = self.seen(now).await?;
        Ok(ProviderCheck {
            published: keys.len(),
            usable: keys.iter().filter(|key| is_usable(key)).count(),
            has_devices: metadata.device_authorization_endpoint.is_some(),
        })
    }
}

/// Whether a signature by this key could be checked.
fn is_usable(key: &Jwk) -> bool {
    let is_taken = match &key.algorithm {
        AlgorithmParameters::RSA(rsa) => {
            BASE64_URL_SAFE_NO_PAD.decode(&rsa.n).is_ok_and(|n| n.len() >= SHORTEST_RSA)
        }
        AlgorithmParameters::EllipticCurve(point) => {
            matches!(point.curve, EllipticCurve::P256 | EllipticCurve::P384)
        }
        AlgorithmParameters::OctetKeyPair(pair) => pair.curve == EllipticCurve::Ed25519,
        // Whoever checks by a key of octets could sign with it; what else there may be is not known here.
        _ => false,
    };
    let signs = key.common.public_key_use != Some(PublicKeyUse::Encryption);
    is_taken && signs && DecodingKey::from_jwk(key).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn is_taken(key: Value) -> bool {
        serde_json::from_value(key).is_ok_and(|key: Jwk| is_usable(&key))
    }

    #[test]
    fn keys_that_nothing_can_be_checked_with_are_not_counted() {
        let part = BASE64_URL_SAFE_NO_PAD.encode([1_u8; 32]);
        let rsa = |bytes: usize| json!({ "kty": "RSA", "e": "AQAB", "n": BASE64_URL_SAFE_NO_PAD.encode(vec![1_u8; bytes]) });
        let point = |curve: &str| json!({ "kty": "EC", "crv": curve, "x": part, "y": part });
        assert!(is_taken(rsa(256)) && is_taken(point("P-256")));
        assert!(is_taken(json!({ "kty": "OKP", "crv": "Ed25519", "x": part })));
        let mut sealing = rsa(256);
        sealing["use"] = json!("enc");
        for key in [rsa(128), point("P-521"), sealing, json!({ "kty": "oct", "k": part })] {
            assert!(!is_taken(key.clone()), "{key}");
        }
    }
}
