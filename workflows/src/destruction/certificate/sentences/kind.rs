//! The kinds of sentences, and the fields of each kind.
//!
//! Invariant: each field of a certificate has one kind. A certificate with an unknown field cannot be issued.

use strum::VariantArray as _;

/// The names of actions in the journal. Their modules import this one.
pub(super) const ASSEMBLE: &str = "AssembleCertificate";
pub(super) const BEGIN_DESTROYING: &str = "BeginDestroying";
pub(super) const CHECK_LEAVING: &str = "CheckLeaving";
pub(super) const TAKE_INVENTORY: &str = "TakeInventory";
pub(super) const FILE_RECORDS: &str = "FileRecords";
pub(super) const FILE_NODE: &str = "FileNode";

/// The kind of a field's sentence.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum SentenceKind {
    /// The format of the certificate, and the program that wrote it.
    Form,
    /// The issuer.
    Issuer,
    /// The time of issue.
    IssuedAt,
    /// The totals.
    Summary,
    /// The former tenant.
    Tenant,
    /// The requester and the reason.
    Request,
    /// An approval.
    Approval,
    /// The plan that was approved.
    Plan,
    /// A vote.
    Vote,
    /// The start and the scope of the destruction.
    Pivot,
    /// The inventory as a whole.
    Inventory,
    /// Retained data that are not in the inventory.
    Kept,
    /// Places that were not searched.
    NotChecked,
    /// The caveats.
    Caveats,
    /// The policies in force.
    Policies,
    /// The state of the audit log.
    AuditHead,
    /// The repairs.
    Repairs,
    /// The certificate that it supplements.
    Supplements,
    /// An asset as it was found.
    AssetFound,
    /// The judgement of a record.
    Judgement,
    /// The asset of a record.
    RecordOf,
    /// The execution and step that did the work.
    Doer,
    /// The start and end of the work.
    Moments,
    /// The device as it reported itself.
    Device,
    /// The technique and the tool.
    Work,
    /// The treatment of a GPU's memory.
    Memory,
    /// The result of the firmware check.
    Firmware,
    /// The facts about a destroyed key.
    Key,
    /// The observation that the asset is gone or clean.
    Verification,
    /// The decision about the observation.
    Validation,
    /// The outcome.
    Result,
    /// The destination of a medium.
    Destination,
    /// The digests of the evidence.
    Evidence,
    /// The statement of an operator.
    Stated,
    /// The observations that a record names.
    Observed,
}

const APPROVAL_FIELDS: &[&str] = &[
    "approvals.gate",
    "approvals.workflow",
    "approvals.schema",
    "approvals.plan_digest",
    "approvals.requested_by",
    "approvals.seats.any_of",
    "approvals.seats.count",
    "approvals.opened_at",
    "approvals.granted_at",
];

const VOTE_FIELDS: &[&str] = &[
    "approvals.votes.name",
    "approvals.votes.roles",
    "approvals.votes.on_behalf_of",
    "approvals.votes.break_glass",
    "approvals.votes.created_by",
    "approvals.votes.claim",
    "approvals.votes.issued_by",
    "approvals.votes.not_separate.*",
    "approvals.votes.removed_on",
    "approvals.votes.verdict",
    "approvals.votes.reason",
    "approvals.votes.at",
];

const KEPT_FIELDS: &[&str] =
    &["retained.what", "retained.data_class", "retained.rule", "retained.reason", "retained.destroy_by"];

const ASSET_FOUND_FIELDS: &[&str] = &[
    "assets.id",
    "assets.tenant",
    "assets.workspace",
    "assets.type",
    "assets.locator",
    "assets.serial",
    "assets.data_class",
    "assets.node",
    "assets.discovered_by",
    "assets.discovered_at",
];

const RECORD_OF_FIELDS: &[&str] = &[
    "assets.record.asset",
    "assets.record.type",
    "assets.record.tenant",
    "assets.record.node",
    "assets.record.owner_epoch",
    "assets.record.data_class",
];

const DOER_FIELDS: &[&str] = &[
    "assets.record.actor.name",
    "assets.record.actor.position",
    "assets.record.actor.location",
    "assets.record.actor.contact",
    "assets.record.run",
    "assets.record.step",
];

const DEVICE_FIELDS: &[&str] = &[
    "assets.record.device.vendor",
    "assets.record.device.model",
    "assets.record.device.serial",
    "assets.record.device.property_number",
    "assets.record.device.firmware",
    "assets.record.device.capacity_bytes",
    "assets.record.device.reported.*",
];

const WORK_FIELDS: &[&str] = &[
    "assets.record.method",
    "assets.record.technique",
    "assets.record.tool.name",
    "assets.record.tool.version",
    "assets.record.tool.command",
];

const REQUEST_FIELDS: &[&str] =
    &["request.by", "request.at", "request.reason", "legal_basis.basis", "legal_basis.reference"];

const INVENTORY_FIELDS: &[&str] =
    &["inventory.assets", "inventory.digest", "inventory.pages.assets", "inventory.pages.digest"];

