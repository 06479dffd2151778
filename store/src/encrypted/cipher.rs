//! Sealed bytes: what they look like, and the keys that seal and open them.

use crate::{hex::unhex, random};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use std::fmt;
use zeroize::Zeroizing;

/// Begins all sealed bytes. No JSON begins with it, and no UTF-8 either.
const MAGIC: u8 = 0xFE;
/// How what follows is laid out.
const VERSION: u8 = 1;
const NONCE: usize = 24;
const TAG: usize = 16;

/// Names a key: random, and never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub(super) [u8; 8]);

impl KeyId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(Self(unhex(text)?.try_into().ok()?))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

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
        let bytes = Zeroizing::new(unhex(text.trim())?);
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

    /// `plain` under a fresh nonce: the nonce, then the ciphertext and its tag. `about` must be said again to open it.
    pub(super) fn seal(&self, about: &[u8], plain: &[u8]) -> Result<Vec<u8>, String> {
        let mut nonce = [0; NONCE];
        random::fill(&mut nonce)?;
        let payload = Payload { msg: plain, aad: about };
        let sealed = self.cipher().encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| "it is too long to be sealed".to_owned())?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// What was sealed, or `None` if it is not what was sealed with this secret about this.
    pub(super) fn open(&self, about: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>()?;
        self.cipher().decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: about }).ok()
    }
}

/// Sealed bytes, taken apart: `magic | version | length of owner | owner | key | nonce | ciphertext and tag`.
pub(super) struct Envelope<'a> {
    pub(super) owner: &'a str,
    pub(super) key: KeyId,
    head: &'a [u8],
    sealed: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// `None` for bytes that were never sealed; an error for those that begin as if they were and are not.
    pub(super) fn of(bytes: &'a [u8]) -> Option<Result<Self, String>> {
        (bytes.first() == Some(&MAGIC)).then(|| Self::parse(bytes))
    }

    fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let short = || "sealed bytes that end too early".to_owned();
        let (&[_, version, high, low], rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        if version != VERSION {
            return Err(format!("sealed in form {version}, which this version of Tenure does not know"));
        }
        let owned = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])));
        let (owner, rest) = owned.ok_or_else(short)?;
        let (key, sealed) = rest.split_first_chunk::<8>().ok_or_else(short)?;
        let owner =
            std::str::from_utf8(owner).map_err(|_| "sealed for an owner without a name".to_owned())?;
        let head = bytes.get(..bytes.len().saturating_sub(sealed.len())).ok_or_else(short)?;
        Ok(Self { owner, key: KeyId(*key), head, sealed })
    }

    pub(super) fn open(&self, secret: &Secret, about: &str) -> Option<Vec<u8>> {
        secret.open(&[self.head, about.as_bytes()].concat(), self.sealed)
    }
}

/// What sealing has added to these bytes; 0 if they are not sealed.
pub(crate) fn overhead(bytes: &[u8]) -> usize {
    match Envelope::of(bytes) {
        Some(Ok(envelope)) => envelope.head.len().saturating_add(NONCE + TAG),
        Some(Err(_)) | None => 0,
    }
}

/// Seals `plain` for `owner`. Only under the same owner, key and `about` does it open again.
pub(super) fn seal(
    owner: &str,
    key: KeyId,
    secret: &Secret,
    about: &str,
    plain: &[u8],
) -> Result<Vec<u8>, String> {
    let length = u16::try_from(owner.len()).map_err(|_| format!("{owner:?} is too long for an owner"))?;
    let [high, low] = length.to_be_bytes();
    let mut bytes = vec![MAGIC, VERSION, high, low];
    bytes.extend_from_slice(owner.as_bytes());
    bytes.extend_from_slice(&key.0);
    let about = [bytes.as_slice(), about.as_bytes()].concat();
    bytes.extend(secret.seal(&about, plain)?);
    Ok(bytes)
}
