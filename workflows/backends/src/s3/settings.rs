//! The settings of an object store.

use crate::SettingError;
use serde::Deserialize;
use std::path::PathBuf;

/// The object store of one region.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Target {
    /// The region as tenants' regions are called here; buckets are named for it.
    pub region: String,
    /// Its address, such as `https://s3.example.org`. Buckets are addressed by path.
    pub endpoint: String,
    /// The host that the store sees in requests, with its port where it is no usual one, for where a proxy in between puts
    /// another than the endpoint's. Default the endpoint's. Signatures cover it.
    #[serde(default)]
    pub signed_host: Option<String>,
    /// The region that signatures name. Default `us-east-1`, which stores without regions take.
    #[serde(default = "signing_region")]
    pub signing_region: String,
    /// The location constraint that a new bucket is made with. Default none: where the endpoint puts it.
    #[serde(default)]
    pub location: Option<String>,
    /// With which credentials buckets are made and removed.
    pub account: Account,
    /// With which credentials it is verified that buckets are gone: others, of the same account, that need only read.
    /// Default none: then nothing can be verified, and what asks for it is refused.
    #[serde(default)]
    pub verifier: Option<Account>,
    /// How objects are encrypted. Default `kms`.
    #[serde(default)]
    pub encryption: Encryption,
    /// What the store calls a tenant's key, with `{key}` for its name in the key store. Default `{key}`.
    #[serde(default = "kms_key")]
    pub kms_key: String,
    /// Whether objects under a lock in governance mode are removed for all that, for which the account needs
    /// `s3:BypassGovernanceRetention`. Default false: they are reported as kept until their day, as those in compliance mode.
    #[serde(default)]
    pub bypass_governance: bool,
    /// PEM certificates that are trusted besides the system's. Default none.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// What the keys of bucket tags begin with. Default `tenure.dev`.
    #[serde(default = "mark_prefix")]
    pub mark_prefix: String,
}

/// Credentials at an object store.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// The access key's id, which is not secret.
    pub access_key_id: String,
    /// The file with the secret key. Read whenever something is signed.
    pub secret_key_file: PathBuf,
}

/// How the objects of a bucket are encrypted with the tenant's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encryption {
    /// By the store: every bucket has `aws:kms` with the tenant's key as its default encryption, which is read back.
    #[default]
    Kms,
    /// Not by the store: the key's name is only recorded in a tag. For stores that cannot, and where clients encrypt. Destroying
    /// the key then says nothing of what clients left in the clear; the removal of every version does.
    Recorded,
}

impl S3Target {
    pub(super) fn check(&self) -> Result<(), SettingError> {
        let empty = |field, text: &str| {
            if text.is_empty() { Err(SettingError::new(field, "is empty: fill it in")) } else { Ok(()) }
        };
        empty("region", &self.region)?;
        empty("signing_region", &self.signing_region)?;
        empty("account.access_key_id", &self.account.access_key_id)?;
        empty("mark_prefix", &self.mark_prefix)?;
        if !self.kms_key.contains("{key}") {
            let why = "must contain {key}: else every tenant's bucket would be under one key";
            return Err(SettingError::new("kms_key", why));
        }
        let Some(verifier) = &self.verifier else { return Ok(()) };
        if verifier.access_key_id == self.account.access_key_id {
            let why = "is the account's own: a verification with the same credentials proves nothing";
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
