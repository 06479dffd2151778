//! The keys that encrypt and decrypt bodies.

use crate::{
    hex,
    model::encrypted_body::{self, EncryptedBody, KeyId, NONCE},
    random,
};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use std::fmt;
use zeroize::Zeroizing;

/// 32 secret bytes. Never shown, and wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<[u8; 32]>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// A secret from 64 hexadecimal digits, with white space around them allowed; `None` if it is anything else.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(hex::decode(text.trim())?);
        Self::from_bytes(&bytes)
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(Zeroizing::new(bytes.try_into().ok()?)))
    }

    pub(super) fn random() -> Result<Self, String> {
        let mut bytes = Zeroizing::new([0; 32]);
        random::fill(bytes.as_mut_slice())?;
        Ok(Self(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.0).into())
    }

    /// Encrypts `plain` with a fresh nonce: the nonce, then the ciphertext and its tag. Decryption needs the same
    /// `about`.
    pub(super) fn encrypt(&self, about: &[u8], plain: &[u8]) -> Result<Vec<u8>, String> {
        let mut nonce = [0; NONCE];
        random::fill(&mut nonce)?;
        let payload = Payload { msg: plain, aad: about };
        let sealed = self.cipher().encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| "it is too long to be encrypted".to_owned())?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Decrypts, or returns `None` if the data was not encrypted with this secret and this `about`.
    pub(super) fn decrypt(&self, about: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>()?;
        self.cipher().decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: about }).ok()
    }
}

/// Seals `plain` for `owner`. Only under the same owner, key and `about` does it open again.
pub(super) fn encrypt(
    owner: &str,
    key: KeyId,
    secret: &Secret,
    about: &str,
    plain: &[u8],
) -> Result<Vec<u8>, String> {
    let mut bytes = encrypted_body::head(owner, key)?;
    let about = [bytes.as_slice(), about.as_bytes()].concat();
    bytes.extend(secret.encrypt(&about, plain)?);
    Ok(bytes)
}

/// Decrypts `body`, or returns `None` if it was not encrypted with `secret` and `about`.
pub(super) fn decrypt(body: &EncryptedBody<'_>, secret: &Secret, about: &str) -> Option<Vec<u8>> {
    secret.decrypt(&[body.head, about.as_bytes()].concat(), body.sealed)
}
