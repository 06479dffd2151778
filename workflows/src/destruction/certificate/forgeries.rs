//! Certificates with false content and a valid signature. The verifier rejects each of them and names the field.

use super::*;
use crate::{
    destruction::{
        asset::{AssetId, AssetType, Scan},
        certificate::{checked_json, contents, envelope::file},
        inventory::Inventory,
        legal_hold::Pivot,
        sanitisation::{
            parts::{
                Actor, KeyFacts, Method, Technique, Tool, Validation, ValidationVerdict,
                Verification as Look, VerificationMethod,
            },
            record::SanitisationOutcome,
        },
    },
    platform::VerifiedAs,
    signing::{Signer as _, SigningKey, canonical::value, dsse},
};
use engine::{ApprovalRecord, Person, Plan, Verdict, Vote};
use serde_json::json;
use std::collections::BTreeSet;
use store::Timestamp;

pub(super) fn at(second: u64) -> Moment {
    Timestamp(1_795_000_000_000 + second * 1000).into()
}

fn run() -> ExecutionId {
    ExecutionId::from_bytes([7; 16])
}

pub(super) fn key() -> SigningKey {
    SigningKey::from_seed([9; 32]).unwrap()
}

fn tool() -> Tool {
    Tool { name: "tenure".into(), version: "1".into(), command: "look".into() }
}

fn assets() -> Vec<Asset> {
    let tenant: TenantId = "acme".parse().unwrap();
    let kinds = [
        (AssetType::Bucket, "objects/eu/Bucket/t-acme", DataClass::Workload),
        (AssetType::Dns, "dns/eu/Record/acme", DataClass::Configuration),
        (AssetType::Key, "keys//Key/t-acme", DataClass::Secret),
        (AssetType::Nvme, "eu-1/n-1/nvme0", DataClass::Workload),
    ];
    let asset = |(kind, locator, class): (AssetType, &str, DataClass)| {
        let seen = Asset::from_scan(&tenant, kind, locator, Some(class), Scan::Live, at(0));
        let serial = kind.is_medium().then(|| "S1".to_owned());
        Asset { serial, discovered_by: BTreeSet::from([Scan::Records, Scan::Live]), ..seen }
    };
    kinds.map(asset).to_vec()
}

fn record(asset: &Asset) -> SanitisationRecord {
    let technique = match asset.kind {
        AssetType::Key => Technique::KeyDestruction,
        AssetType::Nvme => Technique::BlockErase,
        _ => Technique::Delete,
    };
    let (verified_as, verifier) = match asset.kind {
        AssetType::Nvme => (VerifiedAs::Platform, "tenure, with the platform's own credentials"),
        _ => (VerifiedAs::Verifier, "tenure verifier"),
    };
    let begun = SanitisationRecord::begun(
        asset,
        technique,
        Actor::program("offboarding 7"),
        run(),
        "Deleting",
        at(100),
    );
    let mut record = SanitisationRecord {
        method: asset.kind.is_medium().then_some(Method::Purge),
        ended_at: Some(at(110)),
        key: (asset.kind == AssetType::Key).then_some(KeyFacts {
            exportable: false,
            backup_allowed: false,
            observed_absent: true,
            decrypt_fails: true,
            snapshots_until: None,
            can_come_back: BTreeSet::new(),
        }),
        verification: Some(Look {
            method: VerificationMethod::ObservedAbsent,
            seed: None,
            checked: 1,
            mismatches: 0,
            unreadable: 0,
            tool: tool(),
            actor: Actor::program(verifier),
            verified_as: Some(verified_as),
            at: at(120),
        }),
        validation: Some(Validation {
            decision: ValidationVerdict::Accept,
            actor: Actor::program("validation by policy"),
            at: at(130),
            reason: "looked for, and not found".into(),
        }),
        result: SanitisationOutcome::SanitisedVerified,
        ..begun
    };
    record.device.serial.clone_from(&asset.serial);
    record
}

