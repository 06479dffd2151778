//! Settings of a Vault.

use crate::SettingError;
use serde::Deserialize;
use std::path::PathBuf;

/// One Vault, or one namespace of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultTarget {
    /// The address, such as `https://vault.example.org:8200`.
    pub endpoint: String,
    /// The namespace, for editions that have them. Default: none.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The mount of the transit engine. Default `transit`.
    #[serde(default = "mount")]
    pub mount: String,
    /// The mount of a key-value engine of version 2, for the labels of keys. Default `secret`.
    #[serde(default = "marks_mount")]
    pub marks_mount: String,
    /// The path of the labels in that engine. Default `tenure/keys`.
    #[serde(default = "marks_path")]
    pub marks_path: String,
    /// The file with the token. It is read at each call, so that an agent can renew it.
    pub token_file: PathBuf,
    /// The file with another token, which verifies destructions and needs only read access. Default: none; then
    /// verification is not possible and requests for it fail.
    #[serde(default)]
    pub verifier_token_file: Option<PathBuf>,
    /// The file with a token that must not have access to any tenant's key, for the isolation probe. Default: none; the
    /// probe then sends no token.
    #[serde(default)]
    pub outsider_token_file: Option<PathBuf>,
    /// A PEM file with certificates that are trusted in addition to the system's. Default: none.
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
            let why = "is the same as token_file: a verification with the same credentials proves nothing";
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
