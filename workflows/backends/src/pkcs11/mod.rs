//! Tenants' keys in a hardware security module, or any token that implements PKCS#11.
//!
//! A key is an AES-256 key that cannot be extracted, labelled with its name. `CKA_ID` contains its tenant and the step
//! that created it, so that key and owner label are created in one call. The key only wraps data keys. A data object
//! next to it stores one wrapped data key; after the destruction, it shows if any key in the token still unwraps it.
//! Invariant: a key counts as destroyed only if a search of the token after login does not find it.
//!
//! PKCS#11 calls block, have no deadlines and no idempotency keys, and cannot be cancelled. They run on their own
//! thread, one at a time. A call that could change something runs only while its caller waits. See
//! `docs/backends/keys.md` for settings and observations on a real token.

mod key_lookup;
mod keys;
mod tenant_resources;
mod token;

use super::SettingError;
use serde::Deserialize;
use std::{path::PathBuf, sync::Arc};
use token::Token;

/// A token of a hardware security module.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pkcs11Target {
    /// The PKCS#11 library, such as `/usr/lib/softhsm/libsofthsm2.so`.
    pub module: PathBuf,
    /// The token's label.
    pub token: String,
    /// The file with the user's PIN. It is read at login; a process stays logged in.
    pub pin_file: PathBuf,
}

/// The keys of one token.
#[derive(Clone, Debug)]
pub struct Pkcs11 {
    token: Arc<Token>,
}

impl Pkcs11 {
    /// Creates the backend for `target`. Loads the library; the token is looked up at each call.
    ///
    /// # Errors
    ///
    /// If a setting is invalid; the error names the field and the fix.
    pub fn connect(target: &Pkcs11Target) -> Result<Self, SettingError> {
        Ok(Self { token: Arc::new(Token::of(target)?) })
    }
}
