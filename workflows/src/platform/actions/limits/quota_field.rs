//! One line of one object of a platform that says what may be used: found, compared, set.

use crate::platform::{
    FlavorQuota, Found, Kind, LimitNames, Limits, Made, Place, Platform, Restored, Stamp, Swap,
    actions::kubernetes::queues::group, codes, flavor_name, tenant_name, workspace_name,
};
use engine::ActionError;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(in crate::platform) async fn change(
    on: &Platform,
    of: &LimitNames,
    line: Option<Line>,
    (from, to): (Value, Value),
    stamp: &Stamp,
) -> Result<Made, ActionError> {
    let none = || Made { name: String::new(), uid: String::new() };
    let Some(line) = line else { return Ok(none()) };
    let Some(found) = line.standing(on, &of.tenant, stamp).await? else { return Ok(none()) };
    let made = Made { name: line.name(), uid: found.uid.clone() };
    let now = line.of(&found.spec);
    if now == to {
        return Ok(made);
    }
    if now != from {
        let why = format!("{} says {now}, and {from} was read before the change to {to}", made.name);
        return Err(ActionError::permanent(codes::QUOTA_DRIFTED, why));
    }
    line.set(on, &of.tenant, &found, to, stamp).await?;
    Ok(made)
}

pub(in crate::platform) async fn restore(
    on: &Platform,
    of: &LimitNames,
    line: Option<Line>,
    (from, to): (Value, Value),
    stamp: &Stamp,
) -> Result<Restored, ActionError> {
    let Some(line) = line else { return Ok(Restored::Before) };
    let Some(found) = line.look(on, stamp).await? else { return Ok(Restored::Left { now: Value::Null }) };
    let now = line.of(&found.spec);
    if now == from {
        return Ok(Restored::Before);
    }
    if now != to || found.tenant != of.tenant {
        tracing::warn!(limit = line.name(), %now, %to, "a limit was changed by others since: it was left as it is");
        return Ok(Restored::Left { now });
    }
    line.set(on, &of.tenant, &found, from, stamp).await?;
    Ok(Restored::Before)
}

/// The field of a limit range that follows the hard limits.
const RANGE: &str = "max";

/// One line of one object.
pub(in crate::platform) struct Line {
    pub(in crate::platform) at: At,
    /// The field of the object's spec that holds it.
    pub(in crate::platform) field: &'static str,
    /// The way to it from there.
    pub(in crate::platform) path: Path,
}

pub(in crate::platform) enum At {
    Object(Place),
    Account { cluster: String, name: String },
}

pub(in crate::platform) enum Path {
    Key(String),
    Inner(String, String),
    Flavor(String),
    /// The field itself.
    Whole,
}

impl Line {
    /// Every layer that counts the resource, parent before child.
    pub(in crate::platform) fn all(of: &LimitNames) -> Result<Vec<Self>, ActionError> {
        let lines =
            [Self::cohort(of)?, Self::queue(of)?, Self::hard(of)?, Self::range(of)?, Self::association(of)?];
        Ok(lines.into_iter().flatten().collect())
    }

    pub(in crate::platform) fn cohort(of: &LimitNames) -> Result<Option<Self>, ActionError> {
        let Some(key) = &of.cohort else { return Ok(None) };
        let place = Place::new(&of.cluster, Kind::Cohort, &tenant_name(&of.tenant)?);
        Ok(Some(Self { at: At::Object(place), field: "quotas", path: Path::Key(key.clone()) }))
    }

    pub(in crate::platform) fn queue(of: &LimitNames) -> Result<Option<Self>, ActionError> {
        let Some(model) = &of.queue else { return Ok(None) };
        let place = Place::new(&of.cluster, Kind::ClusterQueue, &workspace_name(&of.tenant, &of.workspace)?);
        let flavor = flavor_name(&of.tenant, model)?;
        Ok(Some(Self { at: At::Object(place), field: "resourceGroups", path: Path::Flavor(flavor) }))
    }

    pub(in crate::platform) fn hard(of: &LimitNames) -> Result<Option<Self>, ActionError> {
        let Some(key) = &of.hard else { return Ok(None) };
        let namespace = workspace_name(&of.tenant, &of.workspace)?;
        let place = Place::within(
            &of.cluster,
            Kind::ResourceQuota,
            &namespace,
            crate::platform::actions::kubernetes::resource_quota::NAME,
        );
        Ok(Some(Self { at: At::Object(place), field: "hard", path: Path::Key(key.clone()) }))
    }

    /// How large a container may be: as large as the hard limit of the same resource, where it is one that containers ask for.
    pub(in crate::platform) fn range(of: &LimitNames) -> Result<Option<Self>, ActionError> {
        let Some(key) =
            of.hard.as_deref().and_then(crate::platform::actions::kubernetes::resource_quota::of_containers)
        else {
            return Ok(None);
        };
        let namespace = workspace_name(&of.tenant, &of.workspace)?;
        let place = Place::within(
            &of.cluster,
            Kind::LimitRange,
            &namespace,
            crate::platform::actions::kubernetes::resource_quota::NAME,
        );
        Ok(Some(Self { at: At::Object(place), field: RANGE, path: Path::Key(key.to_owned()) }))
    }

    pub(in crate::platform) fn association(of: &LimitNames) -> Result<Option<Self>, ActionError> {
        let Some(key) = &of.association else { return Ok(None) };
        let at = At::Account { cluster: of.cluster.clone(), name: tenant_name(&of.tenant)? };
        Ok(Some(Self { at, field: "associations", path: Path::Inner(of.workspace.clone(), key.clone()) }))
    }

