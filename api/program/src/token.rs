//! Bearer tokens: `tn_<id>_<secret>`. The only place where secrets are drawn.

use crate::encoding::hex;
use sha2::{Digest as _, Sha256};
use std::io;
use subtle::ConstantTimeEq as _;

/// Length of a secret, in bytes: 256 bits.
const SECRET_BYTES: usize = 32;
/// Length of an id, in bytes. It names the token and is no secret.
const ID_BYTES: usize = 8;

/// A token in the clear; it exists only while it is handed out or checked.
pub struct Token {
    /// Names the token.
    pub id: String,
    secret: String,
}

impl Token {
    /// A token that nobody has seen.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn draw() -> io::Result<Self> {
        Ok(Self { id: hex::encode(&random::<ID_BYTES>()?), secret: hex::encode(&random::<SECRET_BYTES>()?) })
    }

    /// The token that `text` says, if it has the form of one.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.trim().strip_prefix("tn_")?.split_once('_')?;
        let is_hex = |part: &str, bytes: usize| {
            part.len() == bytes * 2 && part.chars().all(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase())
        };
        (is_hex(id, ID_BYTES) && is_hex(secret, SECRET_BYTES))
            .then(|| Self { id: id.into(), secret: secret.into() })
    }

    /// What is stored: the SHA-256 of the secret, in hexadecimal.
    pub fn hash(&self) -> String {
        hex::encode(&Sha256::digest(&self.secret))
    }

    /// Whether `stored` is this token's hash; takes as long either way.
    pub fn matches(&self, stored: &str) -> bool {
        self.hash().as_bytes().ct_eq(stored.as_bytes()).into()
    }

    /// The token as its holder presents it.
    pub fn reveal(&self) -> String {
        format!("tn_{}_{}", self.id, self.secret)
    }
}

/// Bytes that nobody has seen.
///
/// # Errors
/// When the system has no randomness to give.
#[expect(clippy::disallowed_methods, reason = "this is the home of the ban")]
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_recognised_by_its_hash_and_no_other_is() {
        let (token, other) = (Token::draw().unwrap(), Token::draw().unwrap());
        let presented = Token::parse(&token.reveal()).unwrap();
        assert!(presented.matches(&token.hash()));
        assert!(!presented.matches(&other.hash()));
        assert!(!token.hash().contains(&token.secret));
    }

    #[test]
    fn a_text_without_the_form_of_a_token_is_none() {
        for text in ["", "tn_", "tn_00_11", "Bearer x", "tn_0011223344556677_zz"] {
            assert!(Token::parse(text).is_none(), "{text:?}");
        }
    }
}
