//! The credentials of observations, as records and certificate name them.

use super::{keys::just_before, stage::Stage};
use async_trait::async_trait;
use engine::ActionError;
use simulator::verification::{left_behind, ready};
use std::sync::Arc;
use store::Memory;
use workflows::{
    destruction::certificate::{certificate_file, print, verify},
    platform::{
        AccessMode, CallMetadata, DriveTool, EmptyProgress, ObservedResource, Observer, ProbeFinding,
        TenantResource, TenantResources, VerifiedAs,
    },
};

/// A backend without a verifier's credentials, such as Slurm without `verifier` or a PKCS#11 token: it observes with its own.
#[derive(Debug)]
struct WithoutVerifier(Arc<dyn TenantResources>);

/// A backend whose lists hide one object from the verifier, like stores that list only readable objects.
#[derive(Debug)]
struct HiddenFromVerifier(Arc<dyn TenantResources>, TenantResource);

impl Backend for WithoutVerifier {
    fn real(&self) -> &Arc<dyn TenantResources> {
        &self.0
    }

    fn is_own_look(&self, thing: &TenantResource) -> bool {
        thing.system == "slurm" || thing.system == "keys"
    }

    fn is_hidden(&self, _: &TenantResource) -> bool {
        false
    }
}

impl Backend for HiddenFromVerifier {
    fn real(&self) -> &Arc<dyn TenantResources> {
        &self.0
    }

    fn is_own_look(&self, _: &TenantResource) -> bool {
        false
    }

    fn is_hidden(&self, thing: &TenantResource) -> bool {
        *thing == self.1
    }
}

/// A backend whose verifier lists a resource and reports it as absent when it reads it.
#[derive(Debug)]
struct UnreadByVerifier(Arc<dyn TenantResources>, TenantResource);

impl Backend for UnreadByVerifier {
    fn real(&self) -> &Arc<dyn TenantResources> {
        &self.0
    }

    fn is_own_look(&self, _: &TenantResource) -> bool {
        false
    }

    fn is_hidden(&self, _: &TenantResource) -> bool {
        false
    }

    fn is_unread(&self, thing: &TenantResource) -> bool {
        *thing == self.1
    }
}

/// The simulated backend, observed with such credentials.
#[derive(Debug)]
struct Through<B>(B);

/// How a verifier's credentials differ from those of the simulated backend.
trait Backend: std::fmt::Debug + Send + Sync {
    fn real(&self) -> &Arc<dyn TenantResources>;

    fn is_own_look(&self, thing: &TenantResource) -> bool;

    fn is_hidden(&self, thing: &TenantResource) -> bool;

    fn is_unread(&self, _: &TenantResource) -> bool {
        false
    }
}

#[async_trait]
impl<B: Backend> TenantResources for Through<B> {
    fn backend(&self) -> &'static str {
        self.0.real().backend()
    }

    fn is_simulated(&self, thing: &TenantResource) -> bool {
        self.0.real().is_simulated(thing)
    }

    fn is_system_simulated(&self, system: &str) -> bool {
        self.0.real().is_system_simulated(system)
    }

    fn verified_as(&self, thing: &TenantResource, eyes: Observer) -> VerifiedAs {
        if self.0.is_own_look(thing) {
            return VerifiedAs::Platform;
        }
        self.0.real().verified_as(thing, eyes)
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        let mut seen = self.0.real().survey(system, tenant, eyes, stamp).await?;
        seen.retain(|seen| eyes == Observer::Platform || !self.0.is_hidden(&seen.thing));
        Ok(seen)
    }

    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        if eyes == Observer::Verifier && self.0.is_unread(thing) {
            return Ok(None);
        }
        self.0.real().read_resource(thing, eyes, stamp).await
    }

    async fn set_admission(
        &self,
        thing: &TenantResource,
        tenant: &str,
        admits: AccessMode,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.0.real().set_admission(thing, tenant, admits, stamp).await
    }

    async fn rewrap(
        &self,
        thing: &TenantResource,
        tenant: &str,
        key: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.0.real().rewrap(thing, tenant, key, stamp).await
    }

    async fn empty(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<EmptyProgress, ActionError> {
        self.0.real().empty(thing, uid, stamp).await
    }

    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.0.real().remove(thing, uid, stamp).await
    }

    async fn undecryptable(
        &self,
        key: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        self.0.real().undecryptable(key, stamp).await
    }

    async fn destruction_tool(
        &self,
        thing: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<Option<DriveTool>, ActionError> {
        self.0.real().destruction_tool(thing, stamp).await
    }
}

async fn closed(without_verifier: bool) -> Stage {
    let ready = ready("A100", 1).await.unwrap();
    left_behind(&ready.world, "acme");
    let stage = Stage::on(&ready, Arc::new(Memory::new()), |mut platform, _| {
        if without_verifier {
            platform.tenant_resources = Arc::new(Through(WithoutVerifier(platform.tenant_resources)));
        }
        platform
    })
    .await;
    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);
    stage
}

/// Returns the text of the certificate, its proofs, and its exceptions.
async fn said(stage: &Stage) -> (String, Vec<String>, Vec<String>) {
    let id = stage.id;
    let file = stage.engine.transact(false, |view| certificate_file(view, id)).await.unwrap().unwrap();
    let found = verify(file.as_bytes(), &[]);
    (print::html(&found).unwrap(), found.certificate.as_ref().unwrap().caveats.clone(), found.limitations())
}

