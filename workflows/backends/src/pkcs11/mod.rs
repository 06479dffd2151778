//! Tenants' keys in a hardware security module, or in what speaks its protocol, PKCS#11.
//!
//! A key is an AES-256 key that never leaves the token, labelled with its name; what identifies it (`CKA_ID`) says whose it is
//! and which step made it, so that key and mark come to be in one call. It wraps data keys and nothing else. Beside it lies a
//! data object with a data key wrapped by it, of no use to anybody, by which it is tried afterwards whether anything in the
//! token still unwraps it. Invariant: a key counts as gone only when a search of the token, logged in, does not find it.
//!
//! The calls of PKCS#11 block, know neither deadlines nor idempotency keys, and cannot be called off: they are made on a thread
//! of their own, one at a time, and each that could change something only while whoever asked still waits.
//! `docs/backends/keys.md` has the settings and what was seen of a real token.

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
    /// The library that speaks to it, such as `/usr/lib/softhsm/libsofthsm2.so`.
    pub module: PathBuf,
    /// The token's label.
    pub token: String,
    /// The file with the user's PIN. Read whenever a process logs in, which it stays.
    pub pin_file: PathBuf,
}

/// The keys of one token.
#[derive(Clone, Debug)]
pub struct Pkcs11 {
    token: Arc<Token>,
}

impl Pkcs11 {
    /// The token that `target` describes. Loads the library; the token is looked for at each call.
    ///
    /// # Errors
    /// Which field of the settings is wrong, and what to do.
    pub fn connect(target: &Pkcs11Target) -> Result<Self, SettingError> {
        Ok(Self { token: Arc::new(Token::of(target)?) })
    }
}
