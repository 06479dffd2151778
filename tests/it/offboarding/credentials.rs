//! With whose credentials things were looked for, as records and the certificate say it.

use super::stage::Stage;
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

/// A backend that was given no credentials of a verifier, as Slurm without `verifier` or a PKCS#11 token: it looks with its own.
#[derive(Debug)]
struct WithoutVerifier(Arc<dyn TenantResources>);

#[async_trait]
impl TenantResources for WithoutVerifier {
    fn backend(&self) -> &'static str {
        self.0.backend()
    }

    fn verified_as(&self, thing: &TenantResource, eyes: Observer) -> VerifiedAs {
        if thing.system == "slurm" || thing.system == "keys" {
            return VerifiedAs::Platform;
        }
        self.0.verified_as(thing, eyes)
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        self.0.survey(system, tenant, eyes, stamp).await
    }

    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        self.0.read_resource(thing, eyes, stamp).await
    }

    async fn set_admission(
        &self,
        thing: &TenantResource,
        tenant: &str,
        admits: AccessMode,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.0.set_admission(thing, tenant, admits, stamp).await
    }

    async fn rewrap(
        &self,
        thing: &TenantResource,
        tenant: &str,
        key: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.0.rewrap(thing, tenant, key, stamp).await
    }

    async fn empty(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<EmptyProgress, ActionError> {
        self.0.empty(thing, uid, stamp).await
    }

    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.0.remove(thing, uid, stamp).await
    }

    async fn undecryptable(
        &self,
        key: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        self.0.undecryptable(key, stamp).await
    }

    async fn destruction_tool(
        &self,
        thing: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<Option<DriveTool>, ActionError> {
        self.0.destruction_tool(thing, stamp).await
    }
}

async fn closed(without_verifier: bool) -> Stage {
    let ready = ready("A100", 1).await.unwrap();
    left_behind(&ready.world, "acme");
    let stage = Stage::on(&ready, Arc::new(Memory::new()), |mut platform, _| {
        if without_verifier {
            platform.tenant_resources = Arc::new(WithoutVerifier(platform.tenant_resources));
        }
        platform
    })
    .await;
    assert_eq!(stage.to_rest().await, ("Closed".into(), "finished".into()), "{}", stage.trouble().await);
    stage
}

/// What the certificate says on paper, and what it proves and does not prove.
async fn said(stage: &Stage) -> (String, Vec<String>, Vec<String>) {
    let id = stage.id;
    let file = stage.engine.transact(false, |view| certificate_file(view, id)).await.unwrap().unwrap();
    let found = verify(file.as_bytes(), &[]);
    (print::html(&found).unwrap(), found.certificate.as_ref().unwrap().caveats.clone(), found.limitations())
}

#[tokio::test]
async fn other_credentials_are_claimed_only_where_a_verifier_looked() {
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
async fn where_a_verifier_looked_for_all_that_was_removed_no_caveat_names_it() {
    let stage = closed(false).await;

    let (_, caveats, _) = said(&stage).await;
    let caveat = caveats.iter().find(|line| line.starts_with("Not looked at by a separate verifier: "));
    // Parts of nodes are read back by the program that cleaned them.
    assert!(caveat.is_none_or(|line| !line.contains(" account") && !line.contains(" key")), "{caveats:?}");
}
