//! After the closing: resources of a closed tenant that reappear are found, and offboarded with a supplementary
//! certificate.

use super::stage::{Stage, requester};
use engine::{Event, Notification, Request as Asked};
use serde_json::json;
use store::ExecutionId;
use workflows::{
    closed_tenants::{ClosedConcern, SilentSources, closed_tenant_matters, look_at},
    destruction::{
        AssetId, DataClass,
        certificate::{
            CertificateKind, ErasureBasis, LegalBasis, StoredCertificate, certificate_file, verify,
        },
    },
    offboarding::{ASSETS_CLASSIFIED, Classification, Offboarding, classify},
    platform::TenantResource,
    policy::Sweep,
    signing::Moment,
    sweeps::{self, SweepReport},
    tenancy::{Tenant, TenantState},
};

fn bucket() -> TenantResource {
    TenantResource::new("objects", "eu-west", "Bucket", "t-acme--eu-west")
}

impl Stage {
    async fn swept(&self) -> SweepReport {
        let swept = sweeps::run(&self.engine, Sweep::Drift, None, "olga").await.unwrap();
        assert_eq!(swept.failed, None);
        swept
    }

    /// Returns the closed tenants that need an operator, by reason.
    async fn matters(&self) -> Vec<ClosedConcern> {
        closed_tenant_matters(&self.engine).await.unwrap().into_iter().map(|matter| matter.concern).collect()
    }

    async fn told(&self, kind: &str) -> usize {
        self.all::<Notification>().await.iter().filter(|told| told.kind == kind).count()
    }

    /// Requests the offboarding of the remaining resources, as the HTTP API does.
    async fn offboard_remaining(self) -> Self {
        look_at(&self.engine, &self.tenant, &mut SilentSources::default(), None).await.unwrap();
        let basis = LegalBasis { basis: ErasureBasis::ContractEnd, reference: "contract 7".into() };
        let at = Moment::from(self.engine.clock().now());
        let asked = Offboarding::new(self.tenant.clone(), basis, "rita".into(), at, "it came back".into());
        let asked = asked.of_remaining_assets();
        let id = self.engine.start(asked, Asked::by(&requester())).await.unwrap().id;
        Self { id, ..self }
    }

    async fn certificate_of(&self, id: ExecutionId) -> StoredCertificate {
        let all: Vec<StoredCertificate> = self.all().await;
        all.into_iter().find(|certificate| certificate.id == id).unwrap()
    }
}

async fn closed() -> Stage {
    let stage = Stage::slurm(|_| {}).await;
    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);
    stage
}

#[tokio::test]
async fn a_reappeared_resource_of_a_closed_tenant_is_reported_once() {
    let stage = closed().await;
    assert_eq!(
        stage.swept().await.found,
        Vec::<String>::new(),
        "assets kept by the certificate are no findings"
    );

    stage.world().furnish(&bucket(), "acme", json!({ "class": "workload" }));
    for _ in 0..2 {
        let found = stage.swept().await.found;
        assert!(found.len() == 1 && found[0].contains(&bucket().to_string()), "{found:?}");
        assert_eq!(stage.matters().await, [ClosedConcern::ClosedTenantFound]);
        assert_eq!(stage.told("closed_tenant.found").await, 1);
    }

    let key = TenantResource::new("keys", "", "Key", "t-acme");
    stage.world().furnish(&key, "acme", json!({}));
    stage.swept().await;
    assert_eq!(stage.told("closed_tenant.found").await, 2, "a restored key is another finding");
}

#[tokio::test]
async fn remains_of_a_closed_tenant_are_destroyed_with_a_supplementary_certificate() {
    let stage = closed().await;
    let first = stage.certificate().await;
    let kept = stage.left();
    stage.world().furnish(&bucket(), "acme", json!({ "class": "workload" }));
    stage.swept().await;

    let stage = stage.offboard_remaining().await;
    stage.until("AwaitingDestruction").await;
    let case = stage.engine.approval(stage.id).await.unwrap().unwrap();
    let things = case.plan.decides["destroys"]["things"].to_string();
    assert!(things.contains("t-acme--eu-west") && case.plan.decides["destroys"]["assets"] == 1, "{things}");
    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);

    let second = stage.certificate_of(stage.id).await;
    assert_eq!((second.supplements.as_ref(), second.exceptions), (Some(&first.reference()), 0));
    let id = stage.id;
    let file = stage.engine.transact(false, |view| certificate_file(view, id)).await.unwrap().unwrap();
    let found = verify(file.as_bytes(), &[]);
    assert!(found.problems.iter().all(|problem| problem.field.contains("keyid")), "{:?}", found.problems);
    let certificate = found.certificate.unwrap();
    assert!(
        certificate.title.starts_with("Supplementary") && certificate.title.contains(&first.id.to_string())
    );
    assert_eq!(found.assets.len(), 1);

    assert_eq!(stage.left(), kept, "assets kept by the first certificate stay");
    assert_eq!(stage.swept().await.found, Vec::<String>::new());
    assert_eq!(stage.matters().await, []);
    let tenants: Vec<Tenant> = stage.all().await;
    assert_eq!(tenants[0].state, TenantState::Closed);
}

#[tokio::test]
async fn a_resource_on_no_certificate_waits_until_operators_assign_it() {
    let stage = closed().await;
    let strange = TenantResource::new("objects", "eu-west", "Bucket", "shared-datasets");
    stage.world().furnish(&strange, "acme", json!({}));

    let stage = stage.offboard_remaining().await;
    assert_eq!(stage.until("AwaitingClassification").await.0, "AwaitingClassification");
    let said = Classification {
        tenant: stage.tenant.clone(),
        asset: AssetId(format!("bucket:{strange}")),
        class: DataClass::Workload,
        by: "olga".into(),
        reason: "a copy of theirs".into(),
        at: Moment::from(store::Timestamp(0)),
    };
    stage.engine.transact(true, |view| classify(view, said.clone())).await.unwrap();
    stage.engine.deliver(stage.id, Event::Signalled { name: ASSETS_CLASSIFIED.into() }).await.unwrap();

    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);
    assert_eq!(stage.certificate_of(stage.id).await.kind, CertificateKind::Complete);
}

#[tokio::test]
async fn a_hold_on_a_reappeared_resource_blocks_its_destruction() {
    let stage = closed().await;
    assert!(stage.place_hold().await.is_err(), "no asset remains for a hold");
    stage.world().furnish(&bucket(), "acme", json!({ "class": "workload" }));
    stage.swept().await;
    stage.place_hold().await.unwrap();

    let stage = stage.offboard_remaining().await;
    assert_eq!(stage.until("Held").await.0, "Held");
    assert!(stage.left().contains(&bucket().to_string()));
    stage.release_hold().await;

    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);
}

#[tokio::test]
async fn without_remains_there_is_nothing_to_offboard_and_a_tenant_is_closed_once() {
    let stage = closed().await.offboard_remaining().await;
    assert_eq!(stage.to_rest().await, ("Rejected".into(), "finished".into()));

    let stage = stage.again().await;
    assert_eq!(stage.to_rest().await, ("Rejected".into(), "finished".into()));
}
