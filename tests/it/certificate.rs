//! Destruction records: which ones count, what delays destruction, and the certificate.

mod counts;
mod file;
mod holds;
mod kept;

use backends::simulated::{LocalWorld, simulated_platform};
use engine::{Action as _, ApprovalRecord, Person, Plan, Seat, Verdict, Vote};
use proptest::{collection::vec, prelude::*};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use store::{ExecutionId, Key, Put, Timestamp};
use tests::{
    actions::calls::Calls,
    books::{Books, Executions},
};
use workflows::{
    destruction::{certificate::*, *},
    signing::{dsse, *},
    tenancy::TenantId,
};

const RUN: u8 = 7;

fn run() -> ExecutionId {
    ExecutionId::from_bytes([RUN; 16])
}

fn tenant() -> TenantId {
    "acme".parse().unwrap()
}

fn at(second: u64) -> Moment {
    Timestamp(1_795_000_000_000 + second * 1000).into()
}

fn asset(kind: AssetType, locator: &str) -> Asset {
    let class = if kind == AssetType::Dns { DataClass::Configuration } else { DataClass::Workload };
    let serial = kind.is_medium().then(|| format!("SN-{locator}"));
    let discovered_by = BTreeSet::from([Scan::Records, Scan::Live]);
    let seen = Asset::from_scan(&tenant(), kind, locator, Some(class), Scan::Live, at(0));
    Asset { serial, discovered_by, ..seen }
}

fn verification() -> workflows::destruction::Verification {
    workflows::destruction::Verification {
        method: VerificationMethod::Sampling,
        seed: Some("42".into()),
        checked: 2002,
        mismatches: 0,
        unreadable: 0,
        tool: Tool { name: "sampler".into(), version: "1.0".into(), command: "sample --seed 42".into() },
        actor: Actor::program("verifier"),
        verified_as: None,
        at: at(120),
    }
}

/// Returns a record of the asset that counts as proof.
fn record(asset: &Asset) -> SanitisationRecord {
    let technique = match asset.kind {
        AssetType::Key => Technique::KeyDestruction,
        AssetType::Gpu => Technique::MemoryScrub,
        AssetType::Node => Technique::Reset,
        kind if kind.is_medium() => Technique::BlockErase,
        _ => Technique::Delete,
    };
    let begun =
        SanitisationRecord::begun(asset, technique, Actor::program("scrubber"), run(), "Sanitising", at(100));
    SanitisationRecord {
        device: Device { serial: asset.serial.clone(), ..Device::default() },
        method: asset.kind.is_medium().then_some(Method::Purge),
        tool: Tool {
            name: "nvme".into(),
            version: "2.16".into(),
            command: "nvme sanitize --sanact=2".into(),
        },
        ended_at: Some(at(110)),
        scrub: (asset.kind == AssetType::Gpu).then(|| GpuScrub {
            level: ScrubLevel::FillVerified,
            driver_version: Some("550.90.07".into()),
            scrub_on_free: Some(true),
            bytes_total: 85_520_809_984,
            bytes_covered: 84_000_000_000,
            leftovers: 0,
            mismatches: 0,
        }),
        firmware: (asset.kind == AssetType::Node)
            .then(|| FirmwareCheck::Matches { baseline: "golden-7".into() }),
        key: (asset.kind == AssetType::Key).then_some(KeyFacts {
            exportable: false,
            backup_allowed: false,
            observed_absent: true,
            decrypt_fails: true,
            snapshots_until: Some(at(900_000)),
            can_come_back: BTreeSet::new(),
        }),
        verification: Some(verification()),
        validation: Some(Validation {
            decision: ValidationVerdict::Accept,
            actor: Actor::person("vera", "compliance"),
            at: at(130),
            reason: "samples agree".into(),
        }),
        result: SanitisationOutcome::SanitisedVerified,
        destination: Some("free pool".into()),
        evidence: BTreeMap::from([("log".into(), Digest::from_bytes(b"log"))]),
        ..begun
    }
}

fn things() -> Vec<Asset> {
    let kinds = [
        (AssetType::Node, "west-1/node-1"),
        (AssetType::Gpu, "west-1/node-1/gpu0"),
        (AssetType::Nvme, "west-1/node-1/nvme0"),
        (AssetType::Nic, "west-1/node-1/mlx5_0"),
        (AssetType::Bucket, "eu-west/t-acme"),
        (AssetType::Key, "transit/t-acme"),
        (AssetType::Dns, "acme.gpu.example"),
        (AssetType::FabricKey, "west-1/0x8001"),
    ];
    kinds.iter().map(|(kind, locator)| asset(*kind, locator)).collect()
}

fn case(decides: serde_json::Value) -> ApprovalRecord {
    let plan = Plan { title: "destroy".into(), decides, placement: serde_json::Value::Null };
    let vote = |name: &str, role: &str, second| {
        Vote::new(Person::new(name, [role]), Verdict::Approve, "checked", Timestamp::from(at(second)))
    };
    ApprovalRecord {
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
    }
}

