//! Signing in through an identity provider, by OpenID Connect (`docs/adr/0018`).
//!
//! Called by `/login`, `/login/callback` and `/v1/sessions`. Invariant: who a session is for, and what they may do, comes from an ID
//! token whose signature, issuer, audience and time were checked here, and from the settings.

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

/// Why somebody was not signed in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// The settings name no provider, or not what this way needs.
    #[error("{0}")]
    Off(String),
    /// The provider does not answer, or not as OpenID Connect says.
    #[error("{0}")]
    Unavailable(String),
    /// What was sent proves nothing.
    #[error("{0}")]
    Refused(String),
    /// It proves who somebody is, and they may do nothing.
    #[error("{why}")]
    NoRole {
        /// Who it is.
        name: String,
        /// Why they may not.
        why: String,
    },
}

/// An error with what caused it: `reqwest` keeps the part that helps to itself.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        words = format!("{words}: {cause}");
        next = cause.source();
    }
    words
}
