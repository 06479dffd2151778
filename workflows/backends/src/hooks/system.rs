//! A custom system behind a hook: an operator-supplied program or service creates, lists, freezes and deletes the
//! objects of tenants.
//!
//! Invariant: an object that was not looked for never counts as absent. An answer that is incomplete, that concerns
//! another object, or that lists objects of another tenant is an error.

use super::{HookBackend, Request, Verb};
use crate::http_response::unreadable;
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use workflows::platform::{
    AccessMode, CallMetadata, EmptyProgress, FoundObject, Hook, Identity, ObservedResource, Observer,
    ProbeFinding, TenantResource, TenantResources, VerifiedAs, codes,
};

/// Kinds of the system `identity`: a tenant's groups, and the credentials that it receives.
const GROUPS: &str = "Groups";
const CREDENTIALS: &str = "Credentials";

/// A system, one of [`SYSTEMS`](workflows::platform::SYSTEMS), behind a hook.
#[derive(Debug)]
pub struct System {
    name: &'static str,
    hook: Arc<dyn HookBackend>,
    verifier: Arc<dyn HookBackend>,
    /// True if the verifier differs from the hook.
    has_verifier: bool,
}

impl System {
    /// Creates the system with this name. `hook` changes it; `verifier` reads it with its own credentials.
    #[must_use]
    pub fn new(name: &'static str, hook: Arc<dyn HookBackend>, verifier: Arc<dyn HookBackend>) -> Self {
        Self { name, hook, verifier, has_verifier: true }
    }

    /// Marks the verifier as identical to the hook, so that it reads with the hook's credentials.
    #[must_use]
    pub fn verified_by_itself(self) -> Self {
        Self { has_verifier: false, ..self }
    }

    /// Returns the system's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    fn request(
        &self,
        one: &dyn HookBackend,
        verb: Verb,
        tenant: &str,
        arguments: Value,
        stamp: &CallMetadata,
    ) -> Request {
        let hook = Hook { name: self.name.to_owned(), tenant: tenant.to_owned(), arguments };
        Request::of(&hook, verb, stamp, one.manners().deadline.unwrap_or(stamp.deadline))
    }

    /// Requests a change. Skips a dry run if the hook does not support it.
    async fn change(
        &self,
        tenant: &str,
        arguments: Value,
        stamp: &CallMetadata,
    ) -> Result<Value, ActionError> {
        if stamp.dry_run && !self.hook.manners().dry_runs {
            return Ok(Value::Null);
        }
        let verb = if stamp.dry_run { Verb::DryRun } else { Verb::Run };
        let request = self.request(&*self.hook, verb, tenant, arguments, stamp);
        self.hook.ask(&request).await?.of_deed(&request)
    }

    /// Reads the objects.
    async fn shown<T: DeserializeOwned>(
        &self,
        eyes: Observer,
        tenant: &str,
        arguments: Value,
        stamp: &CallMetadata,
    ) -> Result<T, ActionError> {
        let one = match eyes {
            Observer::Platform => &self.hook,
            Observer::Verifier => &self.verifier,
        };
        let request = self.request(&**one, Verb::Look, tenant, arguments, stamp);
        let output = one.ask(&request).await?.of_deed(&request)?;
        serde_json::from_value(output).map_err(|e| self.unreadable(&e))
    }

    fn unreadable(&self, why: &dyn std::fmt::Display) -> ActionError {
        unreadable(format!("check by hook {}: {why}", self.name), false)
    }

    async fn told(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ReportedThing>, ActionError> {
        let told: Option<ReportedThing> = self.shown(eyes, "", with(thing, "look", json!({})), stamp).await?;
        let Some(told) = told else { return Ok(None) };
        told.check().map_err(|why| self.unreadable(&why))?;
        let about = told.thing(self.name);
        if about != *thing {
            return Err(
                self.unreadable(&format!("the request was about {thing}, but the answer is about {about}"))
            );
        }
        Ok(Some(told))
    }

    fn identity(&self, kind: &str, name: &str) -> TenantResource {
        TenantResource::new(self.name, "", kind, name)
    }

    /// Creates an object of the identity provider and returns it. Existing groups with the wanted `spec` are kept.
    async fn made(
        &self,
        kind: &str,
        of: (&str, &str),
        spec: Value,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let (name, tenant) = of;
        let thing = self.identity(kind, name);
        if let Some(found) = self.told(&thing, Observer::Platform, stamp).await?.map(ReportedThing::found) {
            let alike = alike(&found.spec, &spec);
            if found.tenant != tenant || found.step != stamp.step && !alike {
                let why = format!("{thing} belongs to {:?}, and was created by {}", found.tenant, found.step);
                return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
            }
            if alike && !found.terminating {
                return Ok(found);
            }
        }
        self.change(tenant, with(&thing, "make", spec.clone()), stamp).await?;
        if stamp.dry_run {
            let (uid, tenant, step) = (String::new(), tenant.to_owned(), stamp.step.clone());
            return Ok(FoundObject { uid, tenant, step, spec, terminating: false });
        }
        let unseen = |e: ActionError| ActionError::unknown(codes::NO_ANSWER, e.message);
        let found = self.told(&thing, Observer::Platform, stamp).await.map_err(unseen)?;
        found
            .map(ReportedThing::found)
            .ok_or_else(|| unreadable(format!("{thing} was created, but is not in the answer"), true))
    }
}

