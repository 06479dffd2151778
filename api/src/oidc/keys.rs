//! Verification of ID token signatures with `ring`.

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, EncodingKey,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result},
    signature::{Error, Verifier},
};
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};

/// The accepted signature algorithms. Symmetric ones are excluded, because a verifier could also sign.
pub(super) const TAKEN: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

static BY_RING: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Installs `ring` as the crypto provider of this process. Call it before the first verification.
pub(crate) fn install_signatures() {
    // Fails only if a provider is already installed, which is fine.
    let _ = BY_RING.install_default();
}

fn signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if !TAKEN.contains(algorithm) || key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(VerificationKey { algorithm: *algorithm, key: key.clone() }))
}

/// A key with its algorithm.
struct VerificationKey {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for VerificationKey {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                let rsa = rsa(self.algorithm).ok_or_else(Error::new)?;
                RsaPublicKeyComponents { n, e }.verify(rsa, message, signature)
            }
            DecodingKeyKind::SecretOrDer(point) => {
                let curve = curve(self.algorithm).ok_or_else(Error::new)?;
                UnparsedPublicKey::new(curve, point).verify(message, signature)
            }
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for VerificationKey {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// RSA keys have at least 2048 bits; `ring` rejects shorter ones.
fn rsa(algorithm: Algorithm) -> Option<&'static signature::RsaParameters> {
    match algorithm {
        Algorithm::RS256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
        _ => None,
    }
}

fn curve(algorithm: Algorithm) -> Option<&'static dyn VerificationAlgorithm> {
    match algorithm {
        Algorithm::ES256 => Some(&signature::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Some(&signature::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Some(&signature::ED25519),
        _ => None,
    }
}
