//! An attempt to sign in, between leaving for the provider and coming back. Nothing is kept of it: the state that the provider sends
//! back says when it ends and what it answers, under a key that all servers of a store have.

use super::SignInError;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::hmac;
use std::time::Duration;
use store::Timestamp;

/// How long the way through the provider may take.
const WITHIN: Duration = Duration::from_secs(15 * 60);
/// Length of what every attempt is drawn from, in bytes.
const DRAWN: usize = 32;

/// Makes attempts, and knows its own.
pub(crate) struct Attempts(hmac::Key);

/// One attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// What the provider sends back as it is.
    pub(crate) state: String,
    /// What it writes into the ID token.
    pub(crate) nonce: String,
    /// What only we can show it when its code is exchanged (PKCE).
    pub(crate) verifier: String,
    /// The SHA-256 of what only the tab that began can show.
    pub(crate) challenge: String,
}

impl Attempts {
    /// Attempts under the key that `secret` is.
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// An attempt for whoever has the secret of `challenge`, made of bytes that nobody has seen.
    pub(crate) fn begin(&self, drawn: &[u8; DRAWN], challenge: &str, now: Timestamp) -> Attempt {
        let said = format!("{}.{}.{challenge}", now.after(WITHIN).0, BASE64_URL_SAFE_NO_PAD.encode(drawn));
        self.attempt(&said)
    }

    /// The attempt that `state` belongs to.
    ///
    /// # Errors
    /// [`SignInError::Refused`] when it is none of ours, or is over.
    pub(crate) fn end(&self, state: &str, now: Timestamp) -> Result<Attempt, SignInError> {
        let refused = |why: &str| SignInError::Refused(format!("{why}; sign in again"));
        let (said, tag) =
            state.rsplit_once('.').ok_or_else(|| refused("this answers no attempt to sign in"))?;
        let tag = BASE64_URL_SAFE_NO_PAD.decode(tag).unwrap_or_default();
        hmac::verify(&self.0, format!("state.{said}").as_bytes(), &tag)
            .map_err(|_| refused("this answers no attempt to sign in that began here"))?;
        let until = said.split('.').next().and_then(|until| until.parse().ok()).map(Timestamp);
        if until.is_none_or(|until| until < now) {
            return Err(refused("the attempt to sign in took longer than a quarter of an hour"));
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
    fn an_attempt_comes_back_as_it_left_and_only_in_its_time() {
        let attempts = Attempts::new(b"key");
        let began = attempts.begin(&[7; DRAWN], "tab", NOW);
        assert_eq!(attempts.end(&began.state, NOW.after(WITHIN)).unwrap(), began);
        assert_eq!(began.challenge, "tab");
        let late = attempts.end(&began.state, NOW.after(WITHIN + Duration::from_secs(1)));
        assert!(matches!(late, Err(SignInError::Refused(_))));
        assert_ne!(began.nonce, began.verifier);
    }

    #[test]
    fn a_state_that_was_changed_or_is_somebody_elses_is_none() {
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