impl SentenceKind {
    /// Returns the kind of the field at this path, which includes the names of lists. `None` for an unknown field.
    pub(super) fn of(path: &[&str]) -> Option<Self> {
        let fits = |pattern: &&str| {
            let mut names = path.iter();
            let mut parts = pattern.split('.');
            loop {
                match (parts.next(), names.next()) {
                    (Some("*"), Some(_)) => return true,
                    (Some(part), Some(name)) if part == *name => {}
                    (None, None) => return true,
                    (Some(_) | None, Some(_)) | (Some(_), None) => return false,
                }
            }
        };
        Self::VARIANTS.iter().copied().find(|kind| kind.fields().iter().any(fits))
    }

    /// Returns the fields of this kind. `*` matches everything below it, and lists add no name.
    #[must_use]
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Form => &["format", "software.name", "software.version"],
            Self::Issuer => &["issuer"],
            Self::IssuedAt => &["issued_at"],
            Self::Summary => &["title", "kind", "exceptions", "results.*"],
            Self::Tenant => &["tombstone.tenant", "tombstone.onboarded_by", "tombstone.onboarded_at"],
            Self::Request => REQUEST_FIELDS,
            Self::Approval => APPROVAL_FIELDS,
            Self::Plan => &["approvals.plan.*"],
            Self::Vote => VOTE_FIELDS,
            Self::Pivot => &["id", "pivot_at", "scope", "scope.*"],
            Self::Inventory => INVENTORY_FIELDS,
            Self::Kept => KEPT_FIELDS,
            Self::NotChecked => &["not_checked.location", "not_checked.why"],
            Self::Caveats => &["caveats"],
            Self::Policies => &["policies.*"],
            Self::AuditHead => &["audit_head.chain", "audit_head.entries", "audit_head.digest"],
            Self::Repairs => &["repairs.*"],
            Self::Supplements => &["supplements.*"],
            Self::AssetFound => ASSET_FOUND_FIELDS,
            Self::Judgement => &["assets.record_hash", "assets.exception"],
            Self::RecordOf
            | Self::Doer
            | Self::Moments
            | Self::Device
            | Self::Work
            | Self::Memory
            | Self::Firmware
            | Self::Key
            | Self::Verification
            | Self::Validation
            | Self::Result
            | Self::Destination
            | Self::Evidence
            | Self::Stated
            | Self::Observed => self.fields_of_record(),
        }
    }

    fn fields_of_record(self) -> &'static [&'static str] {
        match self {
            Self::RecordOf => RECORD_OF_FIELDS,
            Self::Doer => DOER_FIELDS,
            Self::Moments => &["assets.record.started_at", "assets.record.ended_at"],
            Self::Device => DEVICE_FIELDS,
            Self::Work => WORK_FIELDS,
            Self::Memory => &["assets.record.scrub.*"],
            Self::Firmware => &["assets.record.firmware", "assets.record.firmware.*"],
            Self::Key => &["assets.record.key.*"],
            Self::Verification => &["assets.record.verification.*"],
            Self::Validation => &["assets.record.validation.*"],
            Self::Result => &["assets.record.result.*"],
            Self::Destination => &["assets.record.destination"],
            Self::Evidence => &["assets.record.evidence.*"],
            Self::Stated => &["assets.record.stated.*"],
            Self::Observed => &["assets.record.observed.*"],
            Self::Form
            | Self::Issuer
            | Self::IssuedAt
            | Self::Summary
            | Self::Tenant
            | Self::Request
            | Self::Approval
            | Self::Plan
            | Self::Vote
            | Self::Pivot
            | Self::Inventory
            | Self::Kept
            | Self::NotChecked
            | Self::Caveats
            | Self::Policies
            | Self::AuditHead
            | Self::Repairs
            | Self::Supplements
            | Self::AssetFound
            | Self::Judgement => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        destruction::certificate::AssembleCertificate,
        offboarding::{
            BeginDestroying, CheckLeaving, FileRecords, TakeInventory, node_sanitisation::FileNode,
        },
    };
    use engine::LedgerAction as _;
    use std::{collections::BTreeMap, fs};

    #[test]
    fn decisions_have_the_names_of_the_journal() {
        let named = [ASSEMBLE, BEGIN_DESTROYING, CHECK_LEAVING, TAKE_INVENTORY, FILE_RECORDS, FILE_NODE];
        let names = [
            AssembleCertificate::NAME,
            BeginDestroying::NAME,
            CheckLeaving::NAME,
            TakeInventory::NAME,
            FileRecords::NAME,
            FileNode::NAME,
        ];
        assert_eq!(named, names);
    }

    #[test]
    fn the_page_about_certificates_has_a_row_with_the_fields_of_each_kind_of_sentence() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/certificate.md");
        let page = fs::read_to_string(page).unwrap();
        let (_, table) = page.split_once("## Where each sentence comes from").unwrap();
        let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
        let rows: BTreeMap<String, String> = rows
            .take_while(|line| line.starts_with('|'))
            .map(|line| {
                let cells: Vec<_> = line.split('|').map(str::trim).collect();
                (cells[1].trim_matches('`').to_owned(), cells[2].to_owned())
            })
            .collect();
        let known = SentenceKind::VARIANTS.iter().map(|kind| {
            let fields: Vec<_> = kind.fields().iter().map(|field| format!("`{field}`")).collect();
            (kind.to_string(), fields.join(", "))
        });
        assert_eq!(rows, known.collect(), "docs/certificate.md: one row for each kind, with its fields");
    }
}