fn approval(digest: &Digest) -> RecordedApproval {
    let plan =
        Plan { title: "destroy".into(), decides: json!({ "inventory": digest }), placement: Value::Null };
    let vote = |name: &str, role: &str, second| {
        Vote::new(Person::new(name, [role]), Verdict::Approve, "seen", Timestamp::from(at(second)))
    };
    let case = ApprovalRecord {
        id: format!("{}.3", run()),
        execution: run(),
        workflow: "offboarding".into(),
        tenant: "acme".into(),
        subject: "tenant/acme".into(),
        state: "AwaitingDestruction".into(),
        digest: plan.digest("offboarding", 1),
        plan,
        seats: vec![Seat { any_of: vec!["compliance".into(), "security".into()], count: 2 }],
        votes: vec![vote("cora", "compliance", 60), vote("sid", "security", 70)],
        requested_by: "rita".into(),
        opened_at: at(50).into(),
        deadline: None,
        ruling: Some("granted".into()),
        closed_at: Some(at(70).into()),
        procedure: engine::Procedure::default(),
        history: Vec::new(),
    };
    RecordedApproval::new(case, 1)
}

/// A statement of two approvers that the bucket is deleted.
fn statement() -> RecordedRepair {
    RecordedRepair {
        execution: run(),
        kind: "mark_done".into(),
        state: "DeletingData".into(),
        action: "RemoveThing".into(),
        things: vec!["objects/eu/Bucket/t-acme".into()],
        by: "olga".into(),
        seconded_by: Some("lena".into()),
        at: at(105),
        reason: "I looked".into(),
        evidence: "ticket 4711".into(),
        errors: vec!["platform.denied: 403".into()],
    }
}

/// Returns a certificate. If `stated` is true, the deletion of its bucket rests on a statement.
pub(super) fn issued(stated: bool) -> (Certificate, Vec<CertificateEntry>) {
    let inventory = Inventory::from_scans(assets()).unwrap();
    let made = |asset: &Asset| {
        let record = record(asset);
        let is_stated = stated && asset.kind == AssetType::Bucket;
        (asset.id.clone(), if is_stated { record.stated_by(statement()) } else { record })
    };
    let records: BTreeMap<AssetId, SanitisationRecord> = assets().iter().map(made).collect();
    let draft = CertificateDraft {
        tombstone: FormerTenant {
            tenant: "acme".parse().unwrap(),
            onboarded_by: None,
            onboarded_at: Some(at(0)),
        },
        scope: HoldScope::Tenant,
        legal_basis: LegalBasis { basis: ErasureBasis::ContractEnd, reference: "contract 4711".into() },
        request: RecordedRequest { by: "rita".into(), at: at(10), reason: "the end".into() },
        approvals: vec![approval(&inventory.digest())],
        retained: Vec::new(),
        not_checked: vec![NotChecked { location: "laptops".into(), why: "not ours".into() }],
        policies: Vec::new(),
        software: Software { name: "tenure".into(), version: "0.1.0".into() },
        audit_head: None,
        issuer: "Example".into(),
        repairs: if stated { vec![statement()] } else { Vec::new() },
        supplements: None,
    };
    let pivot = Pivot { scope: HoldScope::Tenant, run: run(), inventory: inventory.digest(), at: at(90) };
    let issued = issue(draft, &pivot, &inventory, &records, Exceptions::Allow, at(200)).unwrap();
    let entries = inventory.assets().map(|asset| {
        let record = records.get(&asset.id);
        let why = record.and_then(|record| record.passes().err());
        CertificateEntry {
            asset: asset.clone(),
            record: record.cloned(),
            record_hash: record.map(SanitisationRecord::hash),
            exception: why.map(|why| why.to_string()),
        }
    });
    let entries: Vec<_> = entries.collect();
    (issued.certificate, entries)
}

/// Returns the file of a forged certificate with valid digests and checksums, signed with the real key.
pub(super) async fn sealed(mut certificate: Certificate, mut entries: Vec<CertificateEntry>) -> String {
    for entry in &mut entries {
        entry.record_hash = entry.record.as_ref().map(SanitisationRecord::hash);
    }
    let page = checked_json::write("assets", &value(&entries));
    certificate.inventory.pages =
        vec![PageRef { assets: entries.len(), digest: Digest::from_bytes(page.as_bytes()) }];
    let cover = checked_json::write("certificate", &value(&certificate));
    let (sig, public) = key().sign(&dsse::pae(PAYLOAD_TYPE, cover.as_bytes())).await.unwrap();
    file(&cover, vec![dsse::Signature::new(&public, &sig)], &[page])
}

async fn verified(certificate: Certificate, entries: Vec<CertificateEntry>) -> Verification {
    verify_at(sealed(certificate, entries).await.as_bytes(), &[key().public_key()], at(3_600))
}

