//! Creates, changes and deletes objects, each conditional on the state that was read.
//!
//! An object is created only if none exists, so that no object of others is taken over. It is changed by server-side
//! apply of all fields that Tenure sets, under the version that was read, without overriding other field managers. It
//! is deleted by uid and version.

pub(crate) mod admission_policy;
pub(crate) mod call_history;
mod delete;
pub(crate) mod deletion;
pub(crate) mod limit_range;
pub(crate) mod parse;
pub(crate) mod policy_binding;
pub(crate) mod render;
pub(crate) mod specs;

use crate::kubernetes::{
    client::{
        TRIES,
        discovery::At,
        error::Fault,
        request::{ApiRequest, deadline},
    },
    cluster::KubernetesCluster,
    labels::{annotation, terminating, uid, version},
    objects::{
        call_history::{CallHistory, PastCall},
        parse::{found, spec_of},
        specs::ObjectSpec,
    },
};
use engine::ActionError;
use serde_json::{Value, json};
use tokio::time::Instant;
use workflows::platform::{CallMetadata, FieldSwap, FoundObject, LOOK_AGAIN, Manifest, ObjectRef, codes};

impl KubernetesCluster {
    /// Creates the object, or returns the existing one.
    pub(super) async fn make(
        &self,
        manifest: &Manifest,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let until = deadline(stamp);
        let at = self.at(&manifest.place, until).await?;
        let asked = ObjectSpec::read(manifest.place.kind, &manifest.spec)?;
        for _ in 0..TRIES {
            if let Some(live) = self.get(&at, until).await? {
                return self.settled(manifest, &asked, &at, live, stamp, until).await;
            }
            let calls = CallHistory::default().with(stamp);
            let content = render::content(&asked, &manifest.tenant, &at, &self.target, &self.marks);
            let object = render::object(manifest, &at, content, &self.marks, &stamp.step, &calls);
            let ask = ApiRequest::post(&at.collection(), object.clone())
                .by(&self.target.field_manager)
                .under(stamp);
            match self.send(&ask, until).await {
                Ok(made) => return Ok(self.found(&made, &at)),
                // A concurrent call was faster; the next iteration reads the object.
                Err(Fault::Refused(refusal)) if refusal.is_outdated() => {}
                // In a dry run the namespace was not created either.
                Err(Fault::Refused(refusal)) if stamp.dry_run && refusal.is_missing() => {
                    return Ok(self.found(&object, &at));
                }
                Err(fault) => return Err(self.unserved_now(fault)),
            }
        }
        Err(contended(&at))
    }

