//! Finds keys in a token with their labels and the wrapped data keys that prove their destruction.

use super::token::Work;
use crate::connection_settings;
use cryptoki::{
    mechanism::Mechanism,
    object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle},
};
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::json;
use workflows::platform::{CallMetadata, FoundObject, KeySafety, WayBack, codes};

/// `CKA_APPLICATION` of the data objects next to keys.
const APPLICATION: &[u8] = b"tenure.dev canary";

/// The owner label of a key, stored in `CKA_ID`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeyLabel {
    pub(super) tenant: String,
    pub(super) step: String,
    pub(super) epoch: u64,
    pub(super) uid: String,
}

/// A key in the token.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) handle: ObjectHandle,
    pub(super) name: String,
    pub(super) mark: KeyLabel,
    pub(super) safety: KeySafety,
}

/// The history flags that a token reports for a key. Absent flags are unknown.
#[derive(Clone, Copy, Debug, Default)]
struct History {
    extractable: Option<bool>,
    never_extractable: Option<bool>,
    sensitive: Option<bool>,
    always_sensitive: Option<bool>,
    /// False for a key that was not created in the token: it was imported, unwrapped or restored.
    local: Option<bool>,
}

impl History {
    /// Returns how the key material can have left the token. `CKA_COPYABLE` is ignored: copies stay in the token, where
    /// the proof of destruction tries every key.
    fn safety(self) -> KeySafety {
        let could_leave = [self.extractable, self.never_extractable.map(|never| !never)];
        let was_plain = [self.sensitive, self.always_sensitive].map(|hidden| hidden.map(|hidden| !hidden));
        let left: Vec<_> = could_leave.into_iter().chain(was_plain).collect();
        KeySafety::of([
            (self.local == Some(false), WayBack::Imported),
            (left.contains(&Some(true)), WayBack::Exportable),
            (self.local.is_none() || left.contains(&None), WayBack::Unknown),
        ])
    }
}

impl KeyLabel {
    pub(super) fn new(tenant: &str, stamp: &CallMetadata) -> Self {
        let (tenant, step) = (tenant.to_owned(), stamp.step.clone());
        Self { tenant, step, epoch: stamp.epoch.0, uid: connection_settings::random_id() }
    }

    /// Rejects a call of the creating step with an older epoch.
    pub(super) fn fence(&self, name: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        if self.step != stamp.step || self.epoch <= stamp.epoch.0 {
            return Ok(());
        }
        let why = format!("key {name} was made under epoch {}, and this is {}", self.epoch, stamp.epoch.0);
        Err(ActionError::permanent(codes::FENCED, why))
    }

    /// Parses a label. The id of a foreign key becomes its uid.
    fn read(id: &[u8]) -> Self {
        let foreign =
            || Self { uid: format!("unmarked-{}", connection_settings::hex(id)), ..Self::default() };
        serde_json::from_slice(id).unwrap_or_else(|_| foreign())
    }

    pub(super) fn written(&self) -> Vec<u8> {
        json!(self).to_string().into_bytes()
    }
}

impl Key {
    pub(super) fn found(&self) -> FoundObject {
        let KeyLabel { tenant, step, uid, .. } = self.mark.clone();
        let spec = json!({ "type": "aes-256", KeySafety::FIELD: self.safety.can_come_back });
        FoundObject { uid, tenant, step, spec, terminating: false }
    }
}

impl Work {
    /// Returns all secret keys of the token, or those with the given label.
    pub(super) fn keys(&self, name: Option<&str>) -> Result<Vec<Key>, ActionError> {
        let mut wanted = vec![Attribute::Class(ObjectClass::SECRET_KEY), Attribute::Token(true)];
        wanted.extend(name.map(|name| Attribute::Label(name.as_bytes().to_vec())));
        let handles = self.ask("find keys", self.session.find_objects(&wanted))?;
        handles.into_iter().map(|handle| self.key(handle)).collect()
    }

