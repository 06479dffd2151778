//! The one thing that a certificate needs of the world outside: a signature.

use super::envelope;
use crate::{
    destruction::codes,
    platform::Platform,
    signing::{PublicKey, dsse::Signature},
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};

/// Signs the cover of a certificate. Safe to run twice: Ed25519 gives the same signature for the same bytes, and nothing
/// else changes. There is nothing to undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignCertificate {
    /// The cover, as [`AssembledCertificate`](super::AssembledCertificate) has it.
    pub cover: String,
}

/// A signature and the key that fits it.
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
