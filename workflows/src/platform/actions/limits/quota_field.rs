//! One limit in one object of a platform: finds, compares and sets it.

use crate::platform::{
    CallMetadata, CreatedObject, FieldSwap, FlavorQuota, FoundObject, LayerLimits, LimitNames, LimitRestored,
    ObjectKind, ObjectRef, Platform, actions::kubernetes::queues::group, codes, flavor_name, tenant_name,
    workspace_name,
};
use engine::ActionError;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(in crate::platform) async fn change(
    on: &Platform,
    of: &LimitNames,
    line: Option<QuotaField>,
    (from, to): (Value, Value),
    stamp: &CallMetadata,
) -> Result<CreatedObject, ActionError> {
    let none = || CreatedObject { name: String::new(), uid: String::new() };
    let Some(line) = line else { return Ok(none()) };
    let Some(found) = line.read_owned(on, &of.tenant, stamp).await? else { return Ok(none()) };
    let made = CreatedObject { name: line.name(), uid: found.uid.clone() };
    let now = line.value_in(&found.spec);
    if now == to {
        return Ok(made);
    }
    if now != from {
        let why = format!("{} is {now}, but was {from} before the change to {to}", made.name);
        return Err(ActionError::permanent(codes::QUOTA_DRIFTED, why));
    }
    line.set(on, &of.tenant, &found, to, stamp).await?;
    Ok(made)
}

pub(in crate::platform) async fn restore(
    on: &Platform,
    of: &LimitNames,
    line: Option<QuotaField>,
    (from, to): (Value, Value),
    stamp: &CallMetadata,
) -> Result<LimitRestored, ActionError> {
    let Some(line) = line else { return Ok(LimitRestored::Before) };
    let Some(found) = line.read_object(on, stamp).await? else {
        return Ok(LimitRestored::Left { now: Value::Null });
    };
    let now = line.value_in(&found.spec);
    if now == from {
        return Ok(LimitRestored::Before);
    }
    if now != to || found.tenant != of.tenant {
        tracing::warn!(limit = line.name(), %now, %to, "the limit was changed by another client since, so it was not changed");
        return Ok(LimitRestored::Left { now });
    }
    line.set(on, &of.tenant, &found, from, stamp).await?;
    Ok(LimitRestored::Before)
}

/// The field of a limit range that follows the hard limits.
const RANGE: &str = "max";

/// One value in one object.
pub(in crate::platform) struct QuotaField {
    pub(in crate::platform) at: FieldOwner,
    /// The field of the object's spec that holds it.
    pub(in crate::platform) field: &'static str,
    /// The path to the value within that field.
    pub(in crate::platform) path: FieldPath,
}

pub(in crate::platform) enum FieldOwner {
    Object(ObjectRef),
    Account { cluster: String, name: String },
}

pub(in crate::platform) enum FieldPath {
    Key(String),
    Inner(String, String),
    Flavor(String),
    /// The field itself.
    Whole,
}

impl QuotaField {
    /// Returns the field of every layer that counts the resource, parent before child.
    pub(in crate::platform) fn all(of: &LimitNames) -> Result<Vec<Self>, ActionError> {
        let lines =
            [Self::cohort(of)?, Self::queue(of)?, Self::hard(of)?, Self::range(of)?, Self::association(of)?];
        Ok(lines.into_iter().flatten().collect())
    }

    pub(in crate::platform) fn cohort(of: &LimitNames) -> Result<Option<Self>, ActionError> {
        let Some(key) = &of.cohort else { return Ok(None) };
        let place = ObjectRef::new(&of.cluster, ObjectKind::Cohort, &tenant_name(&of.tenant)?);
        Ok(Some(Self { at: FieldOwner::Object(place), field: "quotas", path: FieldPath::Key(key.clone()) }))
    }

    pub(in crate::platform) fn queue(of: &LimitNames) -> Result<Option<Self>, ActionError> {
        let Some(model) = &of.queue else { return Ok(None) };
        let place = ObjectRef::new(
            &of.cluster,
            ObjectKind::ClusterQueue,
            &workspace_name(&of.tenant, &of.workspace)?,
        );
        let flavor = flavor_name(&of.tenant, model)?;
        Ok(Some(Self {
            at: FieldOwner::Object(place),
            field: "resourceGroups",
            path: FieldPath::Flavor(flavor),
        }))
    }

