//! Names: tenants, workspaces, regions, clusters, nodes and GPU models, each a type of its own.
//!
//! Users choose these names, and they become part of namespaces, queues and labels. So every name is checked, from a document or from the store.

use crate::tenancy::canonical_gpu_name;
use serde::{Deserialize, Serialize};
use std::{fmt, hash::Hash, marker::PhantomData, str::FromStr};

/// The kind of thing that a name names.
pub trait NameKind: Clone + Copy + fmt::Debug + Ord + Hash + 'static {
    /// The word for messages: `tenant`.
    const WORD: &'static str;
    /// The longest name, in characters.
    const LONGEST: usize;
    /// True if capitals, `_` and `.` are also allowed, as hardware vendors use them.
    const LOOSE: bool;

    /// Returns the canonical spelling of a name from a user or a file.
    #[must_use]
    fn canonical(text: &str) -> String {
        text.to_owned()
    }
}

/// A checked name of a `K`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String", bound = "K: NameKind")]
pub struct Name<K: NameKind> {
    text: String,
    kind: PhantomData<K>,
}

/// A text that is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid name of a {word}: {rule}")]
pub struct NameError {
    /// The text, cut to 64 characters.
    pub text: String,
    /// The kind of name.
    pub word: &'static str,
    /// The rule for such names.
    pub rule: String,
}

impl<K: NameKind> Name<K> {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the rule for such names, for messages.
    #[must_use]
    pub fn rule() -> String {
        let set =
            if K::LOOSE { "letters, digits, '-', '_' and '.'" } else { "lower-case letters, digits and '-'" };
        format!("use 1 to {} {set}, with a letter or digit at both ends, and no '--'", K::LONGEST)
    }

    fn allows(text: &str) -> bool {
        let plain = |c: char| {
            if K::LOOSE { c.is_ascii_alphanumeric() } else { c.is_ascii_lowercase() || c.is_ascii_digit() }
        };
        let inner = |c: char| plain(c) || c == '-' || (K::LOOSE && matches!(c, '_' | '.'));
        text.len() <= K::LONGEST
            && text.chars().all(inner)
            && !text.contains("--")
            && text.chars().next().is_some_and(plain)
            && text.chars().next_back().is_some_and(plain)
    }
}

impl<K: NameKind> FromStr for Name<K> {
    type Err = NameError;

    /// Parses a name from a user or a file. Stored names keep their spelling.
    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::try_from(K::canonical(text))
    }
}

impl<K: NameKind> TryFrom<String> for Name<K> {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        if Self::allows(&text) {
            return Ok(Self { text, kind: PhantomData });
        }
        Err(NameError { text: text.chars().take(64).collect(), word: K::WORD, rule: Self::rule() })
    }
}

impl<K: NameKind> From<Name<K>> for String {
    fn from(name: Name<K>) -> Self {
        name.text
    }
}

impl<K: NameKind> fmt::Display for Name<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Marks names of tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfTenant;
impl NameKind for OfTenant {
    const WORD: &'static str = "tenant";
    const LONGEST: usize = 32;
    const LOOSE: bool = false;
}
/// A tenant's name, unique while the tenant is in use.
pub type TenantId = Name<OfTenant>;

/// Marks names of workspaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfWorkspace;
impl NameKind for OfWorkspace {
    const WORD: &'static str = "workspace";
    const LONGEST: usize = 27;
    const LOOSE: bool = false;
}
/// A workspace's name, unique within its tenant. A namespace is `t-TENANT--WORKSPACE`, of 63 characters at most.
pub type WorkspaceName = Name<OfWorkspace>;

/// Marks names of regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfRegion;
impl NameKind for OfRegion {
    const WORD: &'static str = "region";
    const LONGEST: usize = 27;
    const LOOSE: bool = false;
}
/// A region's name.
pub type RegionId = Name<OfRegion>;

/// Marks names of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfCluster;
impl NameKind for OfCluster {
    const WORD: &'static str = "cluster";
    const LONGEST: usize = 40;
    const LOOSE: bool = false;
}
/// A cluster's name.
pub type ClusterId = Name<OfCluster>;

/// Marks names of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfNode;
impl NameKind for OfNode {
    const WORD: &'static str = "node";
    const LONGEST: usize = 63;
    const LOOSE: bool = true;
}
/// A node's serial number, unique in the fleet.
pub type NodeId = Name<OfNode>;

/// Marks names of GPU models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfModel;
impl NameKind for OfModel {
    const WORD: &'static str = "GPU model";
    const LONGEST: usize = 63;
    const LOOSE: bool = true;

    fn canonical(text: &str) -> String {
        canonical_gpu_name(text).0
    }
}
impl GpuModel {
    /// Returns true if `name` is one of the names of this model.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.as_str() == name || canonical_gpu_name(self.as_str()).0 == canonical_gpu_name(name).0
    }
}

/// A GPU model by its canonical name, such as `H100`. An unknown model has the spelling of the inventory, such as `V100M32`.
pub type GpuModel = Name<OfModel>;
