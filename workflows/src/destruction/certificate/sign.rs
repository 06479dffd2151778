//! The signature of a certificate: the only part that needs an external system.

use super::envelope;
use crate::{
    destruction::codes,
    platform::Platform,
    signing::{PublicKey, dsse::Signature},
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};

/// Signs the cover of a certificate. Safe to run twice: Ed25519 gives the same signature for the same bytes, and nothing else changes. It has no
/// undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignCertificate {
    /// The cover from [`AssembledCertificate`](super::AssembledCertificate).
    pub cover: String,
}

/// A signature and its public key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateSignature {
    /// The signature.
    pub signature: Signature,
    /// The public half of the key.
    pub public_key: PublicKey,
}

impl Action for SignCertificate {
    const NAME: &'static str = "SignCertificate";
    type Platform = Platform;
    type Output = CertificateSignature;

    async fn run(&self, on: &Platform, _: &Call) -> Result<CertificateSignature, ActionError> {
        let (signature, public_key) = envelope::sign(&self.cover, on.signer.as_ref())
            .await
            .map_err(|why| ActionError::transient(codes::SIGNER_FAILED, why))?;
        Ok(CertificateSignature { signature, public_key })
    }
}
