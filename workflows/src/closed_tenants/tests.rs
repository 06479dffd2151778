//! Checks of closed tenants with sources that answer, that fail, and that hide resources from the verifier.

mod held;
mod in_time;

use super::{
    certified::ClosedTenant,
    look::merged,
    sources::{LOOK_WITHIN, SilentSources, ask},
};
use crate::{
    destruction::{
        Actor, Asset, AssetType, ClosedTenantLook, DataClass, HoldScope, Holds, Pivot, RemainsStanding,
        SanitisationOutcome, SanitisationRecord, Scan, Technique,
        certificate::{CertificateEntry, CertificateKind, CertificatePage, StoredCertificate},
    },
    platform::{
        AccessMode, CallMetadata, EmptyProgress, ObservedResource, Observer, ProbeFinding, TenantResource,
        TenantResources, VerifiedAs,
    },
    signing::{Digest, Moment, dsse::Signature},
    tenancy::{Tenant, TenantState},
    tests::books::{Books, tenant},
};
use async_trait::async_trait;
use engine::{ActionError, Undecided, View};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use store::{ExecutionId, Timestamp};

const BUCKET: &str = "objects/eu/Bucket/t-acme--eu";
const LOCKED: &str = "objects/eu/Bucket/t-acme--locked";
const LOGS: &str = "logs/eu/Stream/acme-audit";
const KEY: &str = "keys//Key/t-acme";
const ADDRESS: &str = "network/eu/Ip/10.0.0.5";

fn at(day: u64) -> Moment {
    Timestamp(1_795_000_000_000 + day * 86_400_000).into()
}

fn run() -> ExecutionId {
    ExecutionId::from_bytes([7; 16])
}

fn thing(text: &str) -> TenantResource {
    text.parse().unwrap()
}

/// A resource, its tenant, and the observers that can see it.
#[derive(Clone, Debug)]
struct There {
    thing: TenantResource,
    uid: String,
    tenant: String,
    marked: bool,
    seen_by: Vec<Observer>,
}

impl There {
    fn new(text: &str) -> Self {
        let seen_by = vec![Observer::Verifier, Observer::Platform];
        Self {
            thing: thing(text),
            uid: format!("uid of {text}"),
            tenant: "acme".into(),
            marked: true,
            seen_by,
        }
    }
}

/// A platform with some systems that do not answer.
#[derive(Clone, Debug, Default)]
struct Outside {
    there: Vec<There>,
    silent: BTreeSet<(String, &'static str)>,
}

impl Outside {
    fn with(there: impl IntoIterator<Item = There>) -> Self {
        Self { there: there.into_iter().collect(), silent: BTreeSet::new() }
    }

    fn answers(&self, system: &str, eyes: Observer) -> Result<(), ActionError> {
        let name: &'static str = eyes.into();
        if self.silent.contains(&(system.to_owned(), name)) {
            return Err(ActionError::transient("platform.unavailable", "connection refused"));
        }
        Ok(())
    }
}

fn observed(it: &There) -> ObservedResource {
    ObservedResource {
        thing: it.thing.clone(),
        uid: it.uid.clone(),
        tenant: it.tenant.clone(),
        spec: json!({}),
        terminating: false,
    }
}

#[async_trait]
impl TenantResources for Outside {
    fn backend(&self) -> &'static str {
        "test"
    }

    fn verified_as(&self, _: &TenantResource, _: Observer) -> VerifiedAs {
        VerifiedAs::Verifier
    }

    fn is_simulated(&self, _: &TenantResource) -> bool {
        false
    }

    fn is_system_simulated(&self, _: &str) -> bool {
        false
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Observer,
        _: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        self.answers(system, eyes)?;
        let listed = |it: &&There| {
            it.thing.system == system && it.tenant == tenant && it.marked && it.seen_by.contains(&eyes)
        };
        Ok(self.there.iter().filter(listed).map(observed).collect())
    }

    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        _: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        self.answers(&thing.system, eyes)?;
        let found = self.there.iter().find(|it| it.thing == *thing && it.seen_by.contains(&eyes));
        Ok(found.map(observed))
    }

    async fn set_admission(
        &self,
        _: &TenantResource,
        _: &str,
        _: AccessMode,
        _: &CallMetadata,
    ) -> Result<(), ActionError> {
        Err(unexpected())
    }

    async fn rewrap(
        &self,
        _: &TenantResource,
        _: &str,
        _: &str,
        _: &CallMetadata,
    ) -> Result<(), ActionError> {
        Err(unexpected())
    }

    async fn empty(
        &self,
        _: &TenantResource,
        _: &str,
        _: &CallMetadata,
    ) -> Result<EmptyProgress, ActionError> {
        Err(unexpected())
    }

    async fn remove(&self, _: &TenantResource, _: &str, _: &CallMetadata) -> Result<(), ActionError> {
        Err(unexpected())
    }

    async fn undecryptable(&self, _: &TenantResource, _: &CallMetadata) -> Result<ProbeFinding, ActionError> {
        Err(unexpected())
    }
}

