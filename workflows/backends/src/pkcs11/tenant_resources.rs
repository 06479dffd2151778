//! Surveys a tenant's keys, reads them, destroys them, and tests their destruction.

use crate::pkcs11::{Pkcs11, key_lookup::Key, keys::remove, token::Work};
use async_trait::async_trait;
use engine::ActionError;
use workflows::platform::{
    CallMetadata, DriveTool, EmptyProgress, FoundObject, ObservedResource, Observer, ProbeFinding,
    TenantResource, TenantResources, VerifiedAs, codes, tenant_name,
};

const SYSTEM: &str = "keys";
const KEY: &str = "Key";

fn named(thing: &TenantResource) -> Result<String, ActionError> {
    if thing.system == SYSTEM && thing.kind == KEY {
        return Ok(thing.name.clone());
    }
    Err(ActionError::permanent(codes::REFUSED, format!("{thing} is not a key, but this is a key store")))
}

fn seen(key: &Key) -> ObservedResource {
    let FoundObject { uid, tenant, spec, terminating, .. } = key.found();
    ObservedResource {
        thing: TenantResource::new(SYSTEM, "", KEY, &key.name),
        uid,
        tenant,
        spec,
        terminating,
    }
}

/// Tests that no key in the token unwraps the data that the named key wrapped.
fn tried(on: &Work, name: &str) -> Result<ProbeFinding, ActionError> {
    let there = on.named(name)?.is_some();
    let Some(wrapped) = on.canary(name)? else {
        let gone = if there { "is still there" } else { "is gone" };
        let transcript = format!("key {name} {gone}; nothing that it wrapped was kept to be tried");
        return Ok(ProbeFinding { held: !there, transcript });
    };
    let keys = on.keys(None)?;
    let unwrapping: Vec<&Key> = keys.iter().filter(|key| on.unwraps(key.handle, &wrapped).is_ok()).collect();
    let tried = keys.len();
    let transcript = match unwrapping.first() {
        Some(key) => format!("key {} unwraps what key {name} wrapped", key.name),
        None => format!("what key {name} wrapped is unwrapped by none of the {tried} keys of the token"),
    };
    Ok(ProbeFinding { held: !there && unwrapping.is_empty(), transcript })
}

/// A token has one user: everyone who can read keys can destroy them. Platform and verifier therefore share a session,
/// and the verification's second method is the attempt to unwrap.
#[async_trait]
impl TenantResources for Pkcs11 {
    fn backend(&self) -> &'static str {
        "pkcs11"
    }

    fn is_simulated(&self, _: &TenantResource) -> bool {
        false
    }

    fn is_system_simulated(&self, _: &str) -> bool {
        false
    }

    fn verified_as(&self, _: &TenantResource, _: Observer) -> VerifiedAs {
        VerifiedAs::Platform
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        _eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        if system != SYSTEM {
            return Ok(Vec::new());
        }
        let (tenant, own) = (tenant.to_owned(), tenant_name(tenant)?);
        self.token
            .work(stamp, move |on| {
                let of =
                    |key: &&Key| key.mark.tenant == tenant || (key.mark.tenant.is_empty() && key.name == own);
                Ok(on.keys(None)?.iter().filter(of).map(seen).collect())
            })
            .await
    }

    async fn read_resource(
        &self,
        thing: &TenantResource,
        _eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        let name = named(thing)?;
        self.token.work(stamp, move |on| Ok(on.named(&name)?.as_ref().map(seen))).await
    }

    async fn empty(
        &self,
        thing: &TenantResource,
        _uid: &str,
        _stamp: &CallMetadata,
    ) -> Result<EmptyProgress, ActionError> {
        named(thing).map(|_| EmptyProgress::default())
    }

    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let (name, uid, own) = (named(thing)?, uid.to_owned(), stamp.clone());
        self.token.work(stamp, move |on| remove(on, &name, &uid, true, &own)).await
    }

    async fn undecryptable(
        &self,
        key: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        let name = named(key)?;
        self.token.work(stamp, move |on| tried(on, &name)).await
    }

    async fn destruction_tool(
        &self,
        thing: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<Option<DriveTool>, ActionError> {
        named(thing)?;
        self.token.maker(stamp).await.map(Some)
    }
}
