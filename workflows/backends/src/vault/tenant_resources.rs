//! Keys among what a tenant leaves behind: surveyed, looked at with either pair of eyes, destroyed, and tried afterwards.

use crate::connection_settings;
use crate::vault::{Vault, client::Who};
use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use engine::ActionError;
use tokio::time::Instant;
use workflows::platform::{
    Admits, Emptied, Estate, Eyes, Finding, Found, Seen, Stamp, Thing, codes, tenant_name,
};

const SYSTEM: &str = "keys";
const KEY: &str = "Key";

fn who(eyes: Eyes) -> Who {
    match eyes {
        Eyes::Platform => Who::Platform,
        Eyes::Verifier => Who::Verifier,
    }
}

fn named(thing: &Thing) -> Result<&str, ActionError> {
    if thing.system == SYSTEM && thing.kind == KEY {
        return Ok(&thing.name);
    }
    Err(ActionError::permanent(codes::REFUSED, format!("{thing} is no key, and this is a key store")))
}

fn unsupported(what: &str) -> ActionError {
    ActionError::permanent(codes::UNSUPPORTED, format!("{what} is nothing that a key store does"))
}

impl Vault {
    async fn seen(&self, name: &str, who: Who, until: Instant) -> Result<Option<Seen>, ActionError> {
        let Some((found, _)) = self.found(name, who, until).await? else { return Ok(None) };
        let Found { uid, tenant, spec, terminating, .. } = found;
        Ok(Some(Seen { thing: Thing::new(SYSTEM, "", KEY, name), uid, tenant, spec, terminating }))
    }
}

#[async_trait]
impl Estate for Vault {
    fn backend(&self) -> &'static str {
        "vault"
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Eyes,
        stamp: &Stamp,
    ) -> Result<Vec<Seen>, ActionError> {
        if system != SYSTEM {
            return Ok(Vec::new());
        }
        let (who, until, own) = (who(eyes), Instant::now() + stamp.deadline, tenant_name(tenant)?);
        let mut all = Vec::new();
        for name in self.names(who, until).await? {
            let mark = self.mark(&name, who, until).await?;
            // A key without a mark that has the tenant's name is nobody else's.
            if mark.map_or(name == own, |mark| mark.tenant == tenant) {
                all.extend(self.seen(&name, who, until).await?);
            }
        }
        Ok(all)
    }

    async fn look(&self, thing: &Thing, eyes: Eyes, stamp: &Stamp) -> Result<Option<Seen>, ActionError> {
        self.seen(named(thing)?, who(eyes), Instant::now() + stamp.deadline).await
    }

    async fn admit(
        &self,
        _thing: &Thing,
        _tenant: &str,
        _admits: Admits,
        _stamp: &Stamp,
    ) -> Result<(), ActionError> {
        Err(unsupported("freezing a key"))
    }

    async fn rewrap(
        &self,
        _thing: &Thing,
        _tenant: &str,
        _key: &str,
        _stamp: &Stamp,
    ) -> Result<(), ActionError> {
        Err(unsupported("putting a key under another"))
    }

    async fn empty(&self, thing: &Thing, _uid: &str, _stamp: &Stamp) -> Result<Emptied, ActionError> {
        named(thing)?;
        Ok(Emptied::default())
    }

    async fn remove(&self, thing: &Thing, uid: &str, stamp: &Stamp) -> Result<(), ActionError> {
        self.remove_key(named(thing)?, uid, true, stamp).await
    }

    async fn undecryptable(&self, key: &Thing, stamp: &Stamp) -> Result<Finding, ActionError> {
        let (name, until) = (named(key)?, Instant::now() + stamp.deadline);
        let mark = self.mark(name, Who::Platform, until).await?;
        let (what, ciphertext) = match mark.and_then(|mark| mark.canary) {
            Some(canary) => ("a ciphertext kept since before", canary),
            None => {
                let made_up = STANDARD.encode(format!(
                    "{}{}",
                    connection_settings::identity(),
                    connection_settings::identity()
                ));
                ("a made-up ciphertext, as none was kept,", format!("vault:v1:{made_up}"))
            }
        };
        let finding = |held, said: String| {
            Ok(Finding { held, transcript: format!("decrypting {what} with key {name} {said}") })
        };
        match self.decrypt(name, &ciphertext, Who::Platform, until).await {
            Ok(_) => finding(false, "succeeded".into()),
            Err(refused) if refused.says(&[""]) => {
                // That one ciphertext is refused proves nothing while the key is there.
                let there = self.described(name, Who::Platform, until).await?.is_some();
                let key = if there { "is still there" } else { "is gone" };
                finding(!there, format!("was refused ({refused}), and the key {key}"))
            }
            Err(refused) => Err(refused.error),
        }
    }
}
