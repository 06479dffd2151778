//! Users, stored as documents.

use crate::auth::{
    Delegation, Group, Role,
    provenance::FIRST_START,
    stored_token::{NewToken, StoredToken, ends},
};
use engine::{ActionError, CredentialAct, Engine, Entity, Error, RemovedUser, Undecided, View};
use program::token::Token;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};
use store::Timestamp;

/// The name of the first administrator.
pub(super) const ADMIN: &str = "admin";

/// The type of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum UserKind {
    /// A person.
    #[default]
    Person,
    /// A program, with the permissions of its roles. It cannot vote on approvals.
    Service,
}

/// A user of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    /// The name, unique in the service.
    pub(crate) name: String,
    /// The roles.
    pub(crate) roles: Vec<Role>,
    /// The tenant to which the user is bound; `None` for all tenants.
    pub(crate) tenant: Option<String>,
    /// The type; users from before service accounts existed count as persons.
    #[serde(default)]
    pub(crate) kind: UserKind,
    /// The id of the first token; empty for users of an identity provider, or after its removal.
    pub(crate) token: String,
    /// The ids of further tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tokens: Vec<String>,
    /// The creation time.
    pub(crate) created_at: Timestamp,
    /// The creator.
    pub(crate) created_by: String,
    /// The persons who control the creator's credential; absent for users of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) controlled_by: Option<BTreeSet<String>>,
    /// The last time that the user claimed a credential with a one-time code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) claimed_at: Option<Timestamp>,
    /// The id of the valid one-time code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) enrolment: Option<String>,
}

impl User {
    /// Returns the ids of all tokens.
    pub(super) fn all_tokens(&self) -> impl Iterator<Item = &String> {
        [&self.token].into_iter().filter(|id| !id.is_empty()).chain(&self.tokens)
    }

    /// Returns true if the token with this id belongs to the user.
    pub(super) fn holds(&self, token: &str) -> bool {
        self.all_tokens().any(|id| id == token)
    }
}

impl Entity for User {
    const COLLECTION: &'static str = "users";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.name.clone()
    }
}

/// A new user.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewUser {
    /// The name: 1 to 64 letters, digits, `.`, `-`, `_` and `@`.
    pub(crate) name: String,
    /// The roles; at least one.
    pub(crate) roles: Vec<Role>,
    /// The tenant to which the user is bound.
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    /// The type: a person, who may vote on approvals, or a service account, which may not.
    #[serde(default)]
    pub(crate) kind: UserKind,
    /// The expiry of the token: a duration (`P90D`, `90d`) or a time; never if absent.
    #[serde(default)]
    pub(crate) expires: Option<String>,
}

/// Adds a user, and creates their first token.
///
/// # Errors
/// `user.exists`, `user.invalid`, or an error of the store.
pub(crate) async fn add_user<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    new: NewUser,
    by: &CredentialAct,
) -> Result<(User, Token), Error> {
    check(&new).map_err(Error::Undecided)?;
    let alike = crate::auth::collections::all::<User>(&**engine.store()).await?;
    let alike = alike.iter().find(|user| user.name != new.name && user.name.eq_ignore_ascii_case(&new.name));
    if let Some(other) = alike {
        let why =
            format!("name: {} differs only by case from the user {}; choose another", new.name, other.name);
        return Err(Error::Undecided(ActionError::permanent("user.invalid", why)));
    }
    let (token, now) = (generate_token()?, engine.clock().now());
    let ends_at = ends(new.expires.as_deref(), now).map_err(Error::Undecided)?;
    let kept = StoredToken::new(&token, &new.name, NewToken::FIRST, by).ending(ends_at);
    let user = User {
        name: new.name,
        roles: new.roles,
        tenant: new.tenant,
        kind: new.kind,
        token: token.id.clone(),
        tokens: Vec::new(),
        created_at: now,
        created_by: by.by.clone(),
        controlled_by: by.controlled_by.clone(),
        claimed_at: None,
        enrolment: None,
    };
    engine
        .transact(true, |view| {
            if view.get::<User>(&user.name)?.is_some() {
                let why = format!("user {} already exists", user.name);
                return Err(ActionError::permanent("user.exists", why).into());
            }
            view.put(&kept)?;
            view.put(&user)
        })
        .await?;
    Ok((user, token))
}

/// Removes a user with their tokens; succeeds if there is no such user.
///
/// # Errors
/// `user.is_admin` for the first user, or an error of the store.
pub(crate) async fn remove_user<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    name: &str,
    offers_oidc: bool,
) -> Result<bool, Error> {
    if name == ADMIN {
        let why = "the first admin cannot be removed; empty the file admin.token and restart the server to replace the token";
        return Err(Error::Undecided(ActionError::permanent("user.is_admin", why)));
    }
    if super::bootstrap::is_last_administrator(&**engine.store(), name, offers_oidc).await? {
        let why = format!(
            "{name} is the last administrator: first give another administrator their own credential"
        );
        return Err(Error::Undecided(ActionError::permanent("user.is_admin", why)));
    }
    // A later user with the same name must not inherit seats or delegations.
    let groups = super::groups_of(&**engine.store(), name).await?;
    let delegations = crate::auth::collections::all::<Delegation>(&**engine.store()).await?;
    let now = engine.clock().now();
    let open = |one: &&Delegation| one.until > now && (one.from == name || one.to == name);
    engine
        .transact(true, |view| {
            let Some(user) = view.get::<User>(name)? else { return Ok(false) };
            for group in &groups {
                if let Some(mut group) = view.get::<Group>(&group.name)? {
                    group.members.remove(name);
                    group.joined.remove(name);
                    view.put(&group)?;
                }
            }
            for one in delegations.iter().filter(open) {
                if let Some(one) = view.get::<Delegation>(&one.id)? {
                    view.put(&Delegation {
                        until: now,
                        ended_by: Some("the user was removed".into()),
                        ..one
                    })?;
                }
            }
            forget_tokens(view, &user)?;
            // The user's sessions become invalid.
            view.delete::<User>(name)?;
            let before = view.get::<RemovedUser>(name)?;
            let before =
                before.unwrap_or_else(|| RemovedUser { name: name.into(), ..RemovedUser::default() });
            view.put(&before.removed_again(view.now()))?;
            Ok(true)
        })
        .await
}