    pub(in crate::platform) fn name(&self) -> String {
        let object = match &self.at {
            At::Object(place) => format!("{} {}", <&str>::from(place.kind), place.full_name()),
            At::Account { name, .. } => format!("Account {name}"),
        };
        match &self.path {
            Path::Key(key) | Path::Flavor(key) => format!("{object}: {key}"),
            Path::Inner(outer, key) => format!("{object}: {outer} {key}"),
            Path::Whole => format!("{object}: {}", self.field),
        }
    }

    async fn look(&self, on: &Platform, stamp: &Stamp) -> Result<Option<Found>, ActionError> {
        match &self.at {
            At::Object(place) => on.kubernetes.read(place, stamp).await,
            At::Account { cluster, name } => on.slurm.account(cluster, name, stamp).await,
        }
    }

    /// The tenant's object; nothing where there is none and there need not be: workspaces may have no limit range.
    pub(in crate::platform) async fn standing(
        &self,
        on: &Platform,
        tenant: &str,
        stamp: &Stamp,
    ) -> Result<Option<Found>, ActionError> {
        if self.field == RANGE && self.look(on, stamp).await?.is_none() {
            return Ok(None);
        }
        self.found(on, tenant, stamp).await.map(Some)
    }

    /// The tenant's object.
    async fn found(&self, on: &Platform, tenant: &str, stamp: &Stamp) -> Result<Found, ActionError> {
        let Some(found) = self.look(on, stamp).await? else {
            return Err(ActionError::permanent(
                codes::OBJECT_MISSING,
                format!("there is no {}", self.name()),
            ));
        };
        if found.tenant != tenant {
            let why = format!("{} is of {:?}", self.name(), found.tenant);
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        Ok(found)
    }

    /// What the line says in this spec; null when it is not there.
    pub(in crate::platform) fn of(&self, spec: &Value) -> Value {
        let field = spec.get(self.field);
        let line = match &self.path {
            Path::Key(key) => field.and_then(|field| field.get(key)),
            Path::Inner(outer, key) => field.and_then(|field| field.get(outer)?.get(key)),
            Path::Flavor(flavor) => field.and_then(Value::as_array).and_then(|all| entry_of(all, flavor)),
            Path::Whole => field,
        };
        line.cloned().unwrap_or(Value::Null)
    }

    pub(in crate::platform) fn wanted(&self, limits: &Limits) -> Value {
        match (&self.path, self.field) {
            (Path::Flavor(flavor), _) => {
                limits.queue.as_ref().map_or(Value::Null, |quota| group(flavor, quota))
            }
            (Path::Inner(..), _) => json!(limits.association),
            (Path::Whole, _) => Value::Null,
            (Path::Key(_), "hard" | RANGE) => json!(limits.hard),
            (Path::Key(_), _) => json!(limits.cohort),
        }
    }

    pub(in crate::platform) async fn set(
        &self,
        on: &Platform,
        tenant: &str,
        found: &Found,
        to: Value,
        stamp: &Stamp,
    ) -> Result<(), ActionError> {
        let from = found.spec.get(self.field).cloned().unwrap_or(Value::Null);
        let swap = Swap { field: self.field.to_owned(), to: self.with(from.clone(), to), from };
        match &self.at {
            At::Object(place) => on.kubernetes.swap(place, tenant, &swap, stamp).await.map(drop),
            At::Account { cluster, name } => {
                on.slurm.swap(cluster, name, tenant, &swap, stamp).await.map(drop)
            }
        }
    }

    /// The field with the line set to `to`; a field without lines is null.
    fn with(&self, field: Value, to: Value) -> Value {
        match &self.path {
            Path::Key(key) => keyed(field, key, to),
            Path::Inner(outer, key) => {
                let inner = field.get(outer).cloned().unwrap_or(Value::Null);
                keyed(field, outer, keyed(inner, key, to))
            }
            Path::Flavor(flavor) => {
                let mut all = if let Value::Array(all) = field { all } else { Vec::new() };
                match all.iter_mut().find(|group| is_of(group, flavor)) {
                    Some(group) if !to.is_null() => *group = to,
                    None if !to.is_null() => all.push(to),
                    Some(_) | None => all.retain(|group| !is_of(group, flavor)),
                }
                Value::Array(all)
            }
            Path::Whole => to,
        }
    }
}

impl Limits {
    pub(in crate::platform) fn note(
        &mut self,
        line: &Line,
        of: &LimitNames,
        said: Value,
    ) -> Result<(), ActionError> {
        let unreadable = |e| ActionError::permanent(codes::UNREADABLE, format!("{}: {e}", line.name()));
        let number = || serde_json::from_value::<Option<u64>>(said.clone()).map_err(unreadable);
        match (&line.path, line.field) {
            (Path::Flavor(_), _) if said.is_null() => {}
            (Path::Flavor(_), _) => {
                let said: Group = serde_json::from_value(said).map_err(unreadable)?;
                self.queue = Some(FlavorQuota {
                    model: of.queue.clone().unwrap_or_default(),
                    nominal: said.nominal,
                    borrowing_limit: said.borrowing_limit,
                    lending_limit: said.lending_limit,
                });
            }
            (Path::Whole, _) | (Path::Key(_), RANGE) => {}
            (Path::Inner(..), _) => self.association = number()?,
            (Path::Key(_), "hard") => self.hard = number()?,
            (Path::Key(_), _) => self.cohort = number()?,
        }
        Ok(())
    }
}

/// A flavor's part of a queue, as the queue says it.
#[derive(Deserialize)]
struct Group {
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
