//! Everything that carries a tenant's name, whatever system it lies in: listed, looked at, frozen, emptied, removed.
//!
//! The other capabilities make things; this one finds them again and takes them away. Invariant: a removal names the
//! identity it found, and is finished only when a look says that nothing of that identity is there.

use crate::platform::{CallMetadata, DriveTool, KeySafety};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    fmt::{self, Debug},
    str::FromStr,
};

/// The systems in which a tenant can have something, in the order in which they are surveyed.
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

/// The kind of a thing of the system `storage` that is the key of an encrypted volume of a machine, in the volume's own header.
pub const LUKS_KEY: &str = "LuksKey";

/// Where a thing is: `objects/eu-west/Bucket/t-acme--eu-west`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TenantResource {
    /// The system, one of [`SYSTEMS`].
    pub system: String,
    /// The cluster or region; empty for what stands outside of them.
    pub place: String,
    /// What it is, as the system calls it.
    pub kind: String,
    /// Its name, with its namespace where it has one.
    pub name: String,
}

impl TenantResource {
    /// A thing of this kind and name.
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

/// A thing as it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedResource {
    /// Where.
    pub thing: TenantResource,
    /// Tells it from an earlier or later thing of the same name.
    pub uid: String,
    /// Whose it says it is.
    pub tenant: String,
    /// What it says of itself, such as the class of its data.
    pub spec: Value,
    /// True while it is being deleted and still holds what it held.
    pub terminating: bool,
}

impl ObservedResource {
    /// A number that the thing says of itself; 0 when it says none.
    #[must_use]
    pub fn number(&self, field: &str) -> u64 {
        self.spec.get(field).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Whether the thing says so of itself.
    #[must_use]
    pub fn is(&self, field: &str) -> bool {
        self.spec.get(field).and_then(Value::as_bool).unwrap_or_default()
    }

    /// A text that the thing says of itself.
    #[must_use]
    pub fn text(&self, field: &str) -> Option<&str> {
        self.spec.get(field).and_then(Value::as_str)
    }
}

/// With which key a thing is encrypted, as its store says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EncryptedBy {
    /// With the key of this name.
    Key(String),
    /// With none that a key store has: whoever gets at it can read it.
    Nothing,
    /// Its store does not say.
    #[default]
    Unknown,
}

impl ObservedResource {
    /// Every way in which the key that this is can come back.
    #[must_use]
    pub fn key_safety(&self) -> KeySafety {
        KeySafety::from_spec(&self.spec)
    }

    /// With which key it is encrypted: `key`, unless `encrypted` is false.
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

/// With whose eyes something is looked at. The verifier's credentials and tools are not those that did the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Observer {
    /// The platform's own, which also change things.
    Platform,
    /// Read-only, and independent.
    Verifier,
}

/// With whose credentials a look was made, as the backend that made it answers. A record says no more than this.
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
    /// With a verifier's, which are not those that did the work.
    Verifier,
    /// With the platform's own, which also did the work.
    Platform,
    /// Several looks, some with each.
    Mixed,
}

impl VerifiedAs {
    /// Of two looks, taken together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Mixed }
    }

    /// It as the end of a sentence, such as "looked for with other credentials".
    #[must_use]
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Verifier => "with other credentials",
            Self::Platform => "with the platform's own credentials",
            Self::Mixed => "partly with other credentials, partly with the platform's own",
        }
    }
}

/// What a thing lets in: new work, logins, reads.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AccessMode {
    /// As usual.
    All,
    /// Nothing new; what runs may end, what is there may be read.
    ReadOnly,
    /// Nothing new, and what runs is ended.
    Nothing,
}

/// What stores say in place of a day of what has none: a legal hold stands until it is lifted.
pub const UNTIL_LIFTED: &str = "9999-12-31T00:00:00Z";

/// What emptying a thing came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyProgress {
    /// Versions, delete markers and unfinished uploads that were removed so far.
    pub removed: u64,
    /// What is left to be removed.
    pub left: u64,
    /// What nobody can remove before `locked_until`.
    pub locked: u64,
    /// The day on which the last lock ends, as RFC 3339.
    pub locked_until: Option<String>,
}

/// Whatever lists, shows and removes things by name.
///
/// An implementor promises what [`Kubernetes`](crate::platform::Kubernetes) promises of epochs and classes, that a survey lists
/// everything that bears the tenant's mark in that system, and that a thing is absent from a look only when it is gone:
/// not while it is being deleted, kept by a finalizer, or recoverable from a bin.
#[async_trait]
pub trait TenantResources: Debug + Send + Sync {
    /// What serves this capability, for people.
    fn backend(&self) -> &'static str;

    /// Everything of the tenant in one system, wherever it lies.
    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError>;

    /// With whose credentials the thing is looked at when this observer is asked for. A backend without credentials of a verifier
    /// answers [`VerifiedAs::Platform`]; certificates say what is answered here.
    fn verified_as(&self, thing: &TenantResource, eyes: Observer) -> VerifiedAs;

    /// Whether a simulator serves the place of this thing. Certificates call simulated what is answered here, and nothing else.
    fn is_simulated(&self, thing: &TenantResource) -> bool;

    /// Whether no place of this system is looked at by anything but a simulator.
    fn is_system_simulated(&self, system: &str) -> bool;

    /// The thing as it stands, if there is one.
    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError>;

    /// The thing once that of this identity is gone, or as it stands after a moment, seen by the platform: a backend that is told of
    /// changes waits for one, any other just looks.
    async fn wait_until_gone(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        let _ = uid;
        self.read_resource(thing, Observer::Platform, stamp).await
    }

    /// Sets what the tenant's thing lets in.
    async fn set_admission(
        &self,
        thing: &TenantResource,
        tenant: &str,
        admits: AccessMode,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Puts what the tenant's thing holds under another key, and says so in `key` of its `spec` from then on. A dry run answers
    /// whether it can: it is asked before anybody agrees to the destruction of the tenant's key.
    async fn rewrap(
        &self,
        thing: &TenantResource,
        tenant: &str,
        key: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Removes a page of what the thing holds: every version, delete marker and unfinished upload.
    async fn empty(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<EmptyProgress, ActionError>;

    /// Asks for the removal of the thing with this identity. Success means asked, not gone.
    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Tries to decrypt, as anybody could who kept a ciphertext; says whether that failed, and what was tried.
    async fn undecryptable(
        &self,
        key: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<crate::platform::ProbeFinding, ActionError>;

    /// With what a thing is destroyed there; none where it is done by calls of this program alone.
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
    fn a_thing_is_read_as_it_was_written_also_with_a_namespace_in_its_name() {
        let thing = TenantResource::new("kubernetes", "west-1", "LocalQueue", "t-acme--prod/gpus");
        assert_eq!(thing.to_string().parse(), Ok(thing));
        assert!("kubernetes/west-1".parse::<TenantResource>().is_err());
    }
}
