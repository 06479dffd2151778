//! The layout of an encrypted body: `magic | version | length of owner | owner | key | nonce | ciphertext and tag`.
//!
//! Written and read by [`encrypted`](crate::encrypted). It is here because limits do not count what encryption adds.

use crate::hex;
use std::fmt;

/// The first bytes of an encrypted body. Neither JSON nor UTF-8 begins with them.
const MAGIC: u8 = 0xFE;
/// The version of the layout.
const VERSION: u8 = 1;
/// Length of the nonce, in bytes.
pub(crate) const NONCE: usize = 24;
/// Length of the tag that ends the ciphertext, in bytes.
const TAG: usize = 16;

/// Names a key: random, and never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub(crate) [u8; 8]);

impl KeyId {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(Self(hex::decode(text)?.try_into().ok()?))
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

/// An encrypted body, taken apart.
pub(crate) struct EncryptedBody<'a> {
    pub(crate) owner: &'a str,
    pub(crate) key: KeyId,
    /// Everything before the nonce.
    pub(crate) head: &'a [u8],
    /// The nonce, the ciphertext and its tag.
    pub(crate) sealed: &'a [u8],
}

impl<'a> EncryptedBody<'a> {
    /// Returns `None` for plain bytes, and an error for a damaged encrypted body.
    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Option<Result<Self, String>> {
        (bytes.first() == Some(&MAGIC)).then(|| Self::parse(bytes))
    }

    fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let short = || "encrypted bytes that end too early".to_owned();
        let (&[_, version, high, low], rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        if version != VERSION {
            return Err(format!("encrypted in format {version}, which this version of Tenure does not know"));
        }
        let owned = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])));
        let (owner, rest) = owned.ok_or_else(short)?;
        let (key, sealed) = rest.split_first_chunk::<8>().ok_or_else(short)?;
        let owner =
            std::str::from_utf8(owner).map_err(|_| "encrypted for an owner without a name".to_owned())?;
        let head = bytes.get(..bytes.len().saturating_sub(sealed.len())).ok_or_else(short)?;
        Ok(Self { owner, key: KeyId(*key), head, sealed })
    }
}

/// Returns the bytes that encryption has added; 0 for plain bytes.
pub(crate) fn overhead(bytes: &[u8]) -> usize {
    match EncryptedBody::from_bytes(bytes) {
        Some(Ok(body)) => body.head.len().saturating_add(NONCE + TAG),
        Some(Err(_)) | None => 0,
    }
}

/// The head of an encrypted body: everything before the nonce.
///
/// # Errors
/// Fails if `owner` is too long.
pub(crate) fn head(owner: &str, key: KeyId) -> Result<Vec<u8>, String> {
    let length =
        u16::try_from(owner.len()).map_err(|_| format!("{owner:?} is too long for an owner's name"))?;
    let [high, low] = length.to_be_bytes();
    let mut bytes = vec![MAGIC, VERSION, high, low];
    bytes.extend_from_slice(owner.as_bytes());
    bytes.extend_from_slice(&key.0);
    Ok(bytes)
}
