//! Settings of an object store.

use crate::SettingError;
use serde::Deserialize;
use std::path::PathBuf;

/// The object store of one region.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Target {
    /// The region's name in Tenure, which is part of bucket names.
    pub region: String,
    /// The address, such as `https://s3.example.org`. Buckets are addressed by path.
    pub endpoint: String,
    /// The host header that the store receives, with a non-standard port, if a proxy changes it. Signatures cover it.
    /// Default: the endpoint's host.
    #[serde(default)]
    pub signed_host: Option<String>,
    /// The region in signatures. Default `us-east-1`, which stores without regions accept.
    #[serde(default = "signing_region")]
    pub signing_region: String,
    /// The location constraint of new buckets. Default: none; the endpoint chooses.
    #[serde(default)]
    pub location: Option<String>,
    /// The credentials that create and remove buckets.
    pub account: Account,
    /// The credentials that verify removals: others of the same account, which need only read access. Default: none;
    /// then removals cannot be verified and requests for it fail.
    #[serde(default)]
    pub verifier: Option<Account>,
    /// The encryption of objects. Default `kms`.
    #[serde(default)]
    pub encryption: Encryption,
    /// The store's name of a tenant's key; `{key}` is replaced by its name in the key store. Default `{key}`.
    #[serde(default = "kms_key")]
    pub kms_key: String,
    /// True to remove objects under a governance lock, for which the account needs `s3:BypassGovernanceRetention`.
    /// Default false: they are reported as retained until their date, like those in compliance mode.
    #[serde(default)]
    pub bypass_governance: bool,
    /// A PEM file with certificates that are trusted in addition to the system's. Default: none.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The prefix of tag keys. Default `tenure.dev`.
    #[serde(default = "mark_prefix")]
    pub mark_prefix: String,
}

/// Credentials at an object store.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// The id of the access key, which is not secret.
    pub access_key_id: String,
    /// The file with the secret key. It is read for each signature.
    pub secret_key_file: PathBuf,
}

/// How a bucket's objects are encrypted with the tenant's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encryption {
    /// By the store: every bucket's default encryption is `aws:kms` with the tenant's key, and is read back.
    #[default]
    Kms,
    /// Not by the store: the key's name is only recorded in a tag, for stores without encryption and for clients that
    /// encrypt. Destroying the key then proves nothing about unencrypted objects; removing every version does.
    Recorded,
}

impl S3Target {
    pub(super) fn check(&self) -> Result<(), SettingError> {
        let empty = |field, text: &str| {
            if text.is_empty() { Err(SettingError::new(field, "is empty: set it")) } else { Ok(()) }
        };
        empty("region", &self.region)?;
        empty("signing_region", &self.signing_region)?;
        empty("account.access_key_id", &self.account.access_key_id)?;
        empty("mark_prefix", &self.mark_prefix)?;
        if !self.kms_key.contains("{key}") {
            let why = "must contain {key}; otherwise all tenants' buckets would have the same key";
            return Err(SettingError::new("kms_key", why));
        }
        let Some(verifier) = &self.verifier else { return Ok(()) };
        if verifier.access_key_id == self.account.access_key_id {
            let why = "is the same as the account's: a verification with the same credentials proves nothing";
            return Err(SettingError::new("verifier.access_key_id", why));
        }
        Ok(())
    }
}

fn signing_region() -> String {
    "us-east-1".into()
}

fn kms_key() -> String {
    "{key}".into()
}

fn mark_prefix() -> String {
    "tenure.dev".into()
}
