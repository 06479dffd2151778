//! The kinds of sentences: which fields each has, and what it says.
//!
//! Invariant: each field of a certificate is of one kind. A field that is added without a kind cannot be issued.

use strum::VariantArray as _;

/// The actions as the journal names them. Their modules import this one.
pub(super) const ASSEMBLE: &str = "AssembleCertificate";
pub(super) const BEGIN_DESTROYING: &str = "BeginDestroying";
pub(super) const CHECK_LEAVING: &str = "CheckLeaving";
pub(super) const TAKE_INVENTORY: &str = "TakeInventory";
pub(super) const FILE_RECORDS: &str = "FileRecords";
pub(super) const FILE_NODE: &str = "FileNode";

/// What sort of sentence a field is.
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
    /// The form of the certificate, and the program that wrote it.
    Form,
    /// Who answers for it.
    Issuer,
    /// When it was issued.
    IssuedAt,
    /// The totals.
    Summary,
    /// Whose data it was.
    Tenant,
    /// Who asked, and why.
    Request,
    /// An approval.
    Approval,
    /// The plan that was approved.
    Plan,
    /// A vote.
    Vote,
    /// When destruction began, of how much.
    Pivot,
    /// The inventory as a whole.
    Inventory,
    /// What is kept that is not in the inventory.
    Kept,
    /// Where no one looked.
    NotChecked,
    /// What the reader must know.
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
    /// Whether a record counts.
    Judgement,
    /// Which asset a record is about.
    RecordOf,
    /// Which execution and step did the work.
    Doer,
    /// When the work began and ended.
    Moments,
    /// The device as it described itself.
    Device,
    /// What was done, with what.
    Work,
    /// What was done to the memory of a GPU.
    Memory,
    /// Whether the firmware is as it should be.
    Firmware,
    /// The facts about a destroyed key.
    Key,
    /// The look for what should be gone or clean.
    Verification,
    /// Whether the look was accepted.
    Validation,
    /// How it ended.
    Result,
    /// Where a medium goes.
    Destination,
    /// The digests of what was collected.
    Evidence,
    /// What a person stated.
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
    /// The kind of the field at the end of these names, those of lists included; none of a field that is not known.
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

    /// The fields of this kind. `*` stands for all below it; lists add no name.
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
    fn decisions_are_named_as_the_journal_names_them() {
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
