//! All resources with a tenant's mark, in every system: lists, reads, freezes, empties and removes them.
//!
//! The other capabilities create resources; this one finds and removes them. Invariant: a removal names the unique id that it found, and is complete
//! only when a read no longer finds that id.

use crate::platform::{CallMetadata, DriveTool, KeySafety};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    fmt::{self, Debug},
    str::FromStr,
};

/// The systems that can hold a tenant's resources, in the order of a survey.
pub const SYSTEMS: [&str; 10] = [
    "kubernetes",
    "slurm",
    "keys",
    "objects",
    "identity",
    "storage",
    "backups",
    "registry",
    "logs",
    "network",
];

/// The kind of a `storage` resource for the key of an encrypted volume. The key is in the volume's own header.
pub const LUKS_KEY: &str = "LuksKey";

/// The place of a resource: `objects/eu-west/Bucket/t-acme--eu-west`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TenantResource {
    /// The system, one of [`SYSTEMS`].
    pub system: String,
    /// The cluster or region. Empty for a global resource.
    pub place: String,
    /// The resource's kind, as the system names it.
    pub kind: String,
    /// The name, with its namespace if it has one.
    pub name: String,
}

impl TenantResource {
    /// Returns a resource of this kind and name.
    #[must_use]
    pub fn new(system: &str, place: &str, kind: &str, name: &str) -> Self {
        Self { system: system.into(), place: place.into(), kind: kind.into(), name: name.into() }
    }
}

impl fmt::Display for TenantResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.system, self.place, self.kind, self.name)
    }
}

impl From<TenantResource> for String {
    fn from(thing: TenantResource) -> Self {
        thing.to_string()
    }
}

impl FromStr for TenantResource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(4, '/');
        let mut part = || parts.next().map(str::to_owned);
        match (part(), part(), part(), part()) {
            (Some(system), Some(place), Some(kind), Some(name)) => Ok(Self { system, place, kind, name }),
            _ => Err(format!("{text:?} names nothing: write it like objects/eu-west/Bucket/t-acme--eu-west")),
        }
    }
}

impl TryFrom<String> for TenantResource {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A resource as it was observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedResource {
    /// The place of the resource.
    pub thing: TenantResource,
    /// Distinguishes the resource from earlier or later ones of the same name.
    pub uid: String,
    /// The tenant in the resource's own mark.
    pub tenant: String,
    /// The resource's properties, such as the class of its data.
    pub spec: Value,
    /// True while it is being deleted and still exists.
    pub terminating: bool,
}

impl ObservedResource {
    /// Returns a numeric property, or 0 if it is missing.
    #[must_use]
    pub fn number(&self, field: &str) -> u64 {
        self.spec.get(field).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Returns a boolean property, or false if it is missing.
    #[must_use]
    pub fn is(&self, field: &str) -> bool {
        self.spec.get(field).and_then(Value::as_bool).unwrap_or_default()
    }

    /// Returns a text property.
    #[must_use]
    pub fn text(&self, field: &str) -> Option<&str> {
        self.spec.get(field).and_then(Value::as_str)
    }
}

/// The key that encrypts a resource, as its store reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EncryptedBy {
    /// The key of this name.
    Key(String),
    /// No key: its data are readable with access to the storage.
    Nothing,
    /// The store does not report the key.
    #[default]
    Unknown,
}

impl ObservedResource {
    /// Returns every way to recover this key.
    #[must_use]
    pub fn key_safety(&self) -> KeySafety {
        KeySafety::from_spec(&self.spec)
    }

    /// Returns the encryption key: the property `key`, unless `encrypted` is false.
    #[must_use]
    pub fn encrypted_by(&self) -> EncryptedBy {
        let encrypted = self.spec.get("encrypted").and_then(Value::as_bool);
        match (encrypted, self.text("key")) {
            (Some(false), _) | (_, Some("")) => EncryptedBy::Nothing,
            (Some(true) | None, Some(key)) => EncryptedBy::Key(key.to_owned()),
            (Some(true) | None, None) => EncryptedBy::Unknown,
        }
    }
}

/// The observer of a resource. The verifier has its own credentials and tools; they never change a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Observer {
    /// The platform, with credentials that can also change resources.
    Platform,
    /// The verifier, with independent read-only credentials.
    Verifier,
}

