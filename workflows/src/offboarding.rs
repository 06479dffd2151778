//! Offboarding: from an active tenant to a signed certificate that its data are destroyed.
//!
//! Before `PassingPivot` every step can be undone, and the tenant then stays. `PassingPivot` checks the holds again in the commit that starts the
//! destruction. After it there is no undo: failed steps are retried or parked, and the result is a certificate that lists every asset of the approved
//! inventory. The page with the diagram is `docs/workflows/offboarding.md`.

mod assets;
mod certificate_draft;
mod closing;
mod examples;
mod inventory;
mod known_assets;
pub(crate) mod ledger;
pub mod node_sanitisation;
mod plan;
mod preview;
mod record;
mod removal_records;
mod results;
mod retention;
mod store_locks;

pub use closing::{CloseTenant, ReleaseNodes};
pub use inventory::{
    Classification, Classifications, RecheckInventory, StoredAmount, TakeInventory, TakenInventory, classify,
};
pub use known_assets::{UnknownAsset, unknown_asset};
pub use ledger::{
    BeginDestroying, BeginLeaving, CheckLeaving, EndWork, LeavingCheck, RecheckHolds, StayOn, survey_records,
};
pub use preview::{Preview, preview, preview_remaining};
pub use record::{
    ASSETS_CLASSIFIED, EXPORT_CONFIRMED, HOLD_RELEASED, LeavingTenant, Offboarding, OffboardingTerms,
    RemainingAsset, RemainingAssets, RemovalTarget, WRITES_STOPPED,
};
pub use removal_records::{FileRecords, RecordsFiled, ValidateRecords};
pub use store_locks::StoreLock;

use crate::{
    destruction::{certificate::Exceptions, codes as destruction_codes},
    ledger::codes,
    platform::{
        AccessMode, AwaitIdle, DestroyRecordKey, DiagnoseRemoval, Platform, ReadAdmission, ResourceAdmission,
        Shredded, codes as actuator_codes,
    },
    scheduling::admission::EndedWork,
    tenancy::NodeId,
};
use engine::{
    ChildEnd, DAY, HOUR, MINUTE, MadeRepair, Outcome, Plan, Step, Subject, Workflow, act, act_each, approval,
    await_signal, children, end, when,
};