fn unexpected() -> ActionError {
    ActionError::permanent("platform.unsupported", "a look changes nothing")
}

/// Returns a closed tenant. Its certificate lists the bucket and the address as destroyed, the locked bucket as an exception, and the logs as
/// retained for 30 days.
fn closed() -> Books {
    let mut books = Books::new(0, &[]);
    books.decide(|view| {
        let before = view.require::<Tenant>("acme")?;
        view.put(&Tenant { state: TenantState::Closed, ..before })?;
        let pivot = Pivot { scope: HoldScope::Tenant, run: run(), inventory: Digest("x".into()), at: at(0) };
        view.put(&Holds { pivots: vec![pivot], ..Holds::empty(tenant()) })?;
        certificate(view)
    });
    books
}

fn certificate(view: &mut View) -> Result<(), Undecided> {
    let entry = |(kind, text): (AssetType, &str)| {
        let seen = Asset::from_scan(&tenant(), kind, text, Some(DataClass::Workload), Scan::Live, at(0));
        let asset = Asset { serial: Some(format!("uid of {text}")), ..seen };
        let begun = SanitisationRecord::begun(
            &asset,
            Technique::Nothing,
            Actor::program("offboarding"),
            run(),
            "Filing",
            at(0),
        );
        let kept = SanitisationOutcome::NotApplicable {
            rule: "retained_by_law".into(),
            reason: "law".into(),
            destroy_by: Some(at(30)),
        };
        CertificateEntry {
            record: match text {
                LOGS => Some(SanitisationRecord { result: kept, ..begun }),
                KEY => Some(SanitisationRecord { result: SanitisationOutcome::SanitisedUnverified, ..begun }),
                _ => None,
            },
            record_hash: None,
            exception: [LOCKED, KEY].contains(&text).then(|| "an exception".to_owned()),
            asset,
        }
    };
    let entries: Vec<CertificateEntry> = [
        (AssetType::Bucket, BUCKET),
        (AssetType::Bucket, LOCKED),
        (AssetType::LogStream, LOGS),
        (AssetType::Ip, ADDRESS),
        (AssetType::Key, KEY),
    ]
    .into_iter()
    .map(entry)
    .collect();
    let text = json!({ "assets": entries, "checks": {} }).to_string();
    view.put(&CertificatePage { certificate: run(), page: 0, text })?;
    view.put(&StoredCertificate {
        id: run(),
        tenant: tenant(),
        kind: CertificateKind::WithExceptions,
        title: String::new(),
        exceptions: 1,
        issued_at: at(1),
        kept_until: None,
        cover: String::new(),
        pages: 1,
        signature: Some(Signature { keyid: String::new(), sig: String::new() }),
        supplements: None,
        withdrawn: None,
    })
}

/// Runs a check, stores it and returns it.
async fn look(books: &mut Books, outside: &Outside, day: u64) -> ClosedTenantLook {
    let closed = books.decide(|view| ClosedTenant::read(view, &tenant())).unwrap();
    let (named, next) = closed.names(0, 100);
    let earlier = closed.before.iter().flat_map(|before| &before.remains).map(|seen| seen.thing.clone());
    let names = named.into_iter().chain(earlier).collect();
    let mut silent = SilentSources::default();
    let answers = ask(outside, &closed, &names, (at(day), LOOK_WITHIN), &mut silent).await;
    let look = merged(&closed, answers, at(day), next);
    books.decide(|view| view.put(&look));
    look
}

fn standings(look: &ClosedTenantLook) -> BTreeMap<String, RemainsStanding> {
    look.remains.iter().map(|seen| (seen.thing.to_string(), seen.standing)).collect()
}

