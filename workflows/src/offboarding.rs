//! Offboarding: from a tenant in use to a signed certificate that its data is destroyed.
//!
//! Before `PassingPivot` everything is taken back by turning back, and the tenant works on. At it, holds are looked at once
//! more, in the very commit that says that destruction begins. Behind it there is no way back: what goes wrong is retried
//! or parked, and the end is a certificate that lists every asset of the inventory that people approved. The page with
//! the diagram is `docs/workflows/offboarding.md`.

mod assets;
mod certificate_draft;
mod closing;
mod examples;
mod inventory;
mod ledger;
pub mod node_sanitisation;
mod plan;
mod preview;
mod removal_records;
mod results;
mod retention;

pub use crate::offboarding::ledger::{
    BeginDestroying, BeginLeaving, CheckLeaving, Checked, EndWork, RecheckHolds, StayOn, look_at,
};
pub use crate::offboarding::removal_records::{FileRecords, Filed, ValidateRecords};
pub use closing::{CloseTenant, ReleaseNodes};
pub use inventory::{Classification, Classifications, TakeInventory, Taken, classify};
pub use preview::{Preview, preview};

use crate::{
    destruction::{
        AssetType, Digest, Moment, RetentionRule,
        certificate::{AssembleCertificate, Assembled, Exceptions, LegalBasis, Signed},
        codes as destruction_codes,
    },
    ledger::codes,
    offboarding::node_sanitisation::Demands,
    platform::{
        Admission, Admits, AwaitIdle, DestroyRecordKey, DiagnoseRemoval, Eyes, NodeDevices, Platform,
        ReadAdmission, SYSTEMS, Seen, Shredded, SurveyTenant, Thing, codes as actuator_codes,
    },
    policy::{Gate, PolicyRef},
    scheduling::admission::Ended,
    tenancy::{
        ClusterId, ClusterKind, Compliance, GpuModel, NodeId, OwnerEpoch, RegionId, TenantId, WorkspaceName,
    },
};
use engine::{
    ChildEnd, DAY, HOUR, MINUTE, Outcome, Plan, Step, Subject, Workflow, act, act_each, approval,
    await_signal, children, end, when,
};
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
const TOO_LATE: &str = "step.deadline";

/// Who leaves, as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaver {
    /// Its name.
    pub tenant: TenantId,
    /// Where it lives.
    pub cluster: ClusterId,
    /// In which region.
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
pub struct Terms {
    /// Which policy.
    pub policy: PolicyRef,
    /// Who agrees that it leaves.
    pub offboard: Gate,
    /// Who agrees to the destruction of exactly what the inventory lists.
    pub destroy: Gate,
    /// How long it may fetch its data.
    pub export_window: Duration,
    /// How much longer, when destruction was not agreed to.
    pub extension: Duration,
    /// How many nodes are cleaned at once.
    pub at_once: u32,
    /// What is asked of cleaning a node.
    pub demands: Demands,
    /// What must be kept, and for how long.
    pub retention: Vec<RetentionRule>,
}

/// What is to be done to one asset that is not part of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// What it is.
    pub kind: AssetType,
    /// Where it is.
    pub thing: Thing,
    /// Which very thing: another of the same name is not touched.
    pub uid: String,
    /// Until when a retention rule keeps it; then it is put under another key, and not removed.
    pub keep_until: Option<Moment>,
    /// For keys: whether it can never have left its store.
    pub safe: bool,
    /// For keys: until when a snapshot of the key store exists.
    pub revivable_until: Option<String>,
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
    /// Which parts of the platform are simulated: its certificate says so.
    #[serde(default)]
    pub simulated: Vec<String>,
    /// Who leaves. Filled by `Checking`, with the terms.
    pub leaver: Option<Leaver>,
    /// On which terms.
    pub terms: Option<Terms>,
    /// What each door let in before it was frozen.
    pub doors: Vec<Admission>,
    /// Whether the books list work that is not ended yet. Filled by `EndingWork`.
    #[serde(default)]
    pub works_on: bool,
    /// What was found. Filled by `Surveying`, and emptied once it is in the inventory.
    pub seen: Vec<Seen>,
    /// What its nodes have. Filled by `ReadingNodes`, and emptied likewise.
    pub devices: Vec<NodeDevices>,
    /// The inventory that stands. Filled by `TakingInventory`, with the three that follow.
    pub inventory: Option<Digest>,
    /// How many assets it lists.
    pub assets: usize,
    /// What is to be done to each that is not part of a node.
    pub targets: Vec<Target>,
    /// This execution, as its records name it. Filled by `PassingPivot`.
    pub run: Option<ExecutionId>,
    /// Since when what is done now is being done.
    pub since: Option<Moment>,
    /// Keys that are gone, to be written down.
    pub shredded: Vec<Shredded>,
    /// What was removed, to be written down.
    pub removed: Vec<crate::platform::Removed>,
    /// What cannot be removed before a day that its store names.
    pub kept: Vec<Thing>,
    /// Nodes that came out clean.
    pub clean: Vec<NodeId>,
    /// Nodes that did not, each with what is missing.
    pub quarantined: BTreeMap<NodeId, String>,
    /// The certificate, to be signed.
    pub assembled: Option<Assembled>,
    /// Its signature.
    pub signed: Option<Signed>,
    /// The record keys that were destroyed after it, where records are sealed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub record_keys: Vec<String>,
}

