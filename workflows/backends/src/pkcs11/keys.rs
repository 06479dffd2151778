//! Creates, reads and destroys keys.

use crate::pkcs11::{
    Pkcs11,
    key_lookup::{Key, KeyLabel},
    token::Work,
};
use async_trait::async_trait;
use cryptoki::{
    mechanism::Mechanism,
    object::{Attribute, KeyType, ObjectClass},
};
use engine::ActionError;
use workflows::platform::{CallMetadata, FoundObject, KeySafety, Keys, ProbeFinding, codes, tenant_name};

/// Creates the key unless one with that name exists.
fn make(on: &Work, name: &str, tenant: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
    if let Some(key) = on.named(name)? {
        key.mark.fence(name, stamp)?;
        if !stamp.dry_run && key.mark.tenant == tenant && key.safety.is_safe() {
            on.keep_canary(&key)?;
        }
        return Ok(());
    }
    if stamp.dry_run {
        return Ok(());
    }
    let template = [
        Attribute::Class(ObjectClass::SECRET_KEY),
        Attribute::KeyType(KeyType::AES),
        Attribute::ValueLen(32.into()),
        Attribute::Token(true),
        Attribute::Private(true),
        Attribute::Sensitive(true),
        Attribute::Extractable(false),
        Attribute::Modifiable(false),
        Attribute::Wrap(true),
        Attribute::Unwrap(true),
        Attribute::Encrypt(false),
        Attribute::Decrypt(false),
        Attribute::Label(name.as_bytes().to_vec()),
        Attribute::Id(KeyLabel::new(tenant, stamp).written()),
    ];
    let made = on.change("make a key", |session| session.generate_key(&Mechanism::AesKeyGen, &template))?;
    // Another process may have created the same key concurrently. Then each removes its own, and a retry creates it.
    if on.keys(Some(name))?.len() > 1 {
        on.change("remove a duplicate key", |session| session.destroy_object(made))?;
        let why = format!("key {name} was created twice at the same time");
        return Err(ActionError::transient(codes::OBJECT_CHANGED, why));
    }
    match on.named(name)? {
        Some(key) => on.keep_canary(&key).map(drop),
        None => Err(ActionError::transient(
            codes::KEY_MISSING,
            format!("key {name} was created, but does not exist"),
        )),
    }
}

/// Destroys the key and checks, by its handle, that it no longer unwraps.
pub(super) fn remove(
    on: &Work,
    name: &str,
    uid: &str,
    keep_canary: bool,
    stamp: &CallMetadata,
) -> Result<(), ActionError> {
    let Some(key) = on.named(name)? else {
        return if keep_canary || stamp.dry_run { Ok(()) } else { on.forget_canary(name) };
    };
    let Key { handle, mark, .. } = &key;
    if mark.uid != uid {
        let why = format!("key {name} is {}, but was {uid}", mark.uid);
        return Err(ActionError::transient(codes::OBJECT_CHANGED, why));
    }
    mark.fence(name, stamp)?;
    if stamp.dry_run {
        return Ok(());
    }
    // A key that cannot wrap is destroyed as well; the check is then skipped.
    let wrapped = if keep_canary { Some(on.keep_canary(&key)?) } else { on.wrapped(*handle).ok() };
    on.change("destroy a key", |session| session.destroy_object(*handle))?;
    if let Some(wrapped) = wrapped
        && on.unwraps(*handle, &wrapped).is_ok()
    {
        let why = format!("key {name} was destroyed, but still unwraps: the token has kept it");
        return Err(ActionError::permanent(codes::KEY_SURVIVES, why));
    }
    if keep_canary { Ok(()) } else { on.forget_canary(name) }
}

/// Wraps and unwraps with the tenant's key, then tries to unwrap with another key.
fn isolation(on: &Work, name: &str) -> Result<ProbeFinding, ActionError> {
    let Some(key) = on.named(name)? else {
        return Err(ActionError::permanent(codes::KEY_MISSING, format!("key {name} does not exist")));
    };
    let wrapped = on.wrapped(key.handle)?;
    if let Err(said) = on.unwraps(key.handle, &wrapped) {
        let transcript = format!("key {name} cannot unwrap the key that it wrapped: {said}");
        return Ok(ProbeFinding { held: false, transcript });
    }
    let stranger = on.data_key(true)?;
    let Err(said) = on.unwraps(stranger, &wrapped) else {
        let transcript = format!("another key unwraps what key {name} wrapped");
        return Ok(ProbeFinding { held: false, transcript });
    };
    let transcript = format!("key {name} wrapped and unwrapped; another key was refused: {said}");
    Ok(ProbeFinding { held: true, transcript })
}

#[async_trait]
impl Keys for Pkcs11 {
    fn backend(&self) -> &'static str {
        "pkcs11"
    }

    async fn create(&self, name: &str, tenant: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        let (name, tenant, own) = (name.to_owned(), tenant.to_owned(), stamp.clone());
        self.token.work(stamp, move |on| make(on, &name, &tenant, &own)).await
    }

    async fn read(
        &self,
        name: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<(FoundObject, KeySafety)>, ActionError> {
        let name = name.to_owned();
        let key = self.token.work(stamp, move |on| on.named(&name)).await?;
        Ok(key.map(|key| (key.found(), key.safety)))
    }

    async fn destroy(
        &self,
        name: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let (name, uid, own) = (name.to_owned(), found.uid.clone(), stamp.clone());
        self.token.work(stamp, move |on| remove(on, &name, &uid, !own.undo, &own)).await
    }

    async fn probe_isolation(&self, tenant: &str, stamp: &CallMetadata) -> Result<ProbeFinding, ActionError> {
        let name = tenant_name(tenant)?;
        self.token.work(stamp, move |on| isolation(on, &name)).await
    }
}
