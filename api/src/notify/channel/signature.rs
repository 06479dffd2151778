//! Signatures of webhooks according to Standard Webhooks: created by channels, and verified by test receivers.

use crate::notify::channel::secret;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::hmac;

/// The maximum difference between the time of a signature and the verifier's clock, in seconds; from the standard.
const TOLERATED: u64 = 300;

/// The present and the previous secret: each signs.
pub struct SigningKeys(Vec<hmac::Key>);

/// The reason why a signature is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum SignatureError {
    /// The id, time or signature is missing.
    #[strum(serialize = "not signed")]
    Not,
    /// The time is too far from now.
    #[strum(serialize = "signed too long ago, or clocks differ")]
    Late,
    /// No signature matches a known key.
    #[strum(serialize = "signed by another secret, or changed on its way")]
    Other,
}

impl SigningKeys {
    /// Reads the keys from files, each with its setting.
    ///
    /// # Errors
    /// The invalid setting.
    pub fn of<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        files.map(|(key, file)| key_of(key, file)).collect::<Result<_, _>>().map(Self)
    }

    /// Returns `sha256=` and the HMAC-SHA256 of the body with the first secret, in hexadecimal.
    pub(in crate::notify) fn first(&self, body: &str) -> Option<String> {
        let tag = |key| program::encoding::hex::encode(hmac::sign(key, body.as_bytes()).as_ref());
        self.0.first().map(|key| format!("sha256={}", tag(key)))
    }

    /// Returns for each key `v1,` and the HMAC-SHA256 of id, time and body in base64, separated by spaces.
    pub(in crate::notify) fn signatures(&self, id: &str, seconds: u64, body: &str) -> String {
        let signed = format!("{id}.{seconds}.{body}");
        let one = |key| format!("v1,{}", STANDARD.encode(hmac::sign(key, signed.as_bytes())));
        self.0.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// Verifies that a signature matches a key, and that its time is near `now`, both in seconds since 1970.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn verify(
        &self,
        (id, seconds, signatures): (&str, &str, &str),
        body: &[u8],
        now: u64,
    ) -> Result<(), SignatureError> {
        if [id, seconds, signatures].contains(&"") {
            return Err(SignatureError::Not);
        }
        if seconds.parse::<u64>().ok().is_none_or(|at| now.abs_diff(at) > TOLERATED) {
            return Err(SignatureError::Late);
        }
        let signed = [format!("{id}.{seconds}.").as_bytes(), body].concat();
        let tags = signatures.split(' ').filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok());
        let mut known = tags.flat_map(|tag| self.0.iter().map(move |key| (key, tag.clone())));
        match known.any(|(key, tag)| hmac::verify(key, &signed, &tag).is_ok()) {
            true => Ok(()),
            false => Err(SignatureError::Other),
        }
    }
}

/// Reads the key in a file: base64 after `whsec_`, or the raw bytes.
fn key_of(key: &str, file: &str) -> Result<hmac::Key, String> {
    let text = secret(key, file)?;
    let bytes = match text.strip_prefix("whsec_") {
        Some(encoded) => {
            let wrong = |_| format!("{key}: {file}: the text after `whsec_` is not base64");
            STANDARD.decode(encoded).map_err(wrong)?
        }
        None => text.into_bytes(),
    };
    if bytes.len() < 16 {
        return Err(format!("{key}: {file} has less than 16 bytes"));
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: &[u8]) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, secret)
    }

    /// RFC 4231, test case 2.
    #[test]
    fn a_body_has_the_signature_of_the_standard() {
        let keys = SigningKeys(vec![key(b"Jefe")]);
        assert_eq!(
            keys.first("what do ya want for nothing?").unwrap(),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    /// The example of the specification of Standard Webhooks.
    #[test]
    fn a_message_has_the_signature_of_standard_webhooks() {
        let keys = SigningKeys(vec![key(&STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap())]);
        let (id, at, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        let signed = keys.signatures(id, at, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(keys.verify((id, "1614265330", &signed), body.as_bytes(), at), Ok(()));
    }

    #[test]
    fn while_secrets_change_a_receiver_with_either_one_accepts_the_signature() {
        let (old, new) = (b"the previous secret".as_slice(), b"the next secret".as_slice());
        let both = SigningKeys(vec![key(new), key(old)]);
        let signed = both.signatures("m-1", 1_000, "told");
        let checked = |secret: &[u8], body: &str, now: u64| {
            SigningKeys(vec![key(secret)]).verify(("m-1", "1000", &signed), body.as_bytes(), now)
        };
        assert_eq!(checked(old, "told", 1_100), Ok(()));
        assert_eq!(checked(new, "told", 900), Ok(()));
        assert_eq!(checked(new, "tolt", 1_000), Err(SignatureError::Other));
        assert_eq!(checked(b"a foreign secret", "told", 1_000), Err(SignatureError::Other));
        assert_eq!(checked(new, "told", 1_301), Err(SignatureError::Late));
        assert_eq!(both.verify(("m-1", "1000", ""), b"told", 1_000), Err(SignatureError::Not));
    }
}
