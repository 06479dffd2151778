//! Delegations: a user votes for another for a limited time. A delegate cannot delegate further, because users delegate only their own roles.
//!
//! An ended delegation is kept, because votes refer to it, and because it excludes its delegate from requests of its delegator.

use crate::auth::{
    Caller, Role, User, UserKind, caller::person, collections::all, group::groups_of, provenance,
};
use engine::{ActionError, DAY, Engine, Entity, Error, Person, Provenance, Undecided, View, VoteDelegation};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::{ExecutionId, Key, Store, Timestamp};

/// The maximum duration of a delegation.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Lets `to` vote for `from`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delegation {
    /// The id.
    pub(crate) id: String,
    /// The delegator.
    pub(crate) from: String,
    /// The delegate.
    pub(crate) to: String,
    /// The roles and groups; empty for all that `from` has when a vote is cast.
    pub(crate) roles: Vec<String>,
    /// The start.
    pub(crate) since: Timestamp,
    /// The end, exclusive.
    pub(crate) until: Timestamp,
    /// The reason.
    pub(crate) reason: String,
    /// The tenant to which both are bound, if any.
    pub(crate) tenant: Option<String>,
    /// The creation time.
    pub(crate) created_at: Timestamp,
    /// The creator: `from`, or an admin.
    pub(crate) created_by: String,
    /// The user who ended it early, if any; `until` is then that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended_by: Option<String>,
}

impl Entity for Delegation {
    const COLLECTION: &'static str = "delegations";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.id.clone()
    }
}

impl Delegation {
    /// Returns `planned`, `in_force` or `over`.
    pub(crate) fn state(&self, now: Timestamp) -> &'static str {
        if now < self.since && self.since < self.until {
            "planned"
        } else if now < self.until {
            "in_force"
        } else {
            "over"
        }
    }

    /// Returns true if the delegation has not ended and matches the request.
    fn says(&self, new: &NewDelegation, now: Timestamp) -> bool {
        let since = match new.since {
            Some(since) if since > now => self.since == since,
            Some(_) | None => self.since <= now,
        };
        let sorted = |roles: &[String]| roles.iter().cloned().collect::<std::collections::BTreeSet<_>>();
        (&self.from, &self.to, self.until) == (&new.from, &new.to, new.until)
            && sorted(&self.roles) == sorted(&new.roles)
            && since
            && now < self.until
    }

    fn mandate(&self) -> VoteDelegation {
        VoteDelegation {
            id: self.id.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            roles: self.roles.clone(),
            since: self.since,
            until: self.until,
        }
    }
}

/// A new delegation.
#[derive(Clone, Debug)]
pub(crate) struct NewDelegation {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) roles: Vec<String>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Timestamp,
    pub(crate) reason: String,
}

fn invalid(why: String) -> Undecided {
    ActionError::permanent("delegation.invalid", why).into()
}

/// Stores a delegation.
///
/// # Errors
/// `delegation.invalid` with the name of the field, or an error of the store.
pub(crate) async fn add_delegation<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    new: NewDelegation,
    by: &str,
) -> Result<Delegation, Error> {
    let now = engine.clock().now();
    let id = ExecutionId::new(now, engine.clock().entropy()).to_string();
    let groups = groups_of(&**engine.store(), &new.from).await?;
    let groups: Vec<String> = groups.iter().map(super::group::Group::seat).collect();
    let before = all::<Delegation>(&**engine.store()).await?;
    let same = before.into_iter().find(|one| one.says(&new, now));
    engine
        .transact(true, |view| {
            let from = known(view, "from", &new.from)?;
            let to = known(view, "to", &new.to)?;
            check(&new, &from, &to, &groups, now)?;
            if let Some(same) = &same {
                let why = "already has this delegation";
                return Err(invalid(format!("to: {} {why} {}; nothing to do", new.to, same.id)));
            }
            let made = Delegation {
                id: id.clone(),
                from: new.from.clone(),
                to: new.to.clone(),
                roles: new.roles.clone(),
                since: new.since.unwrap_or(now),
                until: new.until,
                reason: new.reason.clone(),
                tenant: from.tenant,
                created_at: now,
                created_by: by.into(),
                ended_by: None,
            };
            view.put(&made)?;
            Ok(made)
        })
        .await
}

fn known(view: &mut View, field: &str, name: &str) -> Result<User, Undecided> {
    view.get::<User>(name)?.ok_or_else(|| invalid(format!("{field}: there is no user {name}")))
}