/// Updates the totals of the cover to match its list, so that only the forgery itself is found.
fn add_up(certificate: &mut Certificate, entries: &[CertificateEntry]) {
    certificate.results = contents::results(entries);
    certificate.exceptions = contents::exceptions(entries, &certificate.repairs);
    certificate.kind =
        if certificate.exceptions == 0 { CertificateKind::Complete } else { CertificateKind::WithExceptions };
    certificate.title = contents::title(
        &certificate.tombstone,
        &certificate.scope,
        certificate.kind,
        certificate.exceptions,
        certificate.supplements.as_ref(),
    );
}

type Forge = fn(&mut Certificate, &mut Vec<CertificateEntry>);

fn of(entries: &mut [CertificateEntry], kind: AssetType) -> &mut SanitisationRecord {
    entries.iter_mut().find(|entry| entry.asset.kind == kind).unwrap().record.as_mut().unwrap()
}

fn look(entries: &mut [CertificateEntry], kind: AssetType) -> &mut Look {
    of(entries, kind).verification.as_mut().unwrap()
}

/// Forgeries that an earlier verifier was tested with: the change, and the field that the verifier names.
const KNOWN: [(&str, &str, Forge); 17] = [
    ("one person votes twice", "votes[1].name", |it, _| it.approvals[0].votes[1].name = "cora".into()),
    ("the requester votes", "votes[0].name", |it, _| it.approvals[0].votes[0].name = "rita".into()),
    ("destruction begins before consent", "granted_at", |it, _| it.pivot_at = at(65)),
    ("it is another tenant's", "tenant", |it, _| it.tombstone.tenant = "other".parse().unwrap()),
    ("the key could leave", ".record", |_, all| {
        of(all, AssetType::Key).key.as_mut().unwrap().backup_allowed = true
    }),
    ("the look found mismatches", ".record", |_, all| look(all, AssetType::Bucket).mismatches = 1),
    ("nothing was looked at", ".record", |_, all| look(all, AssetType::Bucket).checked = 0),
    ("nothing was done", ".record", |_, all| of(all, AssetType::Bucket).technique = Technique::Nothing),
    ("the record is of another run", ".record", |_, all| {
        of(all, AssetType::Bucket).run = ExecutionId::from_bytes([8; 16]);
    }),
    ("it was done before the pivot", ".record", |_, all| of(all, AssetType::Bucket).started_at = at(80)),
    ("the rule does not fit", ".record", |it, all| {
        of(all, AssetType::Nvme).result = SanitisationOutcome::NotApplicable {
            rule: "holds_no_data".into(),
            reason: "empty".into(),
            destroy_by: None,
        };
        add_up(it, all);
    }),
    ("the doer validates", ".record", |_, all| {
        of(all, AssetType::Bucket).validation.as_mut().unwrap().actor.name = "offboarding 7".into();
    }),
    ("the doer verifies", ".record", |_, all| {
        look(all, AssetType::Bucket).actor.name = " Offboarding 7".into()
    }),
    ("it is issued in 2099", "issued_at", |it, _| it.issued_at = Timestamp(4_070_908_800_000).into()),
    ("no place was left unlooked at", "not_checked", |it, _| it.not_checked.clear()),
    ("it has no caveats", "caveats", |it, _| it.caveats.clear()),
    ("a vote is against it", "votes[0].verdict", |it, _| it.approvals[0].votes[0].verdict = Verdict::Refuse),
];

/// Forgeries of certificates that contain a statement.
const STATED: [(&str, &str, Forge); 10] = [
    ("a statement counts", ".record", |it, all| {
        all[0].exception = None;
        add_up(it, all);
    }),
    ("a statement claims to be verified, as an exception", "record.result", |it, all| {
        let looked = record(&all[0].asset);
        let stated = of(all, AssetType::Bucket);
        *stated = SanitisationRecord { stated: stated.stated.take(), ..looked };
        add_up(it, all);
    }),
    ("a statement is passed off as an exemption", ".record", |it, all| {
        of(all, AssetType::Bucket).result = SanitisationOutcome::NotApplicable {
            rule: "retained_by_law".into(),
            reason: "it is under a key of the provider".into(),
            destroy_by: Some(at(900)),
        };
        all[0].exception = None;
        add_up(it, all);
    }),
    ("the cover does not name who stated it", "record.stated", |it, _| it.repairs.clear()),
    ("the record does not name who stated it", "record.stated", |it, all| {
        all[0].record = Some(record(&all[0].asset));
        all[0].exception = None;
        add_up(it, all);
    }),
    ("one person seconds themself", "repairs[0].seconded_by", |it, all| {
        it.repairs[0].seconded_by = Some("olga".into());
        of(all, AssetType::Bucket).stated = Some(it.repairs[0].clone());
    }),
    ("nobody stated it", "repairs[0].by", |it, all| {
        it.repairs[0].by = " ".into();
        of(all, AssetType::Bucket).stated = Some(it.repairs[0].clone());
    }),
    ("a repair is made after the issue", "repairs[0].at", |it, all| {
        it.repairs[0].at = at(201);
        of(all, AssetType::Bucket).stated = Some(it.repairs[0].clone());
    }),
    ("a step that was left out is no exception", "exceptions", |it, _| {
        it.repairs.push(RecordedRepair { kind: "skip".into(), action: "VerifyAbsent".into(), ..statement() });
    }),
    ("the platform's own look is passed off as a verifier's", "verification.actor", |_, all| {
        look(all, AssetType::Nvme).actor.name = "tenure verifier".into();
    }),
];

