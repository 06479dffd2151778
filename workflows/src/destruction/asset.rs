//! What a tenant leaves behind: every place that holds, or may hold, its data.

use crate::{
    signing::Moment,
    tenancy::{TenantId, WorkspaceName},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};

/// What kind of thing it is. Whether it is a medium in the sense of NIST SP 800-88 is said by [`AssetType::is_medium`].
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
    /// A key in a key store: destroying it destroys what it encrypted.
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
    /// A namespace with what is in it.
    Namespace,
    /// A queue, cohort or flavor.
    Queue,
    /// A key of a cluster.
    ClusterKey,
}

impl AssetType {
    /// Whether it is a physical medium, which is sanitised rather than deleted.
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

/// What the data on it is: what retention rules speak of.
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
    /// What the tenant's jobs read and wrote.
    Workload,
    /// Model weights and checkpoints.
    Model,
    /// Keys and secrets.
    Secret,
    /// Copies made against loss.
    Backup,
    /// Who ran what, for how long.
    Accounting,
    /// Metrics and logs with the tenant's names in them.
    Telemetry,
    /// Who decided and did what.
    Audit,
    /// Names and credentials of people.
    Identity,
    /// Names, addresses and partitions, without content.
    Configuration,
}

/// Names one asset within a tenant: its type and its locator, `bucket:eu-west/t-acme`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AssetId(pub String);

impl AssetId {
    /// The longest locator, in bytes: it becomes part of the key of a document.
    pub const LONGEST: usize = 512;

    /// The id of what lies at `locator`.
    #[must_use]
    pub fn new(kind: AssetType, locator: &str) -> Self {
        Self(format!("{kind}:{locator}"))
    }

    /// The id as text.
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

/// Which of the two scans saw it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Scan {
    /// Our own records say that it exists.
    Records,
    /// It was found where it lies.
    Live,
}

/// Something of a tenant that holds, or may hold, data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asset {
    /// Its name within the tenant.
    pub id: AssetId,
    /// Whose it is.
    pub tenant: TenantId,
    /// The workspace, where it belongs to one.
    pub workspace: Option<WorkspaceName>,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: AssetType,
    /// Where it lies, as its own system names it: `west-1/node-7/nvme0`, `eu-west/t-acme`.
    pub locator: String,
    /// Serial number, UUID or WWN by which the very thing is told from a later one of the same name.
    pub serial: Option<String>,
    /// What the data on it is; none while nobody has said.
    pub data_class: Option<DataClass>,
    /// The node that it is part of, for what leaves with a node.
    pub node: Option<String>,
    /// Which scans saw it.
    pub discovered_by: BTreeSet<Scan>,
    /// When it was first seen.
    pub discovered_at: Moment,
}

impl Asset {
    /// What `scan` saw of `tenant` at `locator`; say more by struct update.
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