fn check(
    new: &NewDelegation,
    from: &User,
    to: &User,
    groups: &[String],
    now: Timestamp,
) -> Result<(), Undecided> {
    if from.name == to.name {
        return Err(invalid("to: a user cannot delegate to themselves; name another user".into()));
    }
    for (field, user) in [("from", from), ("to", to)] {
        if user.kind == UserKind::Service {
            let why = format!("{field}: {} is a service account, and cannot vote", user.name);
            return Err(invalid(why));
        }
    }
    if from.tenant != to.tenant {
        let why = "to: the delegate must be bound to the same tenant as the delegator, or to none like the delegator";
        return Err(invalid(why.into()));
    }
    if !to.roles.iter().any(|role| super::Verb::Decide.roles().contains(role)) {
        return Err(invalid(format!("to: {} has no role that votes; choose another user", to.name)));
    }
    let since = new.since.unwrap_or(now);
    if new.until <= since || new.until <= now {
        return Err(invalid("until: must be later than now and the start; use a later time".into()));
    }
    if new.until.since(since) > LONGEST {
        let days = LONGEST.as_secs() / DAY.as_secs();
        return Err(invalid(format!("until: a delegation lasts at most {days} days; use an earlier time")));
    }
    if new.reason.trim().is_empty() {
        return Err(invalid("reason: give a reason for the record".into()));
    }
    let held = person_of(from, groups);
    if let Some(role) = new.roles.iter().find(|role| !held.roles.contains(role)) {
        let why = format!("roles: {} does not have {role}; available: {}", from.name, held.roles.join(", "));
        return Err(invalid(why));
    }
    Ok(())
}

/// Ends a delegation now; returns `None` if `may` sees none.
///
/// # Errors
/// `delegation.not_yours` if `may_end` returns false, or an error of the store.
pub(crate) async fn end_delegation<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    id: &str,
    by: &Caller,
) -> Result<Option<Delegation>, Error> {
    let now = engine.clock().now();
    engine
        .transact(true, |view| {
            let found = view.get::<Delegation>(id)?;
            let seen = found.filter(|found| by.sees(found.tenant.as_deref().unwrap_or_default()));
            let Some(found) = seen else { return Ok(None) };
            if found.from != by.name && found.to != by.name && !by.roles.contains(&Role::Admin) {
                let why = format!("only {}, {} and admins may end it", found.from, found.to);
                return Err(ActionError::permanent("delegation.not_yours", why).into());
            }
            if found.until <= now {
                return Ok(Some(found));
            }
            let ended = Delegation { until: now, ended_by: Some(by.name.clone()), ..found };
            view.put(&ended)?;
            Ok(Some(ended))
        })
        .await
}

/// Returns the delegations to the users `names`, including ended ones: approvals also consider those of the past.
///
/// # Errors
/// An error of the store.
pub(crate) async fn delegations_to(
    store: &dyn Store,
    names: &[&str],
) -> Result<Vec<VoteDelegation>, store::Error> {
    let found = all::<Delegation>(store).await?;
    Ok(found.iter().filter(|one| names.contains(&one.to.as_str())).map(Delegation::mandate).collect())
}

/// Returns a user as a voter, with their roles and groups.
fn person_of(user: &User, groups: &[String]) -> Person {
    // A service account has no seat, whatever its roles are.
    let roles: &[Role] = if user.kind == UserKind::Service { &[] } else { &user.roles };
    let mut person = person(&user.name, roles, user.tenant.as_deref());
    if user.tenant.is_none() && user.kind == UserKind::Person {
        person.roles.extend(groups.iter().cloned());
    }
    person
}

/// Returns the user with this name as a voter; `None` if no such user is bound to the same tenant as `like`.
///
/// # Errors
/// An error of the store.
pub(crate) async fn voting_person(
    store: &dyn Store,
    name: &str,
    like: &Caller,
) -> Result<Option<Person>, store::Error> {
    let key = Key::new(User::COLLECTION, name);
    let Some(found) = store.document(&key).await? else { return Ok(None) };
    let corrupt = |e: serde_json::Error| store::Error::Corrupt { what: key.to_string(), why: e.to_string() };
    let user: User = serde_json::from_slice(&found.body).map_err(corrupt)?;
    if user.tenant != like.tenant {
        return Ok(None);
    }
    let groups = groups_of(store, name).await?;
    let mut provenance = if user.name == like.name {
        provenance::of_credential(name, &like.credential, &groups)
    } else {
        provenance::of_user(store, &user, &groups).await?
    };
    if user.name != like.name {
        provenance.granted_by.extend(appointed_by(store, name, &like.name).await?);
    }
    let groups: Vec<String> = groups.iter().map(super::group::Group::seat).collect();
    Ok(Some(person_of(&user, &groups).with_provenance(Some(Box::new(provenance)))))
}

/// Returns who created the delegations from `from` to `to`, other than `from`.
async fn appointed_by(store: &dyn Store, from: &str, to: &str) -> Result<Vec<String>, store::Error> {
    let found = all::<Delegation>(store).await?;
    let others = |one: &Delegation| one.from == from && one.to == to && one.created_by != from;
    Ok(found.into_iter().filter(others).map(|one| one.created_by).collect())
}

/// Returns the provenance of these users' credentials. Nothing is known of removed users.
///
/// # Errors
/// An error of the store.
pub(crate) async fn parties(
    store: &dyn Store,
    names: &BTreeSet<String>,
) -> Result<BTreeMap<String, Provenance>, store::Error> {
    let mut known = BTreeMap::new();
    for name in names {
        let key = Key::new(User::COLLECTION, name);
        let Some(found) = store.document(&key).await? else { continue };
        let corrupt =
            |e: serde_json::Error| store::Error::Corrupt { what: key.to_string(), why: e.to_string() };
        let user: User = serde_json::from_slice(&found.body).map_err(corrupt)?;
        known.insert(name.clone(), provenance::of_user(store, &user, &[]).await?);
    }
    Ok(known)
}
