//! Groups of users, as documents: a seat of an approval may be for the members of one.

use super::{User, UserKind};
use engine::{ActionError, CredentialAct, Engine, Entity, Error, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use store::{Store, Timestamp};

/// The most members of a group.
const MOST_MEMBERS: usize = 200;

/// Users who may take each other's place in approvals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    /// Its name; seats name it `group:NAME`.
    pub(crate) name: String,
    /// Who belongs to it.
    pub(crate) members: BTreeSet<String>,
    /// Who put each of them there; absent of those who joined before that was written down.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) joined: BTreeMap<String, CredentialAct>,
    /// When it was made.
    pub(crate) created_at: Timestamp,
    /// By whom.
    pub(crate) created_by: String,
}

impl Entity for Group {
    const COLLECTION: &'static str = "groups";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.name.clone()
    }
}

impl Group {
    /// How seats name it.
    pub(crate) fn seat(&self) -> String {
        format!("group:{}", self.name)
    }
}

fn invalid(why: String) -> ActionError {
    ActionError::permanent("group.invalid", why)
}

fn check_name(name: &str) -> Result<(), ActionError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
        return Err(invalid("name: use 1 to 64 lower-case letters, digits and '-'".into()));
    }
    Ok(())
}

/// Whether `name` may belong to a group: there is such a user, who works for the platform.
fn check_member(view: &mut View, name: &str) -> Result<(), Undecided> {
    match view.get::<User>(name)? {
        None => Err(invalid(format!("members: there is no user {name}; add the user first")).into()),
        Some(User { tenant: Some(tenant), .. }) => Err(invalid(format!(
            "members: {name} is bound to tenant {tenant}, and groups sit for the platform; leave them out"
        ))
        .into()),
        Some(User { kind: UserKind::Service, .. }) => Err(invalid(format!(
            "members: {name} is a service, and groups sit where people decide; leave it out"
        ))
        .into()),
        Some(_) => Ok(()),
    }
}

/// Makes a group.
///
/// # Errors
/// `group.exists`, `group.invalid`, or the store's.
pub(crate) async fn add_group<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    name: &str,
    members: BTreeSet<String>,
    by: &CredentialAct,
) -> Result<Group, Error> {
    check_name(name).map_err(Error::Undecided)?;
    if members.len() > MOST_MEMBERS {
        return Err(Error::Undecided(invalid(format!("members: at most {MOST_MEMBERS}"))));
    }
    let joined = members.iter().map(|name| (name.clone(), by.clone())).collect();
    let group = Group { name: name.into(), members, joined, created_at: by.at, created_by: by.by.clone() };
    let attempt = |view: &mut View| {
        if view.get::<Group>(&group.name)?.is_some() {
            let why = format!("there is a group {} already", group.name);
            return Err(ActionError::permanent("group.exists", why).into());
        }
        group.members.iter().try_for_each(|name| check_member(view, name))?;
        view.put(&group)
    };
    engine.transact(true, attempt).await?;
    Ok(group)
}

/// Puts `user` into the group, or takes them out; doing it twice is doing it once. `None` when there is no such group.
///
/// # Errors
/// `group.invalid`, or the store's.
pub(crate) async fn change_group<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    name: &str,
    (user, joins): (&str, bool),
    by: &CredentialAct,
) -> Result<Option<Group>, Error> {
    engine
        .transact(true, |view| {
            let Some(mut group) = view.get::<Group>(name)? else { return Ok(None) };
            if joins {
                check_member(view, user)?;
                if group.members.insert(user.to_owned()) {
                    group.joined.insert(user.to_owned(), by.clone());
                }
                if group.members.len() > MOST_MEMBERS {
                    return Err(invalid(format!("members: at most {MOST_MEMBERS}")).into());
                }
            } else {
                group.members.remove(user);
                group.joined.remove(user);
            }
            view.put(&group)?;
            Ok(Some(group))
        })
        .await
}

/// Removes a group, and says whether there was one. Seats that name it stay empty from then on.
///
/// # Errors
/// The store's.
pub(crate) async fn remove_group<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    name: &str,
) -> Result<bool, Error> {
    engine
        .transact(true, |view| {
            let there = view.get::<Group>(name)?.is_some();
            if there {
                view.delete::<Group>(name)?;
            }
            Ok(there)
        })
        .await
}

/// Every group that `user` belongs to.
///
/// # Errors
/// The store's.
pub(crate) async fn groups_of(store: &dyn Store, user: &str) -> Result<Vec<Group>, store::Error> {
    let mut found = crate::auth::collections::all::<Group>(store).await?;
    found.retain(|group| group.members.contains(user));
    Ok(found)
}