/// Returns true if the object has the wanted values, in any order.
fn alike(is: &Value, wanted: &Value) -> bool {
    let sorted = |value: &Value| {
        let mut each = value.clone();
        each.sort_all_objects();
        let mut all: Vec<String> = each.as_array().into_iter().flatten().map(Value::to_string).collect();
        all.sort();
        all
    };
    wanted.as_object().is_none_or(|wanted| {
        wanted.iter().all(|(key, wanted)| {
            is.get(key).is_some_and(|is| is == wanted || wanted.is_array() && sorted(is) == sorted(wanted))
        })
    })
}

/// Returns the arguments for a request about an object: `do` is the change or the query.
fn with(thing: &TenantResource, what: &str, more: Value) -> Value {
    let mut all = json!({ "do": what, "place": thing.place, "kind": thing.kind, "name": thing.name });
    if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
        all.extend(more);
    }
    all
}

/// An object as the hook reports it. All further fields are its specification.
#[derive(Debug, Deserialize)]
struct ReportedThing {
    #[serde(default)]
    place: String,
    kind: String,
    name: String,
    uid: String,
    tenant: String,
    #[serde(default)]
    step: String,
    #[serde(default)]
    terminating: bool,
    #[serde(flatten)]
    spec: Map<String, Value>,
}

impl ReportedThing {
    /// Checks that the object is fully identified.
    fn check(&self) -> Result<(), String> {
        let fields =
            [("kind", &self.kind), ("name", &self.name), ("uid", &self.uid), ("tenant", &self.tenant)];
        match fields.into_iter().find(|(_, value)| value.is_empty()) {
            Some((field, _)) => Err(format!("the answer has an object with an empty {field}")),
            None => Ok(()),
        }
    }

    fn thing(&self, system: &str) -> TenantResource {
        TenantResource::new(system, &self.place, &self.kind, &self.name)
    }

    fn seen(self, system: &str) -> ObservedResource {
        let thing = self.thing(system);
        ObservedResource {
            thing,
            uid: self.uid,
            tenant: self.tenant,
            spec: self.spec.into(),
            terminating: self.terminating,
        }
    }

    fn found(self) -> FoundObject {
        let Self { uid, tenant, step, terminating, spec, .. } = self;
        FoundObject { uid, tenant, step, spec: spec.into(), terminating }
    }
}