/// Where an offboarding stands. Persisted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[allow(
    missing_docs,
    reason = "what each state does is said in `step`, and for people in docs/workflows/offboarding.md"
)]
pub enum State {
    Checking,
    Held,
    AwaitingApproval,
    MarkingLeaving,
    ReadingDoors,
    Freezing,
    ExportWindow,
    Draining,
    AwaitingIdle,
    EndingWork,
    LookingForWork,
    Surveying,
    ReadingNodes,
    TakingInventory,
    AwaitingClassification,
    AwaitingDestruction,
    ExportExtended,
    PassingPivot,
    HeldAtPivot,
    RecheckingHolds,
    Rewrapping,
    Shredding,
    FilingKeys,
    DeletingData,
    FilingData,
    SanitisingNodes,
    Verifying,
    DeletingAgain,
    VerifyingAgain,
    ValidatingData,
    Dismantling,
    Diagnosing,
    FilingDismantled,
    VerifyingDismantled,
    ValidatingDismantled,
    ReturningNodes,
    ReleasingNodes,
    ClosingBooks,
    Certifying,
    Signing,
    FilingCertificate,
    CertifyingExceptions,
    SigningExceptions,
    FilingExceptions,
    DestroyingRecords,
    Ending,
    Closed,
    ClosedWithExceptions,
    Rejected,
    Declined,
    Lapsed,
}

impl Workflow for Offboarding {
    const NAME: &'static str = "offboarding";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Checking;
    type State = State;
    type Platform = Platform;