fn draft(approvals: Vec<RecordedApproval>) -> CertificateDraft {
    CertificateDraft {
        tombstone: FormerTenant { tenant: tenant(), onboarded_by: None, onboarded_at: Some(at(0)) },
        scope: HoldScope::Tenant,
        legal_basis: LegalBasis { basis: ErasureBasis::ContractEnd, reference: "contract 4711".into() },
        request: RecordedRequest { by: "rita".into(), at: at(10), reason: "contract ended".into() },
        approvals,
        retained: vec![Retained {
            what: "audit log".into(),
            data_class: DataClass::Audit,
            rule: "audit-6y".into(),
            reason: "SOC 2".into(),
            destroy_by: Some(at(200_000_000)),
        }],
        not_checked: vec![NotChecked {
            location: "laptops of the tenant's people".into(),
            why: "not ours".into(),
        }],
        policies: Vec::new(),
        software: Software { name: "tenure".into(), version: "0.1.0".into() },
        audit_head: Some(AuditHead {
            chain: "acme".into(),
            entries: 12,
            digest: Digest::from_bytes(b"audit"),
        }),
        issuer: "Example GPU Ltd".into(),
        repairs: Vec::new(),
        supplements: None,
    }
}

fn pivot(inventory: &Inventory) -> Pivot {
    Pivot { scope: HoldScope::Tenant, run: run(), inventory: inventory.digest(), at: at(90) }
}

fn approved(inventory: &Inventory) -> Vec<RecordedApproval> {
    vec![RecordedApproval::new(case(serde_json::json!({ "inventory": inventory.digest() })), 1)]
}

/// Issues for these assets with these records.
fn try_issue(
    assets: &[Asset],
    records: &[SanitisationRecord],
    exceptions: Exceptions,
) -> Result<IssuedCertificate, NotIssued> {
    let inventory = Inventory::from_scans(assets.iter().cloned()).unwrap();
    let records = records.iter().map(|record| (record.asset.clone(), record.clone())).collect();
    issue(draft(approved(&inventory)), &pivot(&inventory), &inventory, &records, exceptions, at(200))
}

/// Returns the issuer's keys, as a verifier receives them.
pub(crate) fn issuer() -> String {
    key().public_key().to_pem()
}

fn key() -> SigningKey {
    SigningKey::from_seed([9; 32]).unwrap()
}

fn signed(issued: &IssuedCertificate) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let message = dsse::pae(PAYLOAD_TYPE, issued.cover.as_bytes());
    let (sig, public) = runtime.block_on(key().sign(&message)).unwrap();
    let sig = dsse::Signature::new(&public, &sig);
    envelope::file(&issued.cover, vec![sig], &issued.pages)
}

/// The certificate of a tenant called acme.
pub(crate) fn whole() -> String {
    let records: Vec<_> = things().iter().map(record).collect();
    signed(&try_issue(&things(), &records, Exceptions::Refuse).unwrap())
}

fn problems(file: &[u8]) -> Vec<Problem> {
    verify(file, &[key().public_key()]).problems
}

#[test]
fn a_certificate_is_verified_with_the_public_key_only_and_lists_what_it_proves() {
    let found = verify(whole().as_bytes(), &[key().public_key()]);

    assert_eq!(found.problems, []);
    assert_eq!(found.signed_by, [key().public_key().id()]);
    let proves = found.proves().join("\n");
    assert!(proves.contains("8 assets of tenant acme, each once"), "{proves}");
    assert!(proves.contains("cora and sid agreed"), "{proves}");
    let not = found.limitations().join("\n");
    for said in [
        "laptops",
        "audit log",
        "Whose key",
        "snapshots of the key store",
        "Rev.2 is not claimed",
        "No maker gives",
    ] {
        assert!(not.contains(said), "{said}: {not}");
    }
}

#[test]
fn a_certificate_is_refused_and_names_every_asset_without_a_valid_record() {
    let things = things();
    let mut records: Vec<_> = things.iter().map(record).collect();
    records[1].scrub = None;
    records[2].result = SanitisationOutcome::Skipped { reason: "no stdin".into() };
    let gone = records.remove(4);

    let Err(NotIssued::NotPassed(lacking)) = try_issue(&things, &records, Exceptions::Refuse) else {
        panic!("it was issued")
    };

    assert_eq!(lacking.len(), 3);
    assert_eq!(lacking[&things[1].id], NotClean::NoScrub);
    assert_eq!(lacking[&things[2].id], NotClean::Skipped { reason: "no stdin".into() });
    assert_eq!(lacking[&gone.asset], NotClean::NoRecord);
    let allowed = try_issue(&things, &records, Exceptions::Allow).unwrap();
    assert_eq!(allowed.certificate.kind, CertificateKind::WithExceptions);
    assert!(allowed.certificate.title.contains("WITH 3 EXCEPTIONS"), "{}", allowed.certificate.title);
    assert!(verify(signed(&allowed).as_bytes(), &[key().public_key()]).is_valid());
}