#[async_trait]
impl TenantResources for System {
    fn backend(&self) -> &'static str {
        self.hook.backend()
    }

    fn is_simulated(&self, _: &TenantResource) -> bool {
        false
    }

    fn is_system_simulated(&self, _: &str) -> bool {
        false
    }

    fn verified_as(&self, _: &TenantResource, eyes: Observer) -> VerifiedAs {
        match eyes {
            Observer::Verifier if self.has_verifier => VerifiedAs::Verifier,
            Observer::Verifier | Observer::Platform => VerifiedAs::Platform,
        }
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        let all: Vec<ReportedThing> = self.shown(eyes, tenant, json!({ "do": "survey" }), stamp).await?;
        for told in &all {
            told.check().map_err(|why| self.unreadable(&why))?;
            if told.tenant != tenant {
                let why = format!(
                    "the request was for {tenant:?}, but the answer has an object of {:?}",
                    told.tenant
                );
                return Err(self.unreadable(&why));
            }
        }
        Ok(all.into_iter().map(|told| told.seen(system)).collect())
    }

    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        Ok(self.told(thing, eyes, stamp).await?.map(|told| told.seen(self.name)))
    }

    async fn set_admission(
        &self,
        thing: &TenantResource,
        tenant: &str,
        admits: AccessMode,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let asked = with(thing, "admit", json!({ "admits": admits }));
        self.change(tenant, asked, stamp).await.map(drop)
    }

    async fn rewrap(
        &self,
        thing: &TenantResource,
        tenant: &str,
        key: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        if stamp.dry_run && !self.hook.manners().dry_runs {
            let why = format!(
                "hook {} does not support dry runs, so it is unknown if it can encrypt {thing} with another key: implement dry runs, and set `dry_runs: true`",
                self.name
            );
            return Err(ActionError::permanent(codes::UNSUPPORTED, why));
        }
        self.change(tenant, with(thing, "rewrap", json!({ "key": key })), stamp).await.map(drop)
    }

    async fn empty(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<EmptyProgress, ActionError> {
        let said = self.change("", with(thing, "empty", json!({ "uid": uid })), stamp).await?;
        if stamp.dry_run {
            return Ok(EmptyProgress::default());
        }
        serde_json::from_value(said)
            .map_err(|e| unreadable(format!("run of hook {}: emptied: {e}", self.name), true))
    }

    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.change("", with(thing, "remove", json!({ "uid": uid })), stamp).await.map(drop)
    }

    async fn undecryptable(
        &self,
        key: &TenantResource,
        _: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        let why = format!("{key}: a hook cannot prove the destruction of a key: use a key store (`keys`)");
        Err(ActionError::permanent(codes::UNSUPPORTED, why))
    }
}

#[async_trait]
impl Identity for System {
    fn backend(&self) -> &'static str {
        self.hook.backend()
    }

    async fn create(
        &self,
        name: &str,
        tenant: &str,
        groups: &[String],
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        self.made(GROUPS, (name, tenant), json!({ "groups": groups }), stamp).await
    }

    async fn read(&self, name: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        Ok(self
            .told(&self.identity(GROUPS, name), Observer::Platform, stamp)
            .await?
            .map(ReportedThing::found))
    }

    async fn delete(&self, name: &str, found: &FoundObject, stamp: &CallMetadata) -> Result<(), ActionError> {
        TenantResources::remove(self, &self.identity(GROUPS, name), &found.uid, stamp).await
    }

    async fn publish(&self, name: &str, tenant: &str, stamp: &CallMetadata) -> Result<(), ActionError> {
        self.made(CREDENTIALS, (name, tenant), json!({}), stamp).await.map(drop)
    }

    async fn published(&self, name: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        Ok(self
            .told(&self.identity(CREDENTIALS, name), Observer::Platform, stamp)
            .await?
            .map(ReportedThing::found))
    }

    async fn revoke(&self, name: &str, found: &FoundObject, stamp: &CallMetadata) -> Result<(), ActionError> {
        TenantResources::remove(self, &self.identity(CREDENTIALS, name), &found.uid, stamp).await
    }
}