    pub(in crate::platform) fn hard(of: &LimitNames) -> Result<Option<Self>, ActionError> {
        let Some(key) = &of.hard else { return Ok(None) };
        let namespace = workspace_name(&of.tenant, &of.workspace)?;
        let place = ObjectRef::within(
            &of.cluster,
            ObjectKind::ResourceQuota,
            &namespace,
            crate::platform::actions::kubernetes::resource_quota::NAME,
        );
        Ok(Some(Self { at: FieldOwner::Object(place), field: "hard", path: FieldPath::Key(key.clone()) }))
    }

    /// Returns the container maximum that follows a hard limit, if containers request that resource.
    pub(in crate::platform) fn range(of: &LimitNames) -> Result<Option<Self>, ActionError> {
        let Some(key) =
            of.hard.as_deref().and_then(crate::platform::actions::kubernetes::resource_quota::of_containers)
        else {
            return Ok(None);
        };
        let namespace = workspace_name(&of.tenant, &of.workspace)?;
        let place = ObjectRef::within(
            &of.cluster,
            ObjectKind::LimitRange,
            &namespace,
            crate::platform::actions::kubernetes::resource_quota::NAME,
        );
        Ok(Some(Self { at: FieldOwner::Object(place), field: RANGE, path: FieldPath::Key(key.to_owned()) }))
    }

    pub(in crate::platform) fn association(of: &LimitNames) -> Result<Option<Self>, ActionError> {
        let Some(key) = &of.association else { return Ok(None) };
        let at = FieldOwner::Account { cluster: of.cluster.clone(), name: tenant_name(&of.tenant)? };
        Ok(Some(Self {
            at,
            field: "associations",
            path: FieldPath::Inner(of.workspace.clone(), key.clone()),
        }))
    }

    pub(in crate::platform) fn name(&self) -> String {
        let object = match &self.at {
            FieldOwner::Object(place) => format!("{} {}", <&str>::from(place.kind), place.full_name()),
            FieldOwner::Account { name, .. } => format!("Account {name}"),
        };
        match &self.path {
            FieldPath::Key(key) | FieldPath::Flavor(key) => format!("{object}: {key}"),
            FieldPath::Inner(outer, key) => format!("{object}: {outer} {key}"),
            FieldPath::Whole => format!("{object}: {}", self.field),
        }
    }

    async fn read_object(
        &self,
        on: &Platform,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        match &self.at {
            FieldOwner::Object(place) => on.kubernetes.read(place, stamp).await,
            FieldOwner::Account { cluster, name } => on.slurm.account(cluster, name, stamp).await,
        }
    }

    /// Returns the tenant's object. Returns `None` for a missing limit range, which is optional.
    pub(in crate::platform) async fn read_owned(
        &self,
        on: &Platform,
        tenant: &str,
        stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        if self.field == RANGE && self.read_object(on, stamp).await?.is_none() {
            return Ok(None);
        }
        self.found(on, tenant, stamp).await.map(Some)
    }