/// Forgeries of certificates without a statement.
const MORE: [(&str, &str, Forge); 4] = [
    ("the caveat on own credentials is taken out", "caveats", |it, _| {
        it.caveats.retain(|caveat| !caveat.starts_with("Not looked at"));
    }),
    ("an approval is granted before it is opened", "granted_at", |it, _| it.approvals[0].opened_at = at(75)),
    ("an asset is left out", "inventory.digest", |it, all| {
        all.pop();
        it.inventory.assets = all.len();
        add_up(it, all);
    }),
    ("an asset is listed twice", ".id", |it, all| {
        all.push(all[0].clone());
        it.inventory.assets = all.len();
        add_up(it, all);
    }),
];

#[tokio::test]
async fn each_forgery_signed_with_the_true_key_is_refused_and_named() {
    for (stated, forgeries) in [(false, &KNOWN[..]), (true, &STATED[..]), (false, &MORE[..])] {
        for (what, field, forge) in forgeries {
            let (mut certificate, mut entries) = issued(stated);
            forge(&mut certificate, &mut entries);

            let found = verified(certificate, entries).await;

            assert_eq!(found.signed_by.len(), 1, "{what}: the signature itself is true");
            let named = found.problems.iter().any(|problem| problem.field.contains(field));
            assert!(named, "{what}: {field} is not among {:?}", found.problems);
            assert!(found.proves().is_empty(), "{what}");
        }
    }
}

#[tokio::test]
async fn an_unforged_certificate_verifies_and_names_the_authors_of_statements() {
    let (certificate, entries) = issued(false);
    assert_eq!(verified(certificate, entries).await.problems, []);

    let (certificate, entries) = issued(true);
    assert_eq!(certificate.kind, CertificateKind::WithExceptions);
    let found = verified(certificate, entries).await;

    assert_eq!(found.problems, []);
    let proves = found.proves().join("\n");
    for said in ["olga, seconded by lena", "stated, not observed", "1 assets have NO record that counts"] {
        assert!(proves.contains(said), "{said}: {proves}");
    }
    let page = print::html(&found).unwrap();
    assert!(page.contains("ticket 4711") && page.contains("lena"), "{page}");
}

/// A certificate of an earlier version has neither repairs nor statements. It is written unchanged and stays valid.
#[tokio::test]
async fn a_certificate_without_repairs_has_the_format_of_earlier_versions_and_verifies() {
    let (certificate, entries) = issued(false);
    let text = checked_json::write("certificate", &value(&certificate)) + &value(&entries).to_string();

    assert!(!text.contains("\"repairs\"") && !text.contains("\"stated\""), "{text}");
    assert!(verified(certificate, entries).await.is_valid());
}

#[tokio::test]
async fn the_clock_of_the_issuer_can_be_ahead_by_the_stated_skew_at_most() {
    let (certificate, entries) = issued(false);
    let file = sealed(certificate, entries).await;
    let late = Moment::from(Timestamp(Timestamp::from(at(200)).0 - 300_000));
    let later = Moment::from(Timestamp(Timestamp::from(at(200)).0 - 300_001));

    assert_eq!(verify_at(file.as_bytes(), &[key().public_key()], late).problems, []);
    let found = verify_at(file.as_bytes(), &[key().public_key()], later);
    assert_eq!(found.problems.iter().map(|it| it.field.as_str()).collect::<Vec<_>>(), ["issued_at"]);
}
