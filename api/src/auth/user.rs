//! Users, as documents of the store.

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

/// The name of the user that exists from the first start.
pub(super) const ADMIN: &str = "admin";

/// Whether a user is somebody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum UserKind {
    /// A person.
    #[default]
    Person,
    /// A program. It does what its roles may, and decides nothing that takes people.
    Service,
}

/// Someone who may use the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    /// The name, unique in the service.
    pub(crate) name: String,
    /// What they may do.
    pub(crate) roles: Vec<Role>,
    /// The only tenant whose things they see; `None` sees all.
    pub(crate) tenant: Option<String>,
    /// Whether they are a person; all are that were added before services were told apart.
    #[serde(default)]
    pub(crate) kind: UserKind,
    /// Names the token that they were added with; empty for those who sign in through a provider, or who had it removed.
    pub(crate) token: String,
    /// Names the tokens that they were given since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tokens: Vec<String>,
    /// When they were added.
    pub(crate) created_at: Timestamp,
    /// By whom.
    pub(crate) created_by: String,
    /// Who else could have added them in that name; absent of those whom an earlier version added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) controlled_by: Option<BTreeSet<String>>,
    /// When they last claimed a credential of their own, by a one-time code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) claimed_at: Option<Timestamp>,
    /// Names the code by which they may do so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) enrolment: Option<String>,
}

impl User {
    /// The ids of all their tokens.
    pub(super) fn all_tokens(&self) -> impl Iterator<Item = &String> {
        [&self.token].into_iter().filter(|id| !id.is_empty()).chain(&self.tokens)
    }

    /// Whether the token of this id is theirs.
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

/// A user to be added.
#[derive(Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewUser {
    /// The name: 1 to 64 letters, digits, `.`, `-`, `_` and `@`.
    pub(crate) name: String,
    /// What they may do; at least one.
    pub(crate) roles: Vec<Role>,
    /// The only tenant whose things they see.
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    /// Whether they are a person, who may decide where people are asked, or a service, which may not.
    #[serde(default)]
    pub(crate) kind: UserKind,
    /// When their token ends: after a time (`P90D`, `90d`) or at a moment; never if absent.
    #[serde(default)]
    pub(crate) expires: Option<String>,
}

/// Adds a user, and draws the token that is theirs.
///
/// # Errors
/// `user.exists`, `user.invalid`, or the store's.
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
            format!("name: {} differs from the user {} only by case; choose another", new.name, other.name);
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
                let why = format!("there is a user {} already", user.name);
                return Err(ActionError::permanent("user.exists", why).into());
            }
            view.put(&kept)?;
            view.put(&user)
        })
        .await?;
    Ok((user, token))
}

/// Removes a user and the token; a user who is not there is no error.
///
/// # Errors
/// `user.is_admin` for the first user, or the store's.
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
        let why = format!("{name} is the last administrator: give another a credential of their own first");
        return Err(Error::Undecided(ActionError::permanent("user.is_admin", why)));
    }
    // Another of the same name is somebody else, and takes over neither seats nor delegations.
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
            // Their sessions are of nobody from here on.
            view.delete::<User>(name)?;
            let before = view.get::<RemovedUser>(name)?;
            let before =
                before.unwrap_or_else(|| RemovedUser { name: name.into(), ..RemovedUser::default() });
            view.put(&before.removed_again(view.now()))?;
            Ok(true)
        })
        .await
}

/// Sees to it that the first admin exists and that `file` holds the token; returns the token if it was drawn just now.
///
/// # Errors
/// When the file or the store cannot be written.
pub(crate) async fn ensure_admin<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    file: &Path,
    shared: bool,
) -> Result<Option<Token>, Error> {
    // Of those that share a store one makes the admin; to the others a token that is not here is no lost one. An empty file asks for another.
    let is_asked_for = fs::metadata(file).is_ok_and(|file| file.len() == 0);
    if shared
        && !is_asked_for
        && engine.transact(false, |view| Ok(view.get::<User>(ADMIN)?.is_some())).await?
    {
        return Ok(None);
    }
    let unwritable = |error: io::Error| {
        let why = format!("{}: {error}; the admin token is kept there", file.display());
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
            // Who replaces the token of the admin wants those gone that were given beside it.
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

/// Writes the token where only the owner of the process can read it, whole or not at all.
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

/// Names by which journals and the audit mean the service itself, the platform, or no known caller. Users of an earlier version who have
/// such a name keep it.
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
        return invalid(format!("name: {name} is reserved: journals and the audit use it; choose another"));
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
    fn a_name_that_the_audit_uses_itself_is_refused_in_any_case() {
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
