//! The assets of a tenant: every place that holds, or may hold, its data.

use crate::{
    signing::Moment,
    tenancy::{TenantId, WorkspaceName},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};

/// The type of an asset. [`AssetType::is_medium`] returns true for a medium in the sense of NIST SP 800-88.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::VariantArray,
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AssetType {
    /// A machine: its memory, firmware and management controller.
    Node,
    /// A GPU: its memory.
    Gpu,
    /// A local drive.
    Nvme,
    /// A network card: partition membership, firmware configuration.
    Nic,
    /// A bucket, with all versions, delete markers and unfinished uploads.
    Bucket,
    /// A volume.
    Pv,
    /// A directory tree on a shared file system (Lustre, BeeGFS, CephFS, NFS).
    Filesystem,
    /// A snapshot of a volume.
    Snapshot,
    /// A backup.
    Backup,
    /// A repository of images or artifacts.
    RegistryRepo,
    /// A model in a model store.
    Model,
    /// A secret.
    Secret,
    /// A key in a key store. Destroying it makes the data that it encrypted unreadable.
    Key,
    /// An account of a batch scheduler, with its spool and home directories.
    Account,
    /// Groups and credentials at an identity provider.
    Identity,
    /// A DNS record.
    Dns,
    /// An IP address.
    Ip,
    /// A partition key or VLAN of the fabric.
    FabricKey,
    /// A stream of logs or metrics.
    LogStream,
    /// A namespace with its contents.
    Namespace,
    /// A queue, cohort or flavor.
    Queue,
    /// A key of a cluster.
    ClusterKey,
}

impl AssetType {
    /// Returns true for a physical medium, which is sanitised instead of deleted.
    #[must_use]
    pub fn is_medium(self) -> bool {
        match self {
            Self::Node | Self::Gpu | Self::Nvme | Self::Nic => true,
            Self::Bucket
            | Self::Pv
            | Self::Filesystem
            | Self::Snapshot
            | Self::Backup
            | Self::RegistryRepo
            | Self::Model
            | Self::Secret
            | Self::Key
            | Self::Account
            | Self::Identity
            | Self::Dns
            | Self::Ip
            | Self::FabricKey
            | Self::LogStream
            | Self::Namespace
            | Self::Queue
            | Self::ClusterKey => false,
        }
    }
}

/// The class of an asset's data. Retention rules apply to a class.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::VariantArray,
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DataClass {
    /// Input and output of the tenant's jobs.
    Workload,
    /// Model weights and checkpoints.
    Model,
    /// Keys and secrets.
    Secret,
    /// Backup copies.
    Backup,
    /// Usage records: users, jobs and durations.
    Accounting,
    /// Metrics and logs with the tenant's names in them.
    Telemetry,
    /// Records of decisions and actions.
    Audit,
    /// Names and credentials of users.
    Identity,
    /// Names, addresses and partitions, without content.
    Configuration,
}

/// Names one asset within a tenant: its type and its locator, `bucket:eu-west/t-acme`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AssetId(pub String);

impl AssetId {
    /// The longest locator, in bytes. It becomes part of a document key.
    pub const LONGEST: usize = 512;

    /// Returns the id of the asset at `locator`.
    #[must_use]
    pub fn new(kind: AssetType, locator: &str) -> Self {
        Self(format!("{kind}:{locator}"))
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AssetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The scan that found an asset.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Scan {
    /// The scan of Tenure's own records.
    Records,
    /// The scan of the systems themselves.
    Live,
}

/// A resource of a tenant that holds, or may hold, data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asset {
    /// The id, unique within the tenant.
    pub id: AssetId,
    /// The tenant's id.
    pub tenant: TenantId,
    /// The workspace, if the asset belongs to one.
    pub workspace: Option<WorkspaceName>,
    /// The type of the asset.
    #[serde(rename = "type")]
    pub kind: AssetType,
    /// The place, as its own system names it: `west-1/node-7/nvme0`, `eu-west/t-acme`.
    pub locator: String,
    /// Serial number, UUID or WWN. It distinguishes the asset from a later one of the same name.
    pub serial: Option<String>,
    /// The class of its data. `None` until it is classified.
    pub data_class: Option<DataClass>,
    /// The node that contains it, for an asset that leaves with a node.
    pub node: Option<String>,
    /// The scans that found it.
    pub discovered_by: BTreeSet<Scan>,
    /// The time when it was first found.
    pub discovered_at: Moment,
}

impl Asset {
    /// Returns an asset of `tenant` that `scan` found at `locator`. Set other fields by struct update.
    #[must_use]
    pub fn from_scan(
        tenant: &TenantId,
        kind: AssetType,
        locator: &str,
        data_class: Option<DataClass>,
        scan: Scan,
        at: Moment,
    ) -> Self {
        Self {
            id: AssetId::new(kind, locator),
            tenant: tenant.clone(),
            workspace: None,
            kind,
            locator: locator.to_owned(),
            serial: None,
            data_class,
            node: None,
            discovered_by: BTreeSet::from([scan]),
            discovered_at: at,
        }
    }
}