    /// Decides the result if the object already exists.
    async fn settled(
        &self,
        manifest: &Manifest,
        asked: &ObjectSpec,
        at: &At,
        live: Value,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<FoundObject, ActionError> {
        if terminating(&live) {
            return Err(self.held(at, &live));
        }
        let found = self.found(&live, at);
        if found.tenant != manifest.tenant {
            let managers = managers(&live).join(", ");
            let why = format!(
                "{} exists, belongs to {:?}, and was set by {managers}, so it was not changed",
                at.name(),
                found.tenant
            );
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        let calls = CallHistory::of(&live, &self.marks.calls())?;
        let before = calls.check(stamp, &at.name())?;
        let is = spec_of(&live, at, &self.target, &self.marks);
        if before == PastCall::New && is != *asked {
            let managers = managers(&live).join(", ");
            let why = format!(
                "{} exists with {} instead of {}; it was set by {managers}, so it was not changed",
                at.name(),
                is.value(),
                asked.value()
            );
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        self.noted(at, &live, &is, stamp, until).await
    }

    /// Returns the object of a call that has nothing to change. If the call has a newer epoch, it is recorded on the
    /// object, so that calls with older epochs are rejected; only if that changes nothing else.
    async fn noted(
        &self,
        at: &At,
        live: &Value,
        is: &ObjectSpec,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<FoundObject, ActionError> {
        let found = self.found(live, at);
        let newer = CallHistory::of(live, &self.marks.calls())?.is_newer(stamp);
        // Shared objects are never changed, so a late call cannot harm them.
        if !newer || found.tenant.is_empty() || stamp.dry_run || !self.can_say(at, &found.tenant, is) {
            return Ok(found);
        }
        match self.set(at, live, &found.tenant, is, stamp, until).await {
            Ok(Some(object)) => Ok(self.found(&object, at)),
            Ok(None) => Ok(found),
            // Others manage fields of the object. Their values are kept, and the epoch is not recorded.
            Err(error) if error.code == codes::QUOTA_DRIFTED => Ok(found),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the spec can be written as an object. Changes by others may have no equivalent.
    fn can_say(&self, at: &At, tenant: &str, said: &ObjectSpec) -> bool {
        let manifest = Manifest { place: at.place.clone(), tenant: tenant.to_owned(), spec: Value::Null };
        let content = render::content(said, tenant, at, &self.target, &self.marks);
        let object = render::object(&manifest, at, content, &self.marks, "", "[]");
        spec_of(&object, at, &self.target, &self.marks) == *said
    }

    /// Changes the tenant's object to the spec that `changed` returns.
    pub(super) async fn change(
        &self,
        place: &ObjectRef,
        tenant: &str,
        stamp: &CallMetadata,
        changed: impl Fn(&FoundObject) -> Result<Value, ActionError>,
    ) -> Result<FoundObject, ActionError> {
        let until = deadline(stamp);
        let at = self.at(place, until).await?;
        for _ in 0..TRIES {
            let live = self.get(&at, until).await?.filter(|live| !terminating(live));
            let Some(live) = live else {
                return Err(ActionError::permanent(
                    codes::OBJECT_MISSING,
                    format!("{} does not exist", at.name()),
                ));
            };
            let found = self.found(&live, &at);
            if found.tenant != tenant {
                let why = format!("{} is of {:?}", at.name(), found.tenant);
                return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
            }
            let calls = CallHistory::of(&live, &self.marks.calls())?;
            if calls.check(stamp, &at.name())? == PastCall::Done {
                let is = spec_of(&live, &at, &self.target, &self.marks);
                return self.noted(&at, &live, &is, stamp, until).await;
            }
            let wanted = ObjectSpec::read(place.kind, &changed(&found)?)?;
            if let Some(object) = self.set(&at, &live, tenant, &wanted, stamp, until).await? {
                return Ok(self.found(&object, &at));
            }
        }
        Err(contended(&at))
    }

    /// Applies the spec to the object as it was read. Returns `None` if it has changed since.
    async fn set(
        &self,
        at: &At,
        live: &Value,
        tenant: &str,
        wanted: &ObjectSpec,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<Option<Value>, ActionError> {
        let Some(version) = self.taken_over(at, live, stamp, until).await? else { return Ok(None) };
        let calls = CallHistory::of(live, &self.marks.calls())?.with(stamp);
        let step = annotation(live, &self.marks.step()).unwrap_or_default();
        let manifest = Manifest { place: at.place.clone(), tenant: tenant.to_owned(), spec: Value::Null };
        let content = render::content(wanted, tenant, at, &self.target, &self.marks);
        let mut object = render::object(&manifest, at, content, &self.marks, step, &calls);
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.insert("uid".into(), uid(live).into());
            metadata.insert("resourceVersion".into(), version.into());
        }
        let ask = ApiRequest::apply(&at.path(), object).by(&self.target.field_manager).under(stamp);
        let mut answer = self.send(&ask, until).await;
        // A dry run cannot convert our update to an apply, so it can conflict with our own fields.
        if stamp.dry_run
            && let Err(Fault::Refused(refusal)) = &answer
            && self.only_ours(&refusal.managers())
        {
            answer = self.send(&ask.forced(), until).await;
        }
        match answer {
            Ok(object) => Ok(Some(object)),
            Err(Fault::Refused(refusal)) if !refusal.managers().is_empty() => {
                let why = format!(
                    "{}: other field managers set the same fields: {}",
                    at.name(),
                    refusal.managers().join("; ")
                );
                Err(ActionError::permanent(codes::QUOTA_DRIFTED, why))
            }
            Err(Fault::Refused(refusal)) if refusal.is_outdated() => Ok(None),
            Err(Fault::Refused(refusal)) if refusal.is_missing() => Ok(None),
            Err(fault) => Err(self.unserved_now(fault)),
        }
    }

    /// Returns true if all conflicts are with fields that our own manager set by update.
    fn only_ours(&self, managers: &[String]) -> bool {
        let ours = format!("\"{}\"", self.target.field_manager);
        !managers.is_empty() && managers.iter().all(|manager| manager.starts_with(&ours))
    }

    /// Converts our field ownership from update to apply before the first change. Otherwise server-side apply treats
    /// the creation as another manager. Returns the version to continue with, or `None` if the object has changed
    /// since.
    async fn taken_over(
        &self,
        at: &At,
        live: &Value,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<Option<String>, ActionError> {
        let Some(fields) = applied(live, &self.target.field_manager) else {
            return Ok(Some(version(live).to_owned()));
        };
        // A dry run changes nothing and keeps the current ownership.
        if stamp.dry_run {
            return Ok(Some(version(live).to_owned()));
        }
        let patch = json!([
            { "op": "test", "path": "/metadata/resourceVersion", "value": version(live) },
            { "op": "replace", "path": "/metadata/managedFields", "value": fields },
        ]);
        let ask = ApiRequest::patch(&at.path(), patch).by(&self.target.field_manager);
        match self.send(&ask, until).await {
            Ok(object) => Ok(Some(version(&object).to_owned())),
            Err(Fault::Refused(refusal)) if refusal.is_outdated() || refusal.status == 422 => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Returns the live object.
    pub(super) async fn get(&self, at: &At, until: Instant) -> Result<Option<Value>, ActionError> {
        match self.send(&ApiRequest::get(&at.path()), until).await {
            Ok(object) => Ok(Some(object)),
            Err(Fault::Refused(refusal)) if refusal.is_missing() => Ok(None),
            Err(fault) => Err(self.unserved_now(fault)),
        }
    }

    pub(super) fn found(&self, object: &Value, at: &At) -> FoundObject {
        found(object, at, &self.target, &self.marks)
    }

    /// Returns the error for a fault. If the path is not served any more, API versions are discovered again.
    pub(super) fn unserved_now(&self, fault: Fault) -> ActionError {
        if let Fault::Refused(refusal) = &fault
            && refusal.is_unserved()
        {
            self.forget_versions();
        }
        fault.into()
    }

    /// Returns the error for an object that is being deleted, with the reasons for the delay.
    pub(super) fn held(&self, at: &At, live: &Value) -> ActionError {
        let message = crate::kubernetes::objects::deletion::of(&at.name(), live);
        ActionError { message, ..ActionError::pending(codes::TERMINATING, LOOK_AGAIN) }
    }
}

/// Returns the spec changes of a field swap.
pub(super) fn swapped(found: &FoundObject, swap: &FieldSwap, name: &str) -> Result<Value, ActionError> {
    let now = found.spec.get(&swap.field).cloned().unwrap_or(Value::Null);
    let is = |wanted: &Value| now == *wanted || (empty(&now) && empty(wanted));
    if !is(&swap.from) && !is(&swap.to) {
        let why = format!("{} of {name} was changed meanwhile", swap.field);
        return Err(ActionError::transient(codes::OBJECT_CHANGED, why));
    }
    Ok(merged(&found.spec, &json!({ swap.field.as_str(): swap.to })))
}

/// Treats an empty object like an absent one.
fn empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Returns `spec` with the fields of `changes`; null removes a field.
pub(super) fn merged(spec: &Value, changes: &Value) -> Value {
    let mut merged = spec.clone();
    if let (Value::Object(merged), Value::Object(changes)) = (&mut merged, changes) {
        merged.extend(changes.clone());
        merged.retain(|_, value| !value.is_null());
    }
    merged
}

fn contended(at: &At) -> ActionError {
    let why = format!("{} changed during each of {TRIES} attempts", at.name());
    ActionError::transient(codes::OBJECT_CHANGED, why)
}

/// Returns the names of the object's field managers.
pub(super) fn managers(object: &Value) -> Vec<String> {
    let mut names: Vec<String> = entries(object)
        .iter()
        .filter_map(|entry| entry.get("manager")?.as_str())
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { vec!["an unknown field manager".to_owned()] } else { names }
}

fn entries(object: &Value) -> &[Value] {
    let entries = crate::kubernetes::labels::at(object, &["metadata", "managedFields"]);
    entries.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the managed fields with our manager's update as an apply. Returns `None` if it has no update.
fn applied(object: &Value, manager: &str) -> Option<Value> {
    let is =
        |entry: &Value, field: &str, wanted: &str| entry.get(field).and_then(Value::as_str) == Some(wanted);
    let ours = |entry: &&Value| is(entry, "manager", manager) && is(entry, "operation", "Update");
    let created = entries(object).iter().find(ours)?;
    let mut entry = created.clone();
    if let Value::Object(fields) = &mut entry {
        fields.insert("operation".into(), "Apply".into());
        if let Some(Value::Object(owned)) = fields.get_mut("fieldsV1") {
            owned.remove("f:status");
        }
    }
    let others = entries(object).iter().filter(|entry| !is(entry, "manager", manager));
    Some(others.cloned().chain([entry]).collect())
}