    /// Returns the key with this name. Several keys with one name are an error, because none can be chosen safely.
    pub(super) fn named(&self, name: &str) -> Result<Option<Key>, ActionError> {
        let mut keys = self.keys(Some(name))?;
        if keys.len() > 1 {
            let why = format!(
                "{} keys of the token are labelled {name}: remove those that are not the tenant's",
                keys.len()
            );
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        Ok(keys.pop())
    }

    fn key(&self, handle: ObjectHandle) -> Result<Key, ActionError> {
        let asked = [
            AttributeType::Label,
            AttributeType::Id,
            AttributeType::Extractable,
            AttributeType::NeverExtractable,
            AttributeType::Sensitive,
            AttributeType::AlwaysSensitive,
            AttributeType::Local,
        ];
        let attributes = self.ask("read a key", self.session.get_attributes(handle, &asked))?;
        let (mut name, mut mark, mut told) = (String::new(), KeyLabel::default(), History::default());
        for attribute in attributes {
            if let Attribute::Label(label) = &attribute {
                name = String::from_utf8_lossy(label).into_owned();
            } else if let Attribute::Id(id) = &attribute {
                mark = KeyLabel::read(id);
            } else if let Attribute::Extractable(extractable) = attribute {
                told.extractable = Some(extractable);
            } else if let Attribute::NeverExtractable(never) = attribute {
                told.never_extractable = Some(never);
            } else if let Attribute::Sensitive(is) = attribute {
                told.sensitive = Some(is);
            } else if let Attribute::AlwaysSensitive(always) = attribute {
                told.always_sensitive = Some(always);
            } else if let Attribute::Local(made_here) = attribute {
                told.local = Some(made_here);
            }
        }
        Ok(Key { handle, name, mark, safety: told.safety() })
    }

    /// Creates a data key in this session that can be wrapped. If `wraps` is true, it can itself wrap keys.
    pub(super) fn data_key(&self, wraps: bool) -> Result<ObjectHandle, ActionError> {
        let template = [
            Attribute::Class(ObjectClass::SECRET_KEY),
            Attribute::KeyType(KeyType::AES),
            Attribute::ValueLen(32.into()),
            Attribute::Token(false),
            Attribute::Private(true),
            Attribute::Sensitive(true),
            Attribute::Extractable(true),
            Attribute::Wrap(wraps),
            Attribute::Unwrap(wraps),
        ];
        let made = self.session.generate_key(&Mechanism::AesKeyGen, &template);
        self.ask("make a data key of this session", made)
    }

    /// Returns a data key that is wrapped by this key.
    pub(super) fn wrapped(&self, key: ObjectHandle) -> Result<Vec<u8>, ActionError> {
        let data = self.data_key(false)?;
        self.ask("wrap a data key", self.session.wrap_key(&Mechanism::AesKeyWrap, key, data))
    }

    /// Tries to unwrap with this key. Every error counts as failure and is returned as text.
    pub(super) fn unwraps(&self, key: ObjectHandle, wrapped: &[u8]) -> Result<(), String> {
        let template = [
            Attribute::Class(ObjectClass::SECRET_KEY),
            Attribute::KeyType(KeyType::AES),
            Attribute::Token(false),
            Attribute::Private(true),
            Attribute::Sensitive(true),
            Attribute::Extractable(false),
        ];
        let data = self.session.unwrap_key(&Mechanism::AesKeyWrap, key, wrapped, &template);
        let data = data.map_err(|e| e.to_string())?;
        // If the token keeps it, it is removed with the session.
        let _kept = self.session.destroy_object(data);
        Ok(())
    }

    fn canaries(&self, name: &str) -> Result<Vec<ObjectHandle>, ActionError> {
        let wanted = [
            Attribute::Class(ObjectClass::DATA),
            Attribute::Token(true),
            Attribute::Application(APPLICATION.to_vec()),
            Attribute::Label(name.as_bytes().to_vec()),
        ];
        self.ask("find what was wrapped", self.session.find_objects(&wanted))
    }

    /// Returns the wrapped data key that is stored for the proof.
    pub(super) fn canary(&self, name: &str) -> Result<Option<Vec<u8>>, ActionError> {
        let Some(handle) = self.canaries(name)?.pop() else { return Ok(None) };
        let read = self.session.get_attributes(handle, &[AttributeType::Value]);
        let read = self.ask("read what was wrapped", read)?;
        Ok(read
            .into_iter()
            .find_map(|attribute| if let Attribute::Value(value) = attribute { Some(value) } else { None }))
    }

    /// Ensures that a data key wrapped by this key is stored, and removes data of an earlier key with the same name.
    pub(super) fn keep_canary(&self, key: &Key) -> Result<Vec<u8>, ActionError> {
        if let Some(wrapped) = self.canary(&key.name)?
            && self.unwraps(key.handle, &wrapped).is_ok()
        {
            return Ok(wrapped);
        }
        self.forget_canary(&key.name)?;
        let wrapped = self.wrapped(key.handle)?;
        let template = [
            Attribute::Class(ObjectClass::DATA),
            Attribute::Token(true),
            Attribute::Private(true),
            Attribute::Application(APPLICATION.to_vec()),
            Attribute::Label(key.name.clone().into_bytes()),
            Attribute::Value(wrapped.clone()),
        ];
        self.change("keep what was wrapped", |session| session.create_object(&template))?;
        Ok(wrapped)
    }

    /// Removes the data stored for the proof.
    pub(super) fn forget_canary(&self, name: &str) -> Result<(), ActionError> {
        for handle in self.canaries(name)? {
            self.change("remove what was wrapped", |session| session.destroy_object(handle))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{History, KeyLabel};
    use std::collections::BTreeSet;
    use workflows::platform::WayBack;

    #[test]
    fn only_a_key_created_in_the_token_and_never_extractable_is_not_restorable() {
        let safe = History {
            extractable: Some(false),
            never_extractable: Some(true),
            sensitive: Some(true),
            always_sensitive: Some(true),
            local: Some(true),
        };
        let ways = |history: History| history.safety().can_come_back;
        assert_eq!(ways(safe), BTreeSet::new());
        let only = |way| BTreeSet::from([way]);
        assert_eq!(ways(History { local: Some(false), ..safe }), only(WayBack::Imported));
        assert_eq!(ways(History { extractable: Some(true), ..safe }), only(WayBack::Exportable));
        assert_eq!(ways(History { never_extractable: Some(false), ..safe }), only(WayBack::Exportable));
        assert_eq!(ways(History { sensitive: Some(false), ..safe }), only(WayBack::Exportable));
        assert_eq!(ways(History { always_sensitive: Some(false), ..safe }), only(WayBack::Exportable));
        assert_eq!(ways(History { local: None, ..safe }), only(WayBack::Unknown));
        assert_eq!(ways(History { never_extractable: None, ..safe }), only(WayBack::Unknown));
    }

    #[test]
    fn a_mark_is_parsed_as_written_and_an_invalid_one_still_identifies_its_key() {
        let mark = KeyLabel { tenant: "acme".into(), step: "e/s/1/0".into(), epoch: 7, uid: "ab".into() };
        assert_eq!(KeyLabel::read(&mark.written()), mark);
        assert_eq!(KeyLabel::read(&[10, 255]).uid, "unmarked-0aff");
        assert_eq!(KeyLabel::read(&[]).tenant, "");
    }
}