#[tokio::test]
async fn other_credentials_are_certified_only_where_a_verifier_looked() {
    let stage = closed(true).await;

    for record in stage.records().await {
        let (Some(verification), Some(validation)) = (&record.verification, &record.validation) else {
            continue;
        };
        let own = record.asset.as_str().contains(":slurm/") || record.asset.as_str().contains(":keys/");
        let removed = ["slurm", "keys", "objects", "identity", "storage", "network", "registry"];
        let is_removed = removed.iter().any(|system| record.asset.as_str().contains(&format!(":{system}/")));
        match (own, is_removed) {
            (true, _) => {
                assert_eq!(verification.verified_as, Some(VerifiedAs::Platform), "{record:?}");
                assert_eq!(
                    validation.reason,
                    "looked for with the platform's own credentials, and not found"
                );
                assert!(!verification.actor.name.contains("verifier"), "{record:?}");
            }
            (false, true) => {
                assert_eq!(verification.verified_as, Some(VerifiedAs::Verifier), "{record:?}");
                assert_eq!(validation.reason, "looked for with other credentials, and not found");
            }
            (false, false) => {}
        }
    }
    let (page, caveats, limitations) = said(&stage).await;
    let caveat = caveats.iter().find(|line| line.starts_with("Not looked at by a separate verifier: "));
    let caveat = caveat.unwrap_or_else(|| panic!("{caveats:?}"));
    assert!(caveat.contains(" account") && caveat.contains(" key"), "{caveat}");
    assert!(limitations.contains(caveat));
    assert!(page.contains("with the platform&#39;s own credentials"), "{page}");
}

#[tokio::test]
async fn there_is_no_caveat_if_a_verifier_looked_for_every_removed_resource() {
    let stage = closed(false).await;

    let (_, caveats, _) = said(&stage).await;
    let caveat = caveats.iter().find(|line| line.starts_with("Not looked at by a separate verifier: "));
    // The program that cleaned parts of nodes also reads them back.
    assert!(caveat.is_none_or(|line| !line.contains(" account") && !line.contains(" key")), "{caveats:?}");
}

/// A late resource that is hidden from the verifier is still in the platform's list, and the tenant is not closed.
#[tokio::test]
async fn a_verifier_that_sees_less_than_the_platform_hides_no_remaining_resource() {
    let late = TenantResource::new("objects", "eu-west", "Bucket", "late-copy");
    let ready = ready("A100", 1).await.unwrap();
    left_behind(&ready.world, "acme");
    let stage = Stage::on(&ready, Arc::new(Memory::new()), |mut platform, _| {
        let hidden = HiddenFromVerifier(platform.tenant_resources, late.clone());
        platform.tenant_resources = Arc::new(Through(hidden));
        platform
    })
    .await;
    just_before(&stage, "Rewrapping").await;
    stage.world().furnish(&late, "acme", serde_json::json!({ "class": "workload" }));

    assert_eq!(stage.to_rest().await, ("VerifyingDismantled".into(), "parked".into()));

    let why = stage.trouble().await;
    assert!(why.contains(&late.to_string()) && why.contains("which the verifier does not see"), "{why}");
}

/// Before the approval: a verifier that does not see an existing object would later take it for gone.
#[tokio::test]
async fn a_verifier_that_sees_less_than_the_platform_is_refused_before_approval() {
    let things = [
        TenantResource::new("objects", "eu-west", "Bucket", "t-acme--eu-west"),
        TenantResource::new("storage", "eu-west", "Volume", "pv-1"),
        TenantResource::new("slurm", "slurm-1", "Account", "t-acme"),
    ];
    for thing in things {
        let ready = ready("A100", 1).await.unwrap();
        left_behind(&ready.world, "acme");
        let stage = Stage::on(&ready, Arc::new(Memory::new()), |mut platform, _| {
            let hidden = HiddenFromVerifier(platform.tenant_resources, thing.clone());
            platform.tenant_resources = Arc::new(Through(hidden));
            platform
        })
        .await;

        assert_eq!(stage.until("AwaitingClassification").await.0, "AwaitingClassification");

        let why = stage.engine.execution(stage.id).await.unwrap().1.body["last_failure"].to_string();
        assert!(why.contains("the verifier does not see") && why.contains(&thing.to_string()), "{why}");
    }
}

/// An empty observation of the verifier does not count while the platform still finds the object.
#[tokio::test]
async fn a_resource_that_only_the_platform_still_finds_is_not_verified() {
    let key = TenantResource::new("keys", "", "Key", "t-acme");
    let ready = ready("A100", 1).await.unwrap();
    left_behind(&ready.world, "acme");
    let stage = Stage::on(&ready, Arc::new(Memory::new()), |mut platform, _| {
        let hidden = UnreadByVerifier(platform.tenant_resources, key.clone());
        platform.tenant_resources = Arc::new(Through(hidden));
        platform
    })
    .await;
    just_before(&stage, "Verifying").await;
    stage.world().furnish(&key, "acme", serde_json::json!({}));

    assert_eq!(stage.to_rest().await, ("VerifyingAgain".into(), "parked".into()));

    let why = stage.trouble().await;
    assert!(why.contains(&key.to_string()) && why.contains("which the verifier does not see"), "{why}");
}
