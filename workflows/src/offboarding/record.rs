//! The data of an offboarding, as it is persisted.

use super::{StoreLock, StoredAmount};
use crate::{
    destruction::{
        AssetType, DataClass, Look, RetentionRule,
        certificate::{AssembledCertificate, CertificateRef, CertificateSignature, LegalBasis},
    },
    offboarding::node_sanitisation::SanitisationDemands,
    platform::{
        EncryptedBy, NodeDevices, ObservedResource, RemainingThing, ResourceAdmission, Shredded,
        TenantResource, VerifiedSystems, WayBack,
    },
    policy::{ApprovalGate, PolicyRef},
    signing::{Digest, Moment},
    tenancy::{
        ClusterId, ClusterKind, Compliance, GpuModel, NodeId, OwnerEpoch, RegionId, TenantId, WorkspaceName,
    },
};
use engine::MadeRepair;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::ExecutionId;

/// The signal that wakes an offboarding after the release of a hold.
pub const HOLD_RELEASED: &str = "hold.released";
/// The signal of a tenant that has exported its data.
pub const EXPORT_CONFIRMED: &str = "export.confirmed";
/// The signal of an operator who has classified the open assets of an inventory.
pub const ASSETS_CLASSIFIED: &str = "assets.classified";

/// The signal of an operator who has stopped the writes to a tenant's resources. Another inventory is taken then.
pub const WRITES_STOPPED: &str = "writes.stopped";

/// The engine's code for a state that exceeded its timeout.
pub(super) const TOO_LATE: &str = "step.deadline";

/// The leaving tenant, as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeavingTenant {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The tenant's cluster.
    pub cluster: ClusterId,
    /// The region of the bucket.
    pub region: RegionId,
    /// The kind of the cluster.
    pub kind: ClusterKind,
    /// The GPU model that it bought.
    pub model: GpuModel,
    /// Its workspaces.
    pub workspaces: Vec<WorkspaceName>,
    /// Its nodes, with quarantined ones, each with its epoch and its number of GPUs.
    pub nodes: BTreeMap<NodeId, (OwnerEpoch, u64)>,
    /// The execution that onboarded it.
    pub onboarded_by: ExecutionId,
    /// The time of the onboarding.
    pub onboarded_at: Moment,
    /// The tenant's compliance tags.
    pub compliance: BTreeSet<Compliance>,
    /// True if its cluster is simulated.
    #[serde(default)]
    pub simulated: bool,
}

/// The terms of the offboarding, from the policy in force at the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffboardingTerms {
    /// The policy.
    pub policy: PolicyRef,
    /// The approval of the offboarding.
    pub offboard: ApprovalGate,
    /// The approval of the destruction of the exact inventory.
    pub destroy: ApprovalGate,
    /// The time in which the tenant may export its data.
    pub export_window: Duration,
    /// The extension after a destruction that was not approved.
    pub extension: Duration,
    /// The retention of its certificate. `None` in terms of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_kept: Option<Duration>,
    /// The number of nodes that are cleaned at once.
    pub at_once: u32,
    /// The requirements for the sanitisation of a node.
    pub demands: SanitisationDemands,
    /// The retention rules.
    pub retention: Vec<RetentionRule>,
}

/// The treatment of one asset that is not part of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovalTarget {
    /// The type of the asset.
    pub kind: AssetType,
    /// The place of the resource.
    pub thing: TenantResource,
    /// The unique id. Another resource of the same name is left unchanged.
    pub uid: String,
    /// The end of the retention, if a rule applies. The resource is then re-encrypted with another key instead of removed.
    pub keep_until: Option<Moment>,
    /// For a key: true if it can never have left its store.
    pub safe: bool,
    /// For a key: the end of the last snapshot of the key store.
    pub revivable_until: Option<String>,
    /// For a key: every way to recover it, as observed when the inventory was taken.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub can_come_back: BTreeSet<WayBack>,
    /// The part that its store keeps under a legal hold or an object lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked: Option<StoreLock>,
    /// The date until which its store keeps it in any case, if the store reports one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_keeps_until: Option<String>,
    /// The amount of data, if the store reports one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<StoredAmount>,
}

