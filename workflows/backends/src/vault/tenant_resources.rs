//! Surveys a tenant's keys, reads them as platform or verifier, destroys them, and tests their destruction.

use crate::connection_settings;
use crate::vault::{Vault, client::TokenOf};
use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use engine::ActionError;
use tokio::time::Instant;
use workflows::platform::{
    CallMetadata, EmptyProgress, FoundObject, ObservedResource, Observer, ProbeFinding, TenantResource,
    TenantResources, VerifiedAs, codes, tenant_name,
};

const SYSTEM: &str = "keys";
const KEY: &str = "Key";

fn who(eyes: Observer) -> TokenOf {
    match eyes {
        Observer::Platform => TokenOf::Platform,
        Observer::Verifier => TokenOf::Verifier,
    }
}

fn named(thing: &TenantResource) -> Result<&str, ActionError> {
    if thing.system == SYSTEM && thing.kind == KEY {
        return Ok(&thing.name);
    }
    Err(ActionError::permanent(codes::REFUSED, format!("{thing} is not a key, but this is a key store")))
}

impl Vault {
    async fn seen(
        &self,
        name: &str,
        who: TokenOf,
        until: Instant,
    ) -> Result<Option<ObservedResource>, ActionError> {
        let Some((found, _)) = self.found(name, who, until).await? else { return Ok(None) };
        let FoundObject { uid, tenant, spec, terminating, .. } = found;
        Ok(Some(ObservedResource {
            thing: TenantResource::new(SYSTEM, "", KEY, name),
            uid,
            tenant,
            spec,
            terminating,
        }))
    }
}

#[async_trait]
impl TenantResources for Vault {
    fn backend(&self) -> &'static str {
        "vault"
    }

    fn is_simulated(&self, _: &TenantResource) -> bool {
        false
    }

    fn is_system_simulated(&self, _: &str) -> bool {
        false
    }

    fn verified_as(&self, _: &TenantResource, eyes: Observer) -> VerifiedAs {
        match eyes {
            Observer::Platform => VerifiedAs::Platform,
            // Without its own token, the verifier cannot read at all.
            Observer::Verifier => VerifiedAs::Verifier,
        }
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        if system != SYSTEM {
            return Ok(Vec::new());
        }
        let (who, until, own) = (who(eyes), Instant::now() + stamp.deadline, tenant_name(tenant)?);
        let mut all = Vec::new();
        for name in self.names(who, until).await? {
            let mark = self.mark(&name, who, until).await?;
            // A key without a label belongs to the tenant if it has the tenant's key name.
            if mark.map_or(name == own, |mark| mark.tenant == tenant) {
                all.extend(self.seen(&name, who, until).await?);
            }
        }
        Ok(all)
    }

    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        self.seen(named(thing)?, who(eyes), Instant::now() + stamp.deadline).await
    }

    async fn empty(
        &self,
        thing: &TenantResource,
        _uid: &str,
        _stamp: &CallMetadata,
    ) -> Result<EmptyProgress, ActionError> {
        named(thing)?;
        Ok(EmptyProgress::default())
    }

    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.remove_key(named(thing)?, uid, true, stamp).await
    }

    async fn undecryptable(
        &self,
        key: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        let (name, until) = (named(key)?, Instant::now() + stamp.deadline);
        let mark = self.mark(name, TokenOf::Platform, until).await?;
        let (what, ciphertext) = match mark.and_then(|mark| mark.canary) {
            Some(canary) => ("a ciphertext kept since before", canary),
            None => {
                let made_up = STANDARD.encode(format!(
                    "{}{}",
                    connection_settings::random_id(),
                    connection_settings::random_id()
                ));
                ("a made-up ciphertext, as none was kept,", format!("vault:v1:{made_up}"))
            }
        };
        let finding = |held, said: String| {
            Ok(ProbeFinding { held, transcript: format!("decrypting {what} with key {name} {said}") })
        };
        match self.decrypt(name, &ciphertext, TokenOf::Platform, until).await {
            Ok(_) => finding(false, "succeeded".into()),
            Err(refused) if refused.says(&[""]) => {
                // A rejected ciphertext proves nothing while the key exists.
                let there = self.described(name, TokenOf::Platform, until).await?.is_some();
                let key = if there { "is still there" } else { "is gone" };
                finding(!there, format!("was refused ({refused}), and the key {key}"))
            }
            Err(refused) => Err(refused.error),
        }
    }
}
