//! Sign-in attempts, between the redirect to the identity provider and the return. Nothing is stored: the state parameter has the expiry and the challenge,
//! authenticated with a key that all servers of a store share.

use super::SignInError;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::hmac;
use std::time::Duration;
use store::Timestamp;

/// The maximum duration of an attempt.
const WITHIN: Duration = Duration::from_secs(15 * 60);
/// The number of random bytes of an attempt.
const DRAWN: usize = 32;

/// Creates and verifies attempts.
pub(crate) struct Attempts(hmac::Key);

/// A sign-in attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The state parameter, which the provider returns unchanged.
    pub(crate) state: String,
    /// The nonce in the ID token.
    pub(crate) nonce: String,
    /// The PKCE verifier for the exchange of the code.
    pub(crate) verifier: String,
    /// The SHA-256 of a secret that only the browser tab has.
    pub(crate) challenge: String,
}

impl Attempts {
    /// Creates attempts with the key `secret`.
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Starts an attempt for the tab with the secret of `challenge`, from unused random bytes.
    pub(crate) fn begin(&self, drawn: &[u8; DRAWN], challenge: &str, now: Timestamp) -> Attempt {
        let said = format!("{}.{}.{challenge}", now.after(WITHIN).0, BASE64_URL_SAFE_NO_PAD.encode(drawn));
        self.attempt(&said)
    }

    /// Returns the attempt of `state`.
    ///
    /// # Errors
    /// [`SignInError::Refused`] for a foreign or expired state.
    pub(crate) fn end(&self, state: &str, now: Timestamp) -> Result<Attempt, SignInError> {
        let refused = |why: &str| SignInError::Refused(format!("{why}; sign in again"));
        let (said, tag) =
            state.rsplit_once('.').ok_or_else(|| refused("this state belongs to no sign-in attempt"))?;
        let tag = BASE64_URL_SAFE_NO_PAD.decode(tag).unwrap_or_default();
        hmac::verify(&self.0, format!("state.{said}").as_bytes(), &tag)
            .map_err(|_| refused("this state belongs to no sign-in attempt of this server"))?;
        let until = said.split('.').next().and_then(|until| until.parse().ok()).map(Timestamp);
        if until.is_none_or(|until| until < now) {
            return Err(refused("the sign-in took longer than 15 minutes"));
        }
        Ok(self.attempt(said))
    }

    fn attempt(&self, said: &str) -> Attempt {
        let of = |what: &str| {
            let tag = hmac::sign(&self.0, format!("{what}.{said}").as_bytes());
            BASE64_URL_SAFE_NO_PAD.encode(tag.as_ref())
        };
        Attempt {
            state: format!("{said}.{}", of("state")),
            nonce: of("nonce"),
            verifier: of("verifier"),
            challenge: said.rsplit('.').next().unwrap_or_default().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    #[test]
    fn an_attempt_is_restored_from_its_state_until_it_expires() {
        let attempts = Attempts::new(b"key");
        let began = attempts.begin(&[7; DRAWN], "tab", NOW);
        assert_eq!(attempts.end(&began.state, NOW.after(WITHIN)).unwrap(), began);
        assert_eq!(began.challenge, "tab");
        let late = attempts.end(&began.state, NOW.after(WITHIN + Duration::from_secs(1)));
        assert!(matches!(late, Err(SignInError::Refused(_))));
        assert_ne!(began.nonce, began.verifier);
    }

    #[test]
    fn a_changed_or_foreign_state_is_refused() {
        let attempts = Attempts::new(b"key");
        let state = attempts.begin(&[7; DRAWN], "tab", NOW).state;
        for wrong in
            [state.replace("tab", "bat"), state.replacen('1', "2", 1), String::new(), "a.b.c.d".into()]
        {
            assert!(attempts.end(&wrong, NOW).is_err(), "{wrong}");
        }
        assert!(Attempts::new(b"other").end(&state, NOW).is_err());
    }
}