    #[allow(clippy::too_many_lines, reason = "the machine is read top to bottom in one place")]
    fn step(&self, state: State) -> Step<Self> {
        use State::*;
        let tenant = self.tenant.clone();
        let of = tenant.to_string();
        match state {
            // Whether it may leave. A hold is waited out; a signal wakes this, and so does each day.
            Checking => act(CheckLeaving { tenant })
                .nothing_to_undo()
                .record(Self::checked)
                .on_failure(destruction_codes::HELD, Held)
                .on_failure(codes::TENANT_NOT_ACTIVE, Rejected)
                .on_failure(codes::TENANT_CHANGING, Rejected)
                .then(AwaitingApproval),
            Held => await_signal(HOLD_RELEASED).within(DAY).then(Checking).expired(Checking),
            AwaitingApproval => approval(self.offboard_gate().seats)
                .within(self.offboard_gate().within)
                .held_by(self.offboard_gate().procedure)
                .granted(MarkingLeaving)
                .refused(Declined)
                .expired(Lapsed),

            // Nothing new comes in, and everything can be read. Taken back, the tenant works on.
            MarkingLeaving => act(BeginLeaving { tenant: tenant.clone() })
                .undo(StayOn { tenant })
                .on_failure(codes::TENANT_CHANGING, Rejected)
                .then(ReadingDoors),
            ReadingDoors => act_each(self.doors().into_iter().map(|thing| ReadAdmission { thing }))
                .nothing_to_undo()
                .record(|me: &mut Self, door: Admission| me.doors.push(door))
                .then(Freezing),
            Freezing => act_each(self.settings(Admits::ReadOnly))
                .undo_each(|setting| self.before(setting))
                .within(HOUR)
                .then(ExportWindow),
            ExportWindow => {
                await_signal(EXPORT_CONFIRMED).within(self.export_window()).then(Draining).expired(Draining)
            }
            Draining => act_each(self.settings(Admits::Nothing))
                .undo_each(|setting| self.frozen(setting))
                .then(AwaitingIdle),
            AwaitingIdle => act_each(self.open_doors().map(|thing| AwaitIdle { thing }))
                .nothing_to_undo()
                .within(self.drain())
                .then(EndingWork),
            EndingWork => act(EndWork { tenant })
                .nothing_to_undo()
                .record(|me: &mut Self, ended: Ended| me.works_on = ended.more)
                .then(LookingForWork),
            LookingForWork => when(self.works_on, "more of its work is in the books", EndingWork)
                .otherwise("none is", Surveying),

            // Everything that is there, by two scans that agree.
            Surveying => act(SurveyTenant {
                tenant: of.clone(),
                systems: SYSTEMS.map(str::to_owned).to_vec(),
                eyes: Eyes::Platform,
            })
            .nothing_to_undo()
            .record(Self::surveyed)
            .attempt_within(10 * MINUTE)
            .then(ReadingNodes),
            ReadingNodes => act_each(self.readings())
                .nothing_to_undo()
                .record(|me: &mut Self, read: NodeDevices| me.devices.push(read))
                .then(TakingInventory),
            TakingInventory => act(self.taking())
                .nothing_to_undo()
                .record(Self::taken)
                .on_failure(destruction_codes::INVENTORY_OPEN, AwaitingClassification)
                .then(AwaitingDestruction),
            AwaitingClassification => {
                await_signal(ASSETS_CLASSIFIED).within(DAY).then(Surveying).expired(Surveying)
            }
            AwaitingDestruction => approval(self.destroy_gate().seats)
                .within(self.destroy_gate().within)
                .held_by(self.destroy_gate().procedure)
                .granted(PassingPivot)
                .refused(ExportExtended)
                .expired(ExportExtended),
            ExportExtended => {
                await_signal(EXPORT_CONFIRMED).within(self.extension()).then(Surveying).expired(Surveying)
            }

            // The point of no return, in one commit with a last look at the holds.
            PassingPivot => act(BeginDestroying { tenant: tenant.clone(), approved: self.approved() })
                .forward_only()
                .record(Self::pivoted)
                .on_failure(destruction_codes::HELD, HeldAtPivot)
                .then(Rewrapping),
            HeldAtPivot => {
                await_signal(HOLD_RELEASED).within(DAY).then(RecheckingHolds).expired(RecheckingHolds)
            }
            RecheckingHolds => act(RecheckHolds { tenant })
                .nothing_to_undo()
                .on_failure(destruction_codes::HELD, HeldAtPivot)
                .then(Surveying),

            // What the law keeps moves to a key of the provider; then the tenant's keys go, and all that they encrypted.
            Rewrapping => act_each(self.rewraps()).forward_only().within(DAY).then(Shredding),
            Shredding => act_each(self.shreds())
                .nothing_to_undo()
                .destroys()
                .record(|me: &mut Self, shredded: Shredded| me.shredded.push(shredded))
                .within(DAY)
                .then(FilingKeys),
            FilingKeys => act(self.filing()).forward_only().record(Self::filed).then(DeletingData),
            DeletingData => act_each(self.deletions())
                .nothing_to_undo()
                .destroys()
                .record(|me: &mut Self, removed| me.removed.push(removed))
                .attempt_within(10 * MINUTE)
                .within(DAY)
                .then(FilingData),
            FilingData => act(self.filing()).forward_only().record(Self::filed).then(SanitisingNodes),
            SanitisingNodes => children(self.sanitisations())
                .any_end()
                .answer(|node| (node.node.clone(), results::missing(node)))
                .forward_only()
                .at_once(self.at_once())
                .record(|me: &mut Self, node: ChildEnd<(NodeId, Option<String>)>| me.sanitised(node))
                .within(14 * DAY)
                .then(Verifying),

            // Other eyes look whether it is gone. What is left is deleted once more; then people have to look.
            Verifying => act(self.verification())
                .forward_only()
                .on_failure(actuator_codes::REMAINS, DeletingAgain)
                .then(ValidatingData),
            DeletingAgain => {
                act_each(self.deletions()).nothing_to_undo().destroys().within(DAY).then(VerifyingAgain)
            }
            VerifyingAgain => act(self.verification()).forward_only().then(ValidatingData),
            ValidatingData => act(self.validation(true)).forward_only().then(Dismantling),

            // What held it: queues, namespaces, accounts, names.
            Dismantling => act_each(self.dismantlings())
                .forward_only()
                .record(|me: &mut Self, removed| me.removed.push(removed))
                .on_failure(TOO_LATE, Diagnosing)
                .within(10 * MINUTE)
                .then(FilingDismantled),
            Diagnosing => act_each(
                self.dismantlings().into_iter().map(|removal| DiagnoseRemoval { thing: removal.thing }),
            )
            .forward_only()
            .then(Dismantling),
            FilingDismantled => {
                act(self.filing()).forward_only().record(Self::filed).then(VerifyingDismantled)
            }
            VerifyingDismantled => act(self.last_look()).forward_only().then(ValidatingDismantled),
            ValidatingDismantled => act(self.validation(false)).forward_only().then(ReturningNodes),

            // Nodes that are clean are everybody's again; the others stay the tenant's.
            ReturningNodes => act_each(self.returns())
                .forward_only()
                .record(|_: &mut Self, _: crate::platform::Returned| {})
                .then(ReleasingNodes),
            ReleasingNodes => act(ReleaseNodes { tenant: tenant.clone(), nodes: self.clean.clone() })
                .forward_only()
                .then(ClosingBooks),
            ClosingBooks => act(CloseTenant { tenant }).forward_only().then(Certifying),

            // The certificate: a plain one only if every asset passes.
            Certifying => act(AssembleCertificate {
                draft: self.draft(),
                exceptions: Exceptions::Refuse,
                schema: Self::SCHEMA,
            })
            .forward_only()
            .record(|me: &mut Self, assembled: Assembled| me.assembled = Some(assembled))
            .on_failure(destruction_codes::NOT_ISSUED, CertifyingExceptions)
            .then(Signing),
            Signing => act(self.signing())
                .forward_only()
                .record(|me: &mut Self, signed: Signed| me.signed = Some(signed))
                .then(FilingCertificate),
            FilingCertificate => act_each(self.certificate()).forward_only().then(DestroyingRecords),
            CertifyingExceptions => act(AssembleCertificate {
                draft: self.draft(),
                exceptions: Exceptions::Allow,
                schema: Self::SCHEMA,
            })
            .forward_only()
            .record(|me: &mut Self, assembled: Assembled| me.assembled = Some(assembled))
            .then(SigningExceptions),
            SigningExceptions => act(self.signing())
                .forward_only()
                .record(|me: &mut Self, signed: Signed| me.signed = Some(signed))
                .then(FilingExceptions),
            FilingExceptions => act_each(self.certificate()).forward_only().then(DestroyingRecords),

            // Last of all what is written here about the tenant; this execution, its inventory and its evidence stay.
            DestroyingRecords => act(DestroyRecordKey { tenant: of })
                .nothing_to_undo()
                .destroys()
                .record(|me: &mut Self, keys: Vec<String>| me.record_keys = keys)
                .within(DAY)
                .then(Ending),
            Ending => when(self.excepted(), "the certificate has exceptions", ClosedWithExceptions)
                .otherwise("every asset passes", Closed),

            Closed | ClosedWithExceptions => end(Outcome::Completed),
            Rejected => end(Outcome::Rejected),
            Declined => end(Outcome::Refused),
            Lapsed => end(Outcome::Expired),
        }
    }

    fn subject(&self) -> Subject {
        let name = format!("tenant/{}", self.tenant);
        Subject { tenant: self.tenant.to_string(), guard: Some(name.clone()), name }
    }

    fn plan(&self) -> Plan {
        plan::of(self)
    }

    fn examples() -> Vec<Self> {
        examples::all()
    }
}