/// The credentials of an observation, as the backend reports them. Records claim no more than this.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum VerifiedAs {
    /// A verifier's credentials, which did not do the work.
    Verifier,
    /// The platform's own credentials, which also did the work.
    Platform,
    /// Several observations with different credentials.
    Mixed,
}

impl VerifiedAs {
    /// Combines two observations.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Mixed }
    }

    /// Returns the text for the end of a sentence, such as "looked for with other credentials".
    #[must_use]
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Verifier => "with other credentials",
            Self::Platform => "with the platform's own credentials",
            Self::Mixed => "partly with other credentials, partly with the platform's own",
        }
    }
}

/// The access that a resource permits: new work, logins, reads.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AccessMode {
    /// Normal access.
    All,
    /// No new work. Running work may end, and data may be read.
    ReadOnly,
    /// No new work, and running work is ended.
    Nothing,
}

/// The date that stores report for a lock without an end, such as a legal hold.
pub const UNTIL_LIFTED: &str = "9999-12-31T00:00:00Z";

/// The progress of emptying a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyProgress {
    /// Versions, delete markers and unfinished uploads that were removed so far.
    pub removed: u64,
    /// The number of entries that can still be removed.
    pub left: u64,
    /// The number of entries that are locked until `locked_until`.
    pub locked: u64,
    /// The day on which the last lock ends, as RFC 3339.
    pub locked_until: Option<String>,
}

/// Lists, reads and removes resources by name.
///
/// Epochs and error classes must behave as described at [`Kubernetes`](crate::platform::Kubernetes). A survey lists every resource with the tenant's
/// mark in that system. A resource counts as absent only when it is gone, not while it is being deleted, kept by a finalizer, or recoverable.
#[async_trait]
pub trait TenantResources: Debug + Send + Sync {
    /// Returns the name of the backend, for display.
    fn backend(&self) -> &'static str;

    /// Returns all resources of the tenant in one system.
    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError>;

    /// Returns the credentials that are used for this observer. A backend without a verifier's credentials returns [`VerifiedAs::Platform`].
    /// Certificates state this value.
    fn verified_as(&self, thing: &TenantResource, eyes: Observer) -> VerifiedAs;

    /// Returns true if a simulator serves the place of this resource. Certificates use only this value to mark a resource as simulated.
    fn is_simulated(&self, thing: &TenantResource) -> bool;

    /// Returns true if only simulators serve the places of this system.
    fn is_system_simulated(&self, system: &str) -> bool;

    /// Returns the resource, if it exists.
    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError>;

    /// Returns the resource, after waiting a short time for the one with this unique id to be gone. The platform's credentials are used. A backend
    /// that watches waits for a change; any other backend reads once.
    async fn wait_until_gone(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        let _ = uid;
        self.read_resource(thing, Observer::Platform, stamp).await
    }

    /// Sets the access mode of the tenant's resource.
    async fn set_admission(
        &self,
        thing: &TenantResource,
        tenant: &str,
        admits: AccessMode,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Re-encrypts the contents of the tenant's resource with another key and records it in `key` of its `spec`. A dry run reports if this is
    /// possible, before the destruction of the tenant's key is approved.
    async fn rewrap(
        &self,
        thing: &TenantResource,
        tenant: &str,
        key: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Removes one page of the resource's contents: every version, delete marker and unfinished upload.
    async fn empty(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<EmptyProgress, ActionError>;

    /// Requests the removal of the resource with this unique id. Success means that the request was accepted.
    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Tries to decrypt a ciphertext with the key, and returns the attempt as evidence. The probe holds if the decryption fails.
    async fn undecryptable(
        &self,
        key: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<crate::platform::ProbeFinding, ActionError>;

    /// Returns the tool that destroys the resource. `None` if only API calls of this program are used.
    async fn destruction_tool(
        &self,
        thing: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<Option<DriveTool>, ActionError> {
        let _ = (thing, stamp);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_parsed_as_written_even_with_a_namespace_in_its_name() {
        let thing = TenantResource::new("kubernetes", "west-1", "LocalQueue", "t-acme--prod/gpus");
        assert_eq!(thing.to_string().parse(), Ok(thing));
        assert!("kubernetes/west-1".parse::<TenantResource>().is_err());
    }
}
