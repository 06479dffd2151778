//! A check of the provider for `tenure doctor`: reads it as the server does, without a sign-in.

use super::{Provider, SignInError};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{
    DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse},
};
use store::Timestamp;

/// The minimum RSA modulus, in bytes; `ring` rejects shorter ones.
const SHORTEST_RSA: usize = 256;

/// The result of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderCheck {
    /// The number of published keys that could be parsed.
    pub published: usize,
    /// The number of them that can sign ID tokens for this server.
    pub usable: usize,
    /// True if the provider supports the device flow, which the command line uses.
    pub has_devices: bool,
}

impl Provider {
    /// Reads the discovery document and the keys.
    ///
    /// # Errors
    /// [`SignInError::Unavailable`]: no answer, an invalid answer, or another issuer.
    pub async fn look(&self, now: Timestamp) -> Result<ProviderCheck, SignInError> {
        let (metadata, keys) = self.seen(now).await?;
        Ok(ProviderCheck {
            published: keys.len(),
            usable: keys.iter().filter(|key| is_usable(key)).count(),
            has_devices: metadata.device_authorization_endpoint.is_some(),
        })
    }
}

/// Returns true if signatures of this key can be verified.
fn is_usable(key: &Jwk) -> bool {
    let is_taken = match &key.algorithm {
        AlgorithmParameters::RSA(rsa) => {
            BASE64_URL_SAFE_NO_PAD.decode(&rsa.n).is_ok_and(|n| n.len() >= SHORTEST_RSA)
        }
        AlgorithmParameters::EllipticCurve(point) => {
            matches!(point.curve, EllipticCurve::P256 | EllipticCurve::P384)
        }
        AlgorithmParameters::OctetKeyPair(pair) => pair.curve == EllipticCurve::Ed25519,
        // A verifier with an octet key could also sign; other types are unknown.
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
    fn keys_that_cannot_verify_signatures_are_not_counted() {
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
