//! Sign-in with an identity provider, by OpenID Connect (`docs/adr/0018`).
//!
//! Called by `/login`, `/login/callback` and `/v1/sessions`. Invariant: the user and roles of a session come from the settings and an ID token whose signature,
//! issuer, audience and time were verified here.

mod attempt;
mod check;
mod device;
mod keys;
mod person;
mod provider;

pub(crate) use attempt::{Attempt, Attempts};
pub use device::DeviceAuthorization;
pub(crate) use keys::install_signatures;
pub use provider::Provider;

/// The reason of a failed sign-in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// The settings have no provider, or lack a value for this flow.
    #[error("{0}")]
    Off(String),
    /// The provider does not answer, or not according to OpenID Connect.
    #[error("{0}")]
    Unavailable(String),
    /// The proof is invalid.
    #[error("{0}")]
    Refused(String),
    /// The person is known, but has no role.
    #[error("{why}")]
    NoRole {
        /// The name of the person.
        name: String,
        /// The reason.
        why: String,
    },
}

/// Returns an error with its causes, because `reqwest` does not print them.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        words = format!("{words}: {cause}");
        next = cause.source();
    }
    words
}
