//! Groups of users, stored as documents. Seats of approvals can name a group.

use super::{User, UserKind};
use engine::{ActionError, CredentialAct, Engine, Entity, Error, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use store::{Store, Timestamp};

/// The maximum number of members.
const MOST_MEMBERS: usize = 200;

/// Users who can replace each other in approvals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    /// The name; seats refer to it as `group:NAME`.
    pub(crate) name: String,
    /// The members.
    pub(crate) members: BTreeSet<String>,
    /// The user who added each member; absent for members without a record of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) joined: BTreeMap<String, CredentialAct>,
    /// The creation time.
    pub(crate) created_at: Timestamp,
    /// The creator.
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
    /// Returns the name in seats.
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

/// Rejects a member who is not a user of the operator.
fn check_member(view: &mut View, name: &str) -> Result<(), Undecided> {
    match view.get::<User>(name)? {
        None => Err(invalid(format!("members: there is no user {name}; add the user first")).into()),
        Some(User { tenant: Some(tenant), .. }) => Err(invalid(format!(
            "members: {name} is bound to tenant {tenant}, but groups vote for the platform; remove this member"
        ))
        .into()),
        Some(User { kind: UserKind::Service, .. }) => Err(invalid(format!(
            "members: {name} is a service account, which cannot vote; remove it"
        ))
        .into()),
        Some(_) => Ok(()),
    }
}

/// Creates a group.
///
/// # Errors
/// `group.exists`, `group.invalid`, or an error of the store.
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
            let why = format!("group {} already exists", group.name);
            return Err(ActionError::permanent("group.exists", why).into());
        }
        group.members.iter().try_for_each(|name| check_member(view, name))?;
        view.put(&group)
    };
    engine.transact(true, attempt).await?;
    Ok(group)
}

/// Adds or removes `user`; a repetition changes nothing. Returns `None` if there is no such group.
///
/// # Errors
/// `group.invalid`, or an error of the store.
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

/// Removes a group; returns true if it existed. Seats that name it stay empty.
///
/// # Errors
/// An error of the store.
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

/// Returns the groups of `user`.
///
/// # Errors
/// An error of the store.
pub(crate) async fn groups_of(store: &dyn Store, user: &str) -> Result<Vec<Group>, store::Error> {
    let mut found = crate::auth::collections::all::<Group>(store).await?;
    found.retain(|group| group.members.contains(user));
    Ok(found)
}
