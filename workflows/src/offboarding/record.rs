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

/// The signal that wakes an offboarding that stands under hold.
pub const HOLD_RELEASED: &str = "hold.released";
/// The signal by which a tenant says that it has exported its data.
pub const EXPORT_CONFIRMED: &str = "export.confirmed";
/// The signal by which people say that they have looked at the open assets of an inventory.
pub const ASSETS_CLASSIFIED: &str = "assets.classified";

/// The engine's code for a state that was not done within its limit.
pub(super) const TOO_LATE: &str = "step.deadline";

/// Who leaves, as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeavingTenant {
    /// Its name.
    pub tenant: TenantId,
    /// Where it lives.
    pub cluster: ClusterId,
    /// The region of the bucket.
    pub region: RegionId,
    /// What runs that cluster.
    pub kind: ClusterKind,
    /// The GPUs that it bought.
    pub model: GpuModel,
    /// Its workspaces.
    pub workspaces: Vec<WorkspaceName>,
    /// Its nodes, those in quarantine too, each with its epoch and the GPUs that it must have.
    pub nodes: BTreeMap<NodeId, (OwnerEpoch, u64)>,
    /// The execution that made it.
    pub onboarded_by: ExecutionId,
    /// When.
    pub onboarded_at: Moment,
    /// Which further rules hold for it.
    pub compliance: BTreeSet<Compliance>,
    /// Whether its cluster is a simulated one.
    #[serde(default)]
    pub simulated: bool,
}

/// The terms on which a tenant leaves, by the policy in force when it asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffboardingTerms {
    /// Which policy.
    pub policy: PolicyRef,
    /// Who agrees that it leaves.
    pub offboard: ApprovalGate,
    /// Who agrees to the destruction of exactly what the inventory lists.
    pub destroy: ApprovalGate,
    /// How long it may fetch its data.
    pub export_window: Duration,
    /// How much longer, when destruction was not agreed to.
    pub extension: Duration,
    /// How long its certificate is kept. `None` in terms that were fixed without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_kept: Option<Duration>,
    /// How many nodes are cleaned at once.
    pub at_once: u32,
    /// What is asked of cleaning a node.
    pub demands: SanitisationDemands,
    /// What must be kept, and for how long.
    pub retention: Vec<RetentionRule>,
}

/// What is to be done to one asset that is not part of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovalTarget {
    /// What it is.
    pub kind: AssetType,
    /// Where it is.
    pub thing: TenantResource,
    /// Which very thing: another of the same name is not touched.
    pub uid: String,
    /// Until when a retention rule keeps it; then it is put under another key, and not removed.
    pub keep_until: Option<Moment>,
    /// For keys: whether it can never have left its store.
    pub safe: bool,
    /// For keys: until when a snapshot of the key store exists.
    pub revivable_until: Option<String>,
    /// For keys: every way in which it can come back, as it was seen when the inventory was taken.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub can_come_back: BTreeSet<WayBack>,
    /// What of it its store keeps under a legal hold or an object lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked: Option<StoreLock>,
    /// Until when its store keeps it whatever is done, where its store says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_keeps_until: Option<String>,
    /// How much it holds, where its store says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<StoredAmount>,
}

/// What remains of a closed tenant. Empty until its first step has read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemainingAssets {
    /// The first certificate of the tenant, which the next one supplements.
    pub supplements: Option<CertificateRef>,
    /// When the tenant was closed: retention is counted from then.
    pub closed_at: Option<Moment>,
    /// What is to be destroyed.
    pub assets: Vec<RemainingAsset>,
    /// What a certificate keeps for now: it stays.
    pub kept: Vec<TenantResource>,
}

/// One thing that remains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemainingAsset {
    /// Where it is.
    pub thing: TenantResource,
    /// Tells it from an earlier or later thing of the same name.
    pub uid: String,
    /// What the data on it is, as far as that is known.
    pub class: Option<DataClass>,
    /// Whether a certificate of the tenant lists it.
    pub certified: bool,
}

/// The request, and what has been learnt while serving it. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offboarding {
    /// Which tenant leaves.
    pub tenant: TenantId,
    /// Why, and by which words.
    pub basis: LegalBasis,
    /// Who asked.
    pub requested_by: String,
    /// When.
    pub requested_at: Moment,
    /// Why, in words.
    pub reason: String,
    /// Which capabilities are simulated, by words of earlier versions. Counts only while `simulated_places` is not known.
    #[serde(default)]
    pub simulated: Vec<String>,
    /// The systems, places and machines that a simulator serves, as those that were asked for the inventory said of themselves. The
    /// certificate calls nothing else simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_places: Option<BTreeSet<String>>,
    /// Of a closed tenant: what remains of it, and nothing else is offboarded. Filled by `Checking`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<RemainingAssets>,
    /// Who leaves. Filled by `Checking`, with the terms.
    pub leaver: Option<LeavingTenant>,
    /// On which terms.
    pub terms: Option<OffboardingTerms>,
    /// What each door let in before it was frozen.
    pub doors: Vec<ResourceAdmission>,
    /// Whether the books list work that is not ended yet. Filled by `EndingWork`.
    #[serde(default)]
    pub works_on: bool,
    /// What was found. Filled by `Surveying`, and emptied once it is in the inventory.
    pub seen: Vec<ObservedResource>,
    /// What its nodes have. Filled by `ReadingNodes`, and emptied likewise.
    pub devices: Vec<NodeDevices>,
    /// The inventory that stands. Filled by `TakingInventory`, with the three that follow.
    pub inventory: Option<Digest>,
    /// How many assets it lists.
    pub assets: usize,
    /// What is to be done to each that is not part of a node.
    pub targets: Vec<RemovalTarget>,
    /// This execution, as its records name it. Filled by `PassingPivot`.
    pub run: Option<ExecutionId>,
    /// Since when what is done now is being done.
    pub since: Option<Moment>,
    /// What stores kept under lock when they were read again, before the first key goes. Filled by `ReadingLocks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locked_since: Vec<(TenantResource, StoreLock)>,
    /// Every way in which each key can come back, as it was read then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ways_back: BTreeMap<TenantResource, BTreeSet<WayBack>>,
    /// Of what a retention rule keeps: with which key each was encrypted, as it was read then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept_under: BTreeMap<TenantResource, EncryptedBy>,
    /// Keys that are gone, to be written down.
    pub shredded: Vec<Shredded>,
    /// What was removed, to be written down.
    pub removed: Vec<crate::platform::Removed>,
    /// What cannot be removed before a day that its store names.
    pub kept: Vec<TenantResource>,
    /// With whose credentials the last look for what was removed was made, by system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub verified: VerifiedSystems,
    /// Which look that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look: Option<Look>,
    /// What was not seen to be gone, and people accepted as an exception.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remains: Vec<RemainingThing>,
    /// The repairs that people have made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<MadeRepair>,
    /// Nodes that came out clean.
    pub clean: Vec<NodeId>,
    /// Nodes that did not, each with what is missing.
    pub quarantined: BTreeMap<NodeId, String>,
    /// The certificate, to be signed.
    pub assembled: Option<AssembledCertificate>,
    /// Its signature.
    pub signed: Option<CertificateSignature>,
    /// The record keys that were destroyed after it, where records are sealed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub record_keys: Vec<String>,
}