    /// Returns the tenant's object.
    async fn found(
        &self,
        on: &Platform,
        tenant: &str,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let Some(found) = self.read_object(on, stamp).await? else {
            return Err(ActionError::permanent(
                codes::OBJECT_MISSING,
                format!("{} does not exist", self.name()),
            ));
        };
        if found.tenant != tenant {
            let why = format!("{} is of {:?}", self.name(), found.tenant);
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        Ok(found)
    }

    /// Returns the value in this spec, or null if it is missing.
    pub(in crate::platform) fn value_in(&self, spec: &Value) -> Value {
        let field = spec.get(self.field);
        let line = match &self.path {
            FieldPath::Key(key) => field.and_then(|field| field.get(key)),
            FieldPath::Inner(outer, key) => field.and_then(|field| field.get(outer)?.get(key)),
            FieldPath::Flavor(flavor) => {
                field.and_then(Value::as_array).and_then(|all| entry_of(all, flavor))
            }
            FieldPath::Whole => field,
        };
        line.cloned().unwrap_or(Value::Null)
    }

    pub(in crate::platform) fn desired_value(&self, limits: &LayerLimits) -> Value {
        match (&self.path, self.field) {
            (FieldPath::Flavor(flavor), _) => {
                limits.queue.as_ref().map_or(Value::Null, |quota| group(flavor, quota))
            }
            (FieldPath::Inner(..), _) => json!(limits.association),
            (FieldPath::Whole, _) => Value::Null,
            (FieldPath::Key(_), "hard" | RANGE) => json!(limits.hard),
            (FieldPath::Key(_), _) => json!(limits.cohort),
        }
    }

    pub(in crate::platform) async fn set(
        &self,
        on: &Platform,
        tenant: &str,
        found: &FoundObject,
        to: Value,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let from = found.spec.get(self.field).cloned().unwrap_or(Value::Null);
        let swap = FieldSwap { field: self.field.to_owned(), to: self.with_value(from.clone(), to), from };
        match &self.at {
            FieldOwner::Object(place) => {
                on.kubernetes.compare_and_set(place, tenant, &swap, stamp).await.map(drop)
            }
            FieldOwner::Account { cluster, name } => {
                on.slurm.compare_and_set(cluster, name, tenant, &swap, stamp).await.map(drop)
            }
        }
    }

    /// Returns the field with the value set to `to`. A field without values becomes null.
    fn with_value(&self, field: Value, to: Value) -> Value {
        match &self.path {
            FieldPath::Key(key) => keyed(field, key, to),
            FieldPath::Inner(outer, key) => {
                let inner = field.get(outer).cloned().unwrap_or(Value::Null);
                keyed(field, outer, keyed(inner, key, to))
            }
            FieldPath::Flavor(flavor) => {
                let mut all = if let Value::Array(all) = field { all } else { Vec::new() };
                match all.iter_mut().find(|group| is_of(group, flavor)) {
                    Some(group) if !to.is_null() => *group = to,
                    None if !to.is_null() => all.push(to),
                    Some(_) | None => all.retain(|group| !is_of(group, flavor)),
                }
                Value::Array(all)
            }
            FieldPath::Whole => to,
        }
    }
}

impl LayerLimits {
    pub(in crate::platform) fn note(
        &mut self,
        line: &QuotaField,
        of: &LimitNames,
        said: Value,
    ) -> Result<(), ActionError> {
        let unreadable = |e| ActionError::permanent(codes::UNREADABLE, format!("{}: {e}", line.name()));
        let number = || serde_json::from_value::<Option<u64>>(said.clone()).map_err(unreadable);
        match (&line.path, line.field) {
            (FieldPath::Flavor(_), _) if said.is_null() => {}
            (FieldPath::Flavor(_), _) => {
                let said: FlavorGroup = serde_json::from_value(said).map_err(unreadable)?;
                self.queue = Some(FlavorQuota {
                    model: of.queue.clone().unwrap_or_default(),
                    profile: said.profile,
                    nominal: said.nominal,
                    borrowing_limit: said.borrowing_limit,
                    lending_limit: said.lending_limit,
                });
            }
            (FieldPath::Whole, _) | (FieldPath::Key(_), RANGE) => {}
            (FieldPath::Inner(..), _) => self.association = number()?,
            (FieldPath::Key(_), "hard") => self.hard = number()?,
            (FieldPath::Key(_), _) => self.cohort = number()?,
        }
        Ok(())
    }
}

/// The part of a queue's spec for one flavor.
#[derive(Deserialize)]
struct FlavorGroup {
    #[serde(rename = "sliceProfile", default)]
    profile: Option<String>,
    #[serde(rename = "nominalQuota")]
    nominal: u64,
    #[serde(rename = "borrowingLimit")]
    borrowing_limit: Option<u64>,
    #[serde(rename = "lendingLimit")]
    lending_limit: Option<u64>,
}

pub(in crate::platform) fn entry(of: &LimitNames, quota: Option<&FlavorQuota>) -> Result<Value, ActionError> {
    let (Some(model), Some(quota)) = (&of.queue, quota) else { return Ok(Value::Null) };
    Ok(group(&flavor_name(&of.tenant, model)?, quota))
}

fn entry_of<'a>(all: &'a [Value], flavor: &str) -> Option<&'a Value> {
    all.iter().find(|group| is_of(group, flavor))
}

fn is_of(group: &Value, flavor: &str) -> bool {
    group.get("flavor").and_then(Value::as_str) == Some(flavor)
}

fn keyed(field: Value, key: &str, to: Value) -> Value {
    let mut map = if let Value::Object(map) = field { map } else { Map::new() };
    match to {
        Value::Null => drop(map.remove(key)),
        to => drop(map.insert(key.to_owned(), to)),
    }
    if map.is_empty() { Value::Null } else { Value::Object(map) }
}
