//! The settings of a Vault.

use crate::SettingError;
use serde::Deserialize;
use std::path::PathBuf;

/// One Vault, or one namespace of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultTarget {
    /// Its address, such as `https://vault.example.org:8200`.
    pub endpoint: String,
    /// The namespace, for editions that have them. Default none.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Where the transit engine is mounted. Default `transit`.
    #[serde(default = "mount")]
    pub mount: String,
    /// Where a key-value engine of version 2 is mounted, for the marks of keys. Default `secret`.
    #[serde(default = "marks_mount")]
    pub marks_mount: String,
    /// The path in it under which the marks are. Default `tenure/keys`.
    #[serde(default = "marks_path")]
    pub marks_path: String,
    /// The file with the token. Read at each call, so that an agent can renew it.
    pub token_file: PathBuf,
    /// The file with a token with which it is verified that keys are gone: another, that need only read. Default none: then
    /// nothing can be verified, and what asks for it is refused.
    #[serde(default)]
    pub verifier_token_file: Option<PathBuf>,
    /// The file with a token that must not be able to use any tenant's key, for the probe of isolation. Default none: the
    /// probe then comes without a token.
    #[serde(default)]
    pub outsider_token_file: Option<PathBuf>,
    /// PEM certificates that are trusted besides the system's. Default none.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
}

impl VaultTarget {
    pub(super) fn check(&self) -> Result<(), SettingError> {
        let plain = |field, text: &str| {
            if text.is_empty() || text.starts_with('/') || text.ends_with('/') {
                let why = format!("{text:?}: write a path without a slash at either end, such as transit");
                return Err(SettingError::new(field, why));
            }
            Ok(())
        };
        plain("mount", &self.mount)?;
        plain("marks_mount", &self.marks_mount)?;
        plain("marks_path", &self.marks_path)?;
        if self.verifier_token_file.as_ref() == Some(&self.token_file) {
            let why = "is token_file itself: a verification with the same credentials proves nothing";
            return Err(SettingError::new("verifier_token_file", why));
        }
        Ok(())
    }
}

fn mount() -> String {
    "transit".into()
}

fn marks_mount() -> String {
    "secret".into()
}

fn marks_path() -> String {
    "tenure/keys".into()
}
