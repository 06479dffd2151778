//! Objects made, changed and deleted, each on condition of what was seen before.
//!
//! An object is created only while there is none, so that no other's is taken over. It is changed by server-side apply of all that
//! Tenure sets on it, under the version that was read, and never against another field manager. It is deleted under identity and version.

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
    /// Makes the object, or finds that it is there.
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
                // A twin, or somebody else, was quicker: look whose it is.
                Err(Fault::Refused(refusal)) if refusal.is_outdated() => {}
                // A rehearsal has not made the namespace either.
                Err(Fault::Refused(refusal)) if stamp.dry_run && refusal.is_missing() => {
                    return Ok(self.found(&object, &at));
                }
                Err(fault) => return Err(self.unserved_now(fault)),
            }
        }
        Err(contended(&at))
    }

    /// What becomes of making an object that is there.
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
                "{} is there, of {:?}, set by {managers}: it was left as it is",
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
                "{} is there and differs: it says {}, and {} is asked for; it was set by {managers}, and left as it is",
                at.name(),
                is.value(),
                asked.value()
            );
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        self.noted(at, &live, &is, stamp, until).await
    }

    /// The object of a call that has nothing to do any more. When a later holder of the lease sends it, that is written down, so
    /// that from here on what an earlier one sends is refused; as far as it can be written without a change of anything else.
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
        // What all tenants share is never changed, and so nothing late can harm it.
        if !newer || found.tenant.is_empty() || stamp.dry_run || !self.can_say(at, &found.tenant, is) {
            return Ok(found);
        }
        match self.set(at, live, &found.tenant, is, stamp, until).await {
            Ok(Some(object)) => Ok(self.found(&object, at)),
            Ok(None) => Ok(found),
            // Others set fields of it: theirs stay, and the epoch is not worth a quarrel.
            Err(error) if error.code == codes::QUOTA_DRIFTED => Ok(found),
            Err(error) => Err(error),
        }
    }

    /// Whether an object can be made that says just this: what others have written may have no words.
    fn can_say(&self, at: &At, tenant: &str, said: &ObjectSpec) -> bool {
        let manifest = Manifest { place: at.place.clone(), tenant: tenant.to_owned(), spec: Value::Null };
        let content = render::content(said, tenant, at, &self.target, &self.marks);
        let object = render::object(&manifest, at, content, &self.marks, "", "[]");
        spec_of(&object, at, &self.target, &self.marks) == *said
    }

    /// Sets fields of the tenant's object, as `changed` says they are to be.
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
                    format!("there is no {}", at.name()),
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

    /// Applies `wanted` to the object as it was read; nothing where it has changed since.
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
        // A rehearsal could not turn our update into an apply before, and so meets nobody but itself.
        if stamp.dry_run
            && let Err(Fault::Refused(refusal)) = &answer
            && self.only_ours(&refusal.managers())
        {
            answer = self.send(&ask.forced(), until).await;
        }
        match answer {
            Ok(object) => Ok(Some(object)),
            Err(Fault::Refused(refusal)) if !refusal.managers().is_empty() => {
                let why =
                    format!("{}: others set the same fields: {}", at.name(), refusal.managers().join("; "));
                Err(ActionError::permanent(codes::QUOTA_DRIFTED, why))
            }
            Err(Fault::Refused(refusal)) if refusal.is_outdated() => Ok(None),
            Err(Fault::Refused(refusal)) if refusal.is_missing() => Ok(None),
            Err(fault) => Err(self.unserved_now(fault)),
        }
    }

    /// Whether a conflict is with what our own manager set in another way.
    fn only_ours(&self, managers: &[String]) -> bool {
        let ours = format!("\"{}\"", self.target.field_manager);
        !managers.is_empty() && managers.iter().all(|manager| manager.starts_with(&ours))
    }

    /// What a creation set belongs to our manager as an update, where server-side apply would take it for another's. Its first
    /// change makes it ours by apply. Answers with the version to go on from; nothing where the object has changed meanwhile.
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
        // A rehearsal changes nothing, and so stands on what is owned by now.
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

    /// The object as it stands.
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

    /// The error of a fault; versions are looked up anew once a path is not served any more.
    pub(super) fn unserved_now(&self, fault: Fault) -> ActionError {
        if let Fault::Refused(refusal) = &fault
            && refusal.is_unserved()
        {
            self.forget_versions();
        }
        fault.into()
    }

    /// The error for an object that is being deleted, with what holds it.
    pub(super) fn held(&self, at: &At, live: &Value) -> ActionError {
        let message = crate::kubernetes::objects::deletion::of(&at.name(), live);
        ActionError { message, ..ActionError::pending(codes::TERMINATING, LOOK_AGAIN) }
    }
}

/// The change of one field of a found object's spec.
pub(super) fn swapped(found: &FoundObject, swap: &FieldSwap, name: &str) -> Result<Value, ActionError> {
    let now = found.spec.get(&swap.field).cloned().unwrap_or(Value::Null);
    let is = |wanted: &Value| now == *wanted || (empty(&now) && empty(wanted));
    if !is(&swap.from) && !is(&swap.to) {
        let why = format!("{} of {name} was changed meanwhile", swap.field);
        return Err(ActionError::transient(codes::OBJECT_CHANGED, why));
    }
    Ok(merged(&found.spec, &json!({ swap.field.as_str(): swap.to })))
}

/// An object without entries says as much as none.
fn empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// `spec` with the fields of `changes`; null removes one.
pub(super) fn merged(spec: &Value, changes: &Value) -> Value {
    let mut merged = spec.clone();
    if let (Value::Object(merged), Value::Object(changes)) = (&mut merged, changes) {
        merged.extend(changes.clone());
        merged.retain(|_, value| !value.is_null());
    }
    merged
}

fn contended(at: &At) -> ActionError {
    let why = format!("{} changed under each of {TRIES} attempts", at.name());
    ActionError::transient(codes::OBJECT_CHANGED, why)
}

/// The names of those who set fields of an object.
pub(super) fn managers(object: &Value) -> Vec<String> {
    let mut names: Vec<String> = entries(object)
        .iter()
        .filter_map(|entry| entry.get("manager")?.as_str())
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { vec!["nobody who can be named".to_owned()] } else { names }
}

fn entries(object: &Value) -> &[Value] {
    let entries = crate::kubernetes::labels::at(object, &["metadata", "managedFields"]);
    entries.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The managed fields with the update of our manager turned into an apply; nothing where there is no such update.
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