/// The remains of a closed tenant. Empty until its first step has read them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemainingAssets {
    /// The first certificate of the tenant, which the next one supplements.
    pub supplements: Option<CertificateRef>,
    /// The time when the tenant was closed. Retention starts then.
    pub closed_at: Option<Moment>,
    /// The assets to destroy.
    pub assets: Vec<RemainingAsset>,
    /// The resources that a certificate retains for now. They stay.
    pub kept: Vec<TenantResource>,
}

/// One remaining resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemainingAsset {
    /// The place of the resource.
    pub thing: TenantResource,
    /// Distinguishes the resource from earlier or later ones of the same name.
    pub uid: String,
    /// The class of its data, if known.
    pub class: Option<DataClass>,
    /// True if a certificate of the tenant lists it.
    pub certified: bool,
}

/// The request and the results so far. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offboarding {
    /// The id of the leaving tenant.
    pub tenant: TenantId,
    /// The legal basis.
    pub basis: LegalBasis,
    /// The requester.
    pub requested_by: String,
    /// The time of the request.
    pub requested_at: Moment,
    /// The reason, as text.
    pub reason: String,
    /// The simulated capabilities, as named by earlier versions. Used only if `simulated_places` is `None`.
    #[serde(default)]
    pub simulated: Vec<String>,
    /// The systems, places and machines that a simulator serves, as they reported it during the inventory. The certificate marks only these as
    /// simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_places: Option<BTreeSet<String>>,
    /// The remains of a closed tenant. If set, nothing else is offboarded. Set by `Checking`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<RemainingAssets>,
    /// The leaving tenant. Set by `Checking`, with the terms.
    pub leaver: Option<LeavingTenant>,
    /// The terms of the offboarding.
    pub terms: Option<OffboardingTerms>,
    /// The access mode of each entry point before the freeze.
    pub doors: Vec<ResourceAdmission>,
    /// True if the ledger lists work that has not ended. Set by `EndingWork`.
    #[serde(default)]
    pub works_on: bool,
    /// The resources that were found. Set by `Surveying`, and cleared once they are in the inventory.
    pub seen: Vec<ObservedResource>,
    /// The devices of its nodes. Set by `ReadingNodes`, and cleared likewise.
    pub devices: Vec<NodeDevices>,
    /// The current inventory. Set by `TakingInventory`, with the next two fields.
    pub inventory: Option<Digest>,
    /// The number of its assets.
    pub assets: usize,
    /// The treatment of each asset that is not part of a node.
    pub targets: Vec<RemovalTarget>,
    /// The changes from the inventory before the current one, in sentences. The plan lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// True if an approval of the inventory before would not cover the current one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsettled: bool,
    /// The number of inventories that an approval of the one before would not cover.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replaced_plans: u32,
    /// The id of this execution, as its records name it. Set by `PassingPivot`.
    pub run: Option<ExecutionId>,
    /// The start of the current work.
    pub since: Option<Moment>,
    /// The locks of stores that were read again before the first key is destroyed. Set by `ReadingLocks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locked_since: Vec<(TenantResource, StoreLock)>,
    /// Every way to recover each key, as read at that time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ways_back: BTreeMap<TenantResource, BTreeSet<WayBack>>,
    /// The encryption key of each retained resource, as read at that time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept_under: BTreeMap<TenantResource, EncryptedBy>,
    /// Destroyed keys that are not yet recorded.
    pub shredded: Vec<Shredded>,
    /// Removed resources that are not yet recorded.
    pub removed: Vec<crate::platform::Removed>,
    /// Resources that their store locks until a date.
    pub kept: Vec<TenantResource>,
    /// The credentials of the last verification, by system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub verified: VerifiedSystems,
    /// The action of that verification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look: Option<Look>,
    /// Resources that were not observed to be gone, and that were accepted as exceptions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remains: Vec<RemainingThing>,
    /// The repairs made by operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<MadeRepair>,
    /// Clean nodes.
    pub clean: Vec<NodeId>,
    /// Quarantined nodes, with the missing conditions.
    pub quarantined: BTreeMap<NodeId, String>,
    /// The bytes of pages of the certificate that one commit writes. `None` for the default. Tests set less, for several commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_at_once: Option<u32>,
    /// The certificate to sign.
    pub assembled: Option<AssembledCertificate>,
    /// Its signature.
    pub signed: Option<CertificateSignature>,
    /// The record keys that were destroyed at the end, where encryption at rest is on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub record_keys: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
