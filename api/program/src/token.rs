//! Bearer tokens: `tn_<id>_<secret>`. The only place where secrets are generated.

use crate::encoding::hex;
use sha2::{Digest as _, Sha256};
use std::io;
use subtle::ConstantTimeEq as _;

/// The length of a secret in bytes: 256 bits.
const SECRET_BYTES: usize = 32;
/// The length of an id in bytes. The id names the token and is not secret.
const ID_BYTES: usize = 8;

/// A token in the clear. It exists only while it is issued or checked.
pub struct Token {
    /// The id of the token.
    pub id: String,
    secret: String,
}

impl Token {
    /// Generates a token.
    ///
    /// # Errors
    /// The system's random number generator fails.
    pub fn draw() -> io::Result<Self> {
        Ok(Self { id: hex::encode(&random::<ID_BYTES>()?), secret: hex::encode(&random::<SECRET_BYTES>()?) })
    }

    /// Parses a token, or returns `None` if the text does not have the form of a token.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.trim().strip_prefix("tn_")?.split_once('_')?;
        let is_hex = |part: &str, bytes: usize| {
            part.len() == bytes * 2 && part.chars().all(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase())
        };
        (is_hex(id, ID_BYTES) && is_hex(secret, SECRET_BYTES))
            .then(|| Self { id: id.into(), secret: secret.into() })
    }

    /// Returns the hash to store: the SHA-256 of the secret, in hexadecimal.
    pub fn hash(&self) -> String {
        hex::encode(&Sha256::digest(&self.secret))
    }

    /// Returns true if `stored` is this token's hash. Takes constant time.
    pub fn matches(&self, stored: &str) -> bool {
        self.hash().as_bytes().ct_eq(stored.as_bytes()).into()
    }

    /// Returns the token in the form that its holder sends.
    pub fn reveal(&self) -> String {
        format!("tn_{}_{}", self.id, self.secret)
    }
}

/// Generates random bytes.
///
/// # Errors
/// The system's random number generator fails.
#[expect(clippy::disallowed_methods, reason = "the only place where randomness is drawn")]
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_matches_only_its_own_hash() {
        let (token, other) = (Token::draw().unwrap(), Token::draw().unwrap());
        let presented = Token::parse(&token.reveal()).unwrap();
        assert!(presented.matches(&token.hash()));
        assert!(!presented.matches(&other.hash()));
        assert!(!token.hash().contains(&token.secret));
    }

    #[test]
    fn text_without_the_form_of_a_token_is_rejected() {
        for text in ["", "tn_", "tn_00_11", "Bearer x", "tn_0011223344556677_zz"] {
            assert!(Token::parse(text).is_none(), "{text:?}");
        }
    }
}