#[test]
fn no_certificate_is_issued_without_approval_or_with_content_that_does_not_verify() {
    let inventory = Inventory::from_scans(things()).unwrap();
    let records = things().iter().map(|it| (it.id.clone(), record(it))).collect();
    let other =
        RecordedApproval::new(case(serde_json::json!({ "inventory": Digest::from_bytes(b"other") })), 1);
    let attempt = |approvals, pivot| {
        issue(draft(approvals), &pivot, &inventory, &records, Exceptions::Allow, at(200)).map(drop)
    };
    let good = approved(&inventory);
    assert_eq!(attempt(good.clone(), pivot(&inventory)), Ok(()));
    assert!(matches!(attempt(vec![other], pivot(&inventory)), Err(NotIssued::NotApproved(_))));
    let elsewhere = Pivot { inventory: Digest::from_bytes(b"other"), ..pivot(&inventory) };
    assert!(matches!(attempt(good.clone(), elsewhere), Err(NotIssued::OtherPivot { .. })));

    let unsound = |change: &dyn Fn(&mut RecordedApproval), field: &str| {
        let mut approval = good[0].clone();
        change(&mut approval);
        let Err(NotIssued::Unsound(problems)) = attempt(vec![approval], pivot(&inventory)) else {
            panic!("{field}")
        };
        assert!(problems.iter().any(|problem| problem.field == field), "{field}: {problems:?}");
    };
    unsound(&|it| it.votes[0].name = "rita".into(), "approvals[0].votes[0].name");
    unsound(&|it| it.votes[1].name = "cora".into(), "approvals[0].votes[1].name");
    unsound(&|it| drop(it.votes.pop()), "approvals[0].votes");
    unsound(&|it| it.votes[1].verdict = Verdict::Refuse, "approvals[0].votes[1].verdict");
    unsound(&|it| it.plan["more"] = 1.into(), "approvals[0].plan_digest");
    unsound(&|it| it.granted_at = at(95), "approvals[0].granted_at");
}

proptest! {
    #![proptest_config(tests::cases(48))]

    /// I-18: a certificate never omits, repeats or invents an asset, in random inventories.
    #[test]
    fn a_certificate_lists_exactly_the_inventory(
        picks in vec((0..22usize, 0..30u8, 0..5u8), 0..40),
        stranger in any::<bool>(),
    ) {
        let kinds = <AssetType as strum::VariantArray>::VARIANTS;
        let all: BTreeMap<AssetId, (Asset, u8)> = picks
            .iter()
            .map(|(kind, n, fate)| (asset(kinds[*kind], &format!("x/{n}")), *fate))
            .map(|(asset, fate)| (asset.id.clone(), (asset, fate)))
            .collect();
        let assets: Vec<_> = all.values().map(|(asset, _)| asset.clone()).collect();
        let made = |(asset, fate): &(Asset, u8)| match fate {
            0 => None,
            1 => Some(SanitisationRecord { result: SanitisationOutcome::Unknown, ..record(asset) }),
            2 => Some(SanitisationRecord { validation: None, ..record(asset) }),
            _ => Some(record(asset)),
        };
        let mut records: Vec<_> = all.values().filter_map(made).collect();
        let lacking: BTreeSet<_> = all.iter().filter(|(_, (_, fate))| *fate < 3).map(|(id, _)| id.clone()).collect();
        if stranger {
            records.push(record(&asset(AssetType::Pv, "not/listed")));
            let refused = try_issue(&assets, &records, Exceptions::Allow);
            prop_assert!(matches!(refused, Err(NotIssued::NotInInventory(_))));
            return Ok(());
        }
        match try_issue(&assets, &records, Exceptions::Refuse) {
            Ok(_) => prop_assert!(lacking.is_empty()),
            Err(NotIssued::NotPassed(told)) => {
                prop_assert_eq!(told.keys().cloned().collect::<BTreeSet<_>>(), lacking.clone());
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
        let issued = try_issue(&assets, &records, Exceptions::Allow).unwrap();
        let found = verify(signed(&issued).as_bytes(), &[key().public_key()]);
        prop_assert_eq!(&found.problems, &vec![]);
        let listed: Vec<_> = found.assets.iter().map(|entry| entry.asset.id.clone()).collect();
        prop_assert_eq!(listed, all.keys().cloned().collect::<Vec<_>>());
        let excepted: BTreeSet<_> =
            found.assets.iter().filter(|entry| entry.exception.is_some()).map(|entry| entry.asset.id.clone()).collect();
        prop_assert_eq!(excepted, lacking);
    }
}

fn passing() -> PassPivot {
    PassPivot {
        tenant: tenant(),
        scope: HoldScope::Tenant,
        approved: Inventory::from_scans(things()).unwrap().digest(),
    }
}

/// Documents with an approved inventory, and the calls of its execution.
async fn inventoried() -> (Books, Executions) {
    let (mut books, executions) = (Books::default(), Executions::new().await);
    books.now = at(20).into();
    books.act(&KeepInventory { tenant: tenant(), seen: things() }, &executions.call(RUN)).unwrap();
    let case = case(serde_json::json!({ "inventory": Inventory::from_scans(things()).unwrap().digest() }));
    let key = Key::new("approvals-closed", &case.id);
    books.apply(vec![Put { key, body: Some(serde_json::to_vec(&case).unwrap()) }]);
    books.now = at(90).into();
    (books, executions)
}