/// The state of an offboarding. Persisted by name.
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
    CheckingRetention,
    AwaitingClassification,
    WeighingChanges,
    AwaitingWriteStop,
    AwaitingDestruction,
    RecheckingInventory,
    ExportExtended,
    PassingPivot,
    HeldAtPivot,
    RecheckingHolds,
    Rewrapping,
    ReadingLocks,
    Shredding,
    FilingKeys,
    DeletingData,
    FilingData,
    SanitisingNodes,
    Verifying,
    DeletingAgain,
    VerifyingAgain,
    ObservingData,
    ValidatingData,
    Dismantling,
    Diagnosing,
    FilingDismantled,
    VerifyingDismantled,
    ObservingDismantled,
    ValidatingDismantled,
    ReturningNodes,
    ReleasingNodes,
    ClosingBooks,
    Certifying,
    CheckingPages,
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
    const EDITABLE: Option<&'static [&'static str]> = Some(&["basis", "reason"]);

    #[allow(clippy::too_many_lines, reason = "the machine is read top to bottom in one place")]
    fn step(&self, state: State) -> Step<Self> {
        use State::*;
        let tenant = self.tenant.clone();
        match state {
            // Checks that the tenant may leave. It waits while a hold is in force. A signal wakes it, and it checks once a day.
            Checking => act(CheckLeaving { tenant, remaining: self.remaining.is_some() })
                .nothing_to_undo()
                .record(Self::checked)
                .on_failure(destruction_codes::HELD, Held)
                .on_failure(codes::TENANT_NOT_ACTIVE, Rejected)
                .on_failure(codes::TENANT_CHANGING, Rejected)
                .on_failure(codes::TENANT_IN_USE, Rejected)
                .then(AwaitingApproval),
            Held => await_signal(HOLD_RELEASED).within(DAY).then(Checking).expired(Checking),
            AwaitingApproval => approval(self.offboard_gate().seats)
                .within(self.offboard_gate().within)
                .with_procedure(self.offboard_gate().procedure)
                .granted(MarkingLeaving)
                .refused(Declined)
                .expired(Lapsed),
            // Rejects new work, while all data stay readable. After an undo the tenant continues.
            MarkingLeaving => act(BeginLeaving { tenant: tenant.clone() })
                .undo(StayOn { tenant })
                .on_failure(codes::TENANT_CHANGING, Rejected)
                .on_failure(codes::TENANT_IN_USE, Rejected)
                .then(ReadingDoors),
            ReadingDoors => act_each(self.entry_points().into_iter().map(|thing| ReadAdmission { thing }))
                .nothing_to_undo()
                .record(|me: &mut Self, door: ResourceAdmission| me.doors.push(door))
                .then(Freezing),
            Freezing => act_each(self.settings(AccessMode::ReadOnly))
                .undo_each(|setting| self.before(setting))
                .within(HOUR)
                .then(ExportWindow),
            ExportWindow => await_signal(EXPORT_CONFIRMED)
                .forget_earlier()
                .within(self.export_window())
                .then(Draining)
                .expired(Draining),
            Draining => act_each(self.settings(AccessMode::Nothing))
                .undo_each(|setting| self.frozen(setting))
                .then(AwaitingIdle),
            AwaitingIdle => act_each(self.open_doors().map(|thing| AwaitIdle { thing }))
                .nothing_to_undo()
                .within(self.drain())
                .then(EndingWork),
            EndingWork => act(EndWork { tenant })
                .nothing_to_undo()
                .record(|me: &mut Self, ended: EndedWork| me.works_on = ended.more)
                .then(LookingForWork),
            LookingForWork => when(self.works_on, "the tenant has more workloads", EndingWork)
                .otherwise("the tenant has no more workloads", Surveying),

            // The inventory comes from two scans that agree.
            Surveying => act(self.survey())
                .nothing_to_undo()
                .record(Self::surveyed)
                .attempt_within(10 * MINUTE)
                .on_failure(actuator_codes::DENIED, AwaitingClassification)
                .on_failure(actuator_codes::REFUSED, AwaitingClassification)
                .then(ReadingNodes),
            ReadingNodes => act_each(self.readings())
                .nothing_to_undo()
                .record(Self::read_node)
                .within(self.for_nodes(HOUR, results::NODES_AT_ONCE))
                .then(TakingInventory),
            TakingInventory => act(self.taking())
                .nothing_to_undo()
                .record(Self::record_inventory)
                .on_failure(destruction_codes::INVENTORY_OPEN, AwaitingClassification)
                .then(CheckingRetention),
            // Data that cannot be re-encrypted with a provider's key are found before the destruction of the tenant's key is approved.
            CheckingRetention => act_each(self.rewrap_questions())
                .nothing_to_undo()
                .on_failure(actuator_codes::UNSUPPORTED, AwaitingClassification)
                .then(WeighingChanges),
            // After several replaced plans, approvers are asked only about an inventory that has stopped changing.
            WeighingChanges => when(self.keeps_changing(), "it keeps changing", AwaitingWriteStop)
                .otherwise("approvers can decide", AwaitingDestruction),
            AwaitingWriteStop => await_signal(WRITES_STOPPED)
                .forget_earlier()
                .within(DAY)
                .then(Surveying)
                .expired(AwaitingWriteStop),
            AwaitingClassification => {
                await_signal(ASSETS_CLASSIFIED).within(DAY).then(Surveying).expired(Surveying)
            }
            AwaitingDestruction => approval(self.destroy_gate().seats)
                .within(self.destroy_gate().within)
                .with_procedure(self.destroy_gate().procedure)
                .granted(RecheckingInventory)
                .refused(ExportExtended)
                .expired(ExportExtended),
            // Resources that were created after the plan are not approved. A new plan lists them.
            RecheckingInventory => act(self.recheck())
                .nothing_to_undo()
                .attempt_within(10 * MINUTE)
                .on_failure(destruction_codes::INVENTORY_CHANGED, Surveying)
                .on_failure(actuator_codes::DENIED, AwaitingClassification)
                .on_failure(actuator_codes::REFUSED, AwaitingClassification)
                .then(PassingPivot),
            ExportExtended => await_signal(EXPORT_CONFIRMED)
                .forget_earlier()
                .within(self.extension())
                .then(Surveying)
                .expired(Surveying),
            // The point of no return, in one commit with a last check of the holds.
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
            // Retained data are re-encrypted with a provider's key. Then the tenant's keys are destroyed, with all data that they encrypt.
            Rewrapping => act_each(self.rewraps()).forward_only().within(DAY).then(ReadingLocks),
            // A lock or legal hold that was created after the approval spares the keys as well.
            ReadingLocks => act(self.lock_survey())
                .forward_only()
                .record(Self::relocked)
                .attempt_within(10 * MINUTE)
                .then(Shredding),
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
                .accept_any_outcome()
                .map_result(|node| (node.node.clone(), results::missing(node)))
                .forward_only()
                .max_concurrent(self.at_once())
                .record(|me: &mut Self, node: ChildEnd<(NodeId, Option<String>)>| me.sanitised(node))
                .within((14 * DAY).max(self.for_nodes(DAY, self.at_once())))
                .then(Verifying),
            // The verifier checks that the data are gone. Remaining data are deleted once more, and then an operator must decide.
            Verifying => act(self.verification())
                .forward_only()
                .record(Self::verified)
                .on_failure(actuator_codes::REMAINS, DeletingAgain)
                .optional_to(ObservingData)
                .then(ValidatingData),
            DeletingAgain => {
                act_each(self.deletions()).nothing_to_undo().destroys().within(DAY).then(VerifyingAgain)
            }
            VerifyingAgain => act(self.verification())
                .forward_only()
                .record(Self::verified)
                .optional_to(ObservingData)
                .then(ValidatingData),
            // Remaining resources were accepted, so each record gets its observation.
            ObservingData => act(self.observation(true))
                .forward_only()
                .record(Self::observed)
                .optional()
                .then(ValidatingData),
            ValidatingData => {
                act(self.validation(true)).forward_only().record(Self::validated).then(Dismantling)
            }
            // Removes the containers of the data: queues, namespaces, accounts, names.
            Dismantling => act_each(self.dismantlings())
                .forward_only()
                .record(|me: &mut Self, removed| me.removed.push(removed))
                .on_failure(record::TOO_LATE, Diagnosing)
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
            VerifyingDismantled => act(self.last_look())
                .forward_only()
                .record(Self::nothing_left)
                .optional_to(ObservingDismantled)
                .then(ValidatingDismantled),
            ObservingDismantled => act(self.observation(false))
                .forward_only()
                .record(Self::observed)
                .optional()
                .then(ValidatingDismantled),
            ValidatingDismantled => {
                act(self.validation(false)).forward_only().record(Self::validated).then(ReturningNodes)
            }
            // Clean nodes become free. The others stay with the tenant.
            ReturningNodes => act_each(self.returns())
                .forward_only()
                .record(|_: &mut Self, _: crate::platform::NodeReturned| {})
                .within(self.for_nodes(HOUR, results::NODES_AT_ONCE))
                .then(ReleasingNodes),
            ReleasingNodes => act(ReleaseNodes { tenant: tenant.clone(), nodes: self.clean.clone() })
                .forward_only()
                .then(ClosingBooks),
            ClosingBooks => act(CloseTenant { tenant }).forward_only().then(Certifying),
            // A certificate without exceptions requires that every asset passes.
            Certifying => act(self.assembly(Exceptions::Refuse))
                .forward_only()
                .record(Self::assembled)
                .on_failure(destruction_codes::NOT_ISSUED, CertifyingExceptions)
                .then(CheckingPages),
            // Each commit adds a few pages, so that a certificate of any length fits the store.
            CheckingPages => when(self.pages_missing(), "more assets must be listed", Certifying)
                .or_when(self.excepted(), "it lists all assets and has exceptions", SigningExceptions)
                .otherwise("it lists all assets", Signing),
            Signing => act(self.signing()).forward_only().record(Self::signed).then(FilingCertificate),
            FilingCertificate => act_each(self.certificate()).forward_only().then(DestroyingRecords),
            CertifyingExceptions => act(self.assembly(Exceptions::Allow))
                .forward_only()
                .record(Self::assembled)
                .then(CheckingPages),
            SigningExceptions => {
                act(self.signing()).forward_only().record(Self::signed).then(FilingExceptions)
            }
            FilingExceptions => act_each(self.certificate()).forward_only().then(DestroyingRecords),
            // Destroys the key of the tenant's own records last. This execution, its inventory and its evidence stay.
            DestroyingRecords => act(DestroyRecordKey { tenant: tenant.to_string() })
                .nothing_to_undo()
                .destroys()
                .record(|me: &mut Self, keys: Vec<String>| me.record_keys = keys)
                .within(DAY)
                .then(Ending),
            Ending => when(self.excepted(), "the certificate has exceptions", ClosedWithExceptions)
                .otherwise("every asset has a valid record", Closed),

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

    fn note_repair(&mut self, repair: MadeRepair) {
        self.repaired(repair);
    }

    fn examples() -> Vec<Self> {
        examples::all()
    }
}