/// Ensures that the first admin exists and that `file` has the token; returns the token if it was created now.
///
/// # Errors
/// The file or the store cannot be written.
pub(crate) async fn ensure_admin<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    file: &Path,
    shared: bool,
) -> Result<Option<Token>, Error> {
    // Only one server of a store creates the admin. For the others, a missing token is not a lost one. An empty file requests a new token.
    let is_asked_for = fs::metadata(file).is_ok_and(|file| file.len() == 0);
    if shared
        && !is_asked_for
        && engine.transact(false, |view| Ok(view.get::<User>(ADMIN)?.is_some())).await?
    {
        return Ok(None);
    }
    let unwritable = |error: io::Error| {
        let why = format!("{}: {error}; the admin token is stored there", file.display());
        Error::Undecided(ActionError::permanent("admin_token.unwritable", why))
    };
    let kept = match fs::read_to_string(file) {
        Ok(text) => Token::parse(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(unwritable(error)),
    };
    let is_new = kept.is_none();
    let token = match kept {
        Some(token) => token,
        None => generate_token()?,
    };
    if is_new {
        keep(file, &token).map_err(unwritable)?;
    }
    let now = engine.clock().now();
    let user = User {
        name: ADMIN.into(),
        roles: vec![Role::Admin],
        tenant: None,
        kind: UserKind::Person,
        token: token.id.clone(),
        tokens: Vec::new(),
        created_at: now,
        created_by: FIRST_START.into(),
        controlled_by: Some(BTreeSet::new()),
        claimed_at: None,
        enrolment: None,
    };
    let started = CredentialAct { by: FIRST_START.into(), at: now, controlled_by: Some(BTreeSet::new()) };
    let first = StoredToken::new(&token, ADMIN, NewToken::FIRST, &started);
    engine
        .transact(true, |view| {
            let before = view.get::<User>(ADMIN)?;
            let same = before.as_ref().is_some_and(|before| before.token == token.id);
            if same && view.get::<StoredToken>(&token.id)?.is_some() {
                return Ok(());
            }
            // Replacing the admin's token also revokes the admin's other tokens.
            if let Some(before) = before {
                forget_tokens(view, &before)?;
            }
            view.put(&first)?;
            view.put(&user)
        })
        .await?;
    Ok(is_new.then_some(token))
}

pub(super) fn forget_tokens(view: &mut View, user: &User) -> Result<(), Undecided> {
    view.prefetch::<StoredToken>(user.all_tokens())?;
    for id in user.all_tokens() {
        view.get::<StoredToken>(id)?;
        view.delete::<StoredToken>(id)?;
    }
    Ok(())
}

pub(super) fn generate_token() -> Result<Token, Error> {
    let none = |error| ActionError::transient("token.no_randomness", error);
    Token::draw().map_err(|error| Error::Undecided(none(error)))
}

/// Writes the token atomically to a file that only the owner of the process can read.
pub(super) fn keep(file: &Path, token: &Token) -> io::Result<()> {
    let part = file.with_extension("token.part");
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut out = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    writeln!(out, "{}", token.reveal())?;
    out.sync_all()?;
    fs::rename(&part, file)
}

/// Names that mean the service, the platform or an unknown caller in journals and the audit. Users of earlier versions keep such a name.
const RESERVED: [&str; 10] =
    ["engine", "tenure", "unknown", "anonymous", "none", "nobody", "platform", "system", "schedule", "sweep"];

fn check(new: &NewUser) -> Result<(), ActionError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@');
    let invalid = |why: String| Err(ActionError::permanent("user.invalid", why));
    if new.name.is_empty() || new.name.len() > 64 || !new.name.chars().all(allowed) {
        return invalid("name: use 1 to 64 letters, digits, '.', '-', '_' and '@'".into());
    }
    if RESERVED.iter().any(|reserved| new.name.eq_ignore_ascii_case(reserved)) {
        let name = &new.name;
        return invalid(format!("name: {name} is reserved for journals and the audit; choose another"));
    }
    if !new.name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return invalid("name: begin with a letter or digit".into());
    }
    if new.roles.is_empty() {
        return invalid("roles: name at least one".into());
    }
    match &new.tenant {
        Some(tenant) => match tenant.parse::<workflows::tenancy::TenantId>() {
            Ok(_) => Ok(()),
            Err(error) => invalid(format!("tenant: {error}")),
        },
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_name_is_refused_in_any_letter_case() {
        let new = |name: &str| NewUser {
            name: name.to_owned(),
            roles: vec![Role::Admin],
            tenant: None,
            kind: UserKind::Person,
            expires: None,
        };
        for name in ["engine", "Tenure", "unknown", "UNKNOWN", "-", "_x", ".", "@a", "platform"] {
            assert!(check(&new(name)).is_err(), "{name}");
        }
        for name in ["olga", "o1", "ada@example.org", "7of9", "unknown-1"] {
            assert!(check(&new(name)).is_ok(), "{name}");
        }
    }
}
