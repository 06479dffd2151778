//! The file of a certificate: a DSSE envelope with the signed cover, its signatures and the pages.
//!
//! In addition to the three DSSE fields the envelope has `pages`, which DSSE readers ignore. The signed cover has the digest of each page. A file has
//! exactly one valid form, so that every changed byte is detected.

use super::PAYLOAD_TYPE;
use crate::signing::{
    PublicKey, Signer,
    dsse::{Signature, pae},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// A certificate's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Envelope {
    /// The cover in base64.
    pub payload: String,
    /// [`PAYLOAD_TYPE`].
    pub payload_type: String,
    /// The signatures of the cover.
    pub signatures: Vec<Signature>,
    /// The pages in base64.
    pub pages: Vec<String>,
}

/// Signs a cover.
///
/// # Errors
/// The error of the signer.
pub(crate) async fn sign(cover: &str, signer: &dyn Signer) -> Result<(Signature, PublicKey), String> {
    let (sig, key) = signer.sign(&pae(PAYLOAD_TYPE, cover.as_bytes())).await?;
    Ok((Signature::new(&key, &sig), key))
}

/// Returns true if the signature is a signature of this cover by this key.
pub(crate) fn fits(cover: &str, signature: &Signature, key: &PublicKey) -> bool {
    let sig = STANDARD.decode(&signature.sig);
    sig.is_ok_and(|sig| key.verifies(&pae(PAYLOAD_TYPE, cover.as_bytes()), &sig))
}

/// Returns the file of a signed certificate.
#[must_use]
pub fn file(cover: &str, signatures: Vec<Signature>, pages: &[String]) -> String {
    let pages = pages.iter().enumerate().map(|(number, text)| page(number, text));
    std::iter::once(beginning(cover, signatures)).chain(pages).chain([END.to_owned()]).collect()
}

/// The end of a file, after its last page.
pub(crate) const END: &str = "]}\n";

/// Returns the beginning of a file, before its first page.
pub(crate) fn beginning(cover: &str, signatures: Vec<Signature>) -> String {
    let envelope = Envelope {
        payload: STANDARD.encode(cover),
        payload_type: PAYLOAD_TYPE.into(),
        signatures,
        pages: Vec::new(),
    };
    let mut text = envelope.written();
    text.truncate(text.len().saturating_sub(END.len()));
    text
}

/// Returns page `number`, from 0, as it is in a file.
pub(crate) fn page(number: usize, text: &str) -> String {
    let comma = if number == 0 { "" } else { "," };
    format!("{comma}\"{}\"", STANDARD.encode(text))
}

impl Envelope {
    /// Returns the only valid form of the file.
    pub(crate) fn written(&self) -> String {
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }
}