#[tokio::test]
async fn a_reappeared_resource_is_found_by_its_mark_or_name_in_every_source() {
    let by_platform = There { seen_by: vec![Observer::Platform], ..There::new(BUCKET) };
    let by_verifier = There { seen_by: vec![Observer::Verifier], ..There::new(BUCKET) };
    let unmarked = There { marked: false, tenant: String::new(), uid: "new".into(), ..There::new(BUCKET) };
    let fresh = There { uid: "another".into(), ..There::new("objects/us/Bucket/t-acme--us") };
    for there in [There::new(BUCKET), by_platform, by_verifier, unmarked, fresh] {
        let mut books = closed();
        assert!(!look(&mut books, &Outside::default(), 2).await.has_findings(), "it is gone first");

        let found = look(&mut books, &Outside::with([there.clone()]), 3).await;

        let findings: Vec<_> = found.findings().map(|seen| (&seen.thing, seen.standing)).collect();
        assert_eq!(findings, [(&there.thing, RemainsStanding::Returned)]);
        assert_eq!((found.found_since, found.complete_at), (Some(at(3)), Some(at(3))));
    }
}

#[tokio::test]
async fn an_exception_or_retained_resource_is_not_a_finding_before_its_date() {
    let mut books = closed();
    let outside = Outside::with([There::new(LOCKED), There::new(LOGS)]);

    let before = look(&mut books, &outside, 29).await;
    let after = look(&mut books, &outside, 30).await;
    let other = There { uid: "another".into(), ..There::new(LOCKED) };
    let replaced = look(&mut books, &Outside::with([other]), 31).await;

    assert!(!before.has_findings());
    let kept = BTreeMap::from([
        (LOCKED.to_owned(), RemainsStanding::Excepted),
        (LOGS.to_owned(), RemainsStanding::Retained),
    ]);
    assert_eq!(standings(&before), kept);
    assert_eq!(standings(&after)[LOGS], RemainsStanding::RetentionOver);
    assert_eq!(standings(&replaced), BTreeMap::from([(LOCKED.to_owned(), RemainsStanding::Returned)]));
}

/// The certificate lists the key as an exception, because it can be recovered. The key was gone at that time.
#[tokio::test]
async fn a_reappeared_key_is_a_finding_although_the_certificate_excepts_it() {
    let mut books = closed();
    let found = look(&mut books, &Outside::with([There::new(KEY)]), 2).await;

    assert_eq!(standings(&found), BTreeMap::from([(KEY.to_owned(), RemainsStanding::Returned)]));
}

#[tokio::test]
async fn a_silent_source_is_reported_and_never_counts_as_absence() {
    for eyes in [Observer::Verifier, Observer::Platform] {
        let mut books = closed();
        look(&mut books, &Outside::with([There::new(BUCKET)]), 2).await;
        let mut outside = Outside::default();
        outside.silent.insert(("objects".into(), eyes.into()));

        let silent = look(&mut books, &outside, 3).await;
        let again = look(&mut books, &outside, 4).await;
        outside.silent.clear();
        let answered = look(&mut books, &outside, 5).await;

        for unknown in [&silent, &again] {
            assert!(unknown.has_findings(), "what was found stays on the list");
            assert_eq!(unknown.remains[0].last_seen, at(2));
            let sources: BTreeSet<_> =
                unknown.unanswered.iter().map(|it| (it.system.as_str(), it.eyes.as_str())).collect();
            assert_eq!(sources, BTreeSet::from([("objects", <&str>::from(eyes))]));
            assert!(unknown.describe().contains("connection refused"), "{}", unknown.describe());
            assert_eq!((unknown.complete_at, unknown.unanswered_since), (Some(at(2)), Some(at(3))));
        }
        assert!(!answered.has_findings() && answered.unanswered.is_empty());
        assert_eq!((answered.complete_at, answered.unanswered_since), (Some(at(5)), None));
    }
}

#[tokio::test]
async fn a_name_that_another_tenant_uses_is_not_a_finding() {
    let mut books = closed();
    let theirs = There { tenant: "other".into(), uid: "another".into(), ..There::new(ADDRESS) };
    let ours = There { tenant: "other".into(), ..There::new(ADDRESS) };

    let unmarked = There { marked: false, tenant: String::new(), ..theirs.clone() };
    assert!(!look(&mut books, &Outside::with([theirs]), 2).await.has_findings());
    assert!(!look(&mut books, &Outside::with([unmarked]), 2).await.has_findings());
    assert!(look(&mut books, &Outside::with([ours]), 3).await.has_findings(), "it is the very same thing");
}

#[test]
fn every_name_on_a_certificate_is_checked_in_turn() {
    let closed = closed().decide(|view| ClosedTenant::read(view, &tenant())).unwrap();
    let (mut from, mut seen) = (0, BTreeSet::new());
    for _ in 0..3 {
        let (named, next) = closed.names(from, 2);
        assert_eq!(named.len(), 2);
        seen.extend(named);
        from = next;
    }
    assert_eq!(seen.len(), 5);
    assert_eq!(closed.names(99, 100).0.len(), 5, "a list that has become shorter begins again");
}
