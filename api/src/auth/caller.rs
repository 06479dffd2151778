//! The authenticated caller of a request.

use crate::auth::{
    Role, Session, User, UserKind, Verb,
    policy::{AccessPolicy, Decision, Principal, RequestContext, ResourceScope},
    provenance::{of_credential, of_session, of_token},
    stored_token::StoredToken,
};
use engine::{CredentialAct, CredentialRecords, Entity, Person, Provenance};
use program::token::Token;
use serde::de::DeserializeOwned;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use store::{Commit, Key, Put, Store, Timestamp};

/// A caller with a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The user.
    pub(crate) name: String,
    /// The roles.
    pub(crate) roles: Vec<Role>,
    /// The tenant to which the caller is bound; `None` for all tenants.
    pub(crate) tenant: Option<String>,
    /// The type of the user.
    pub(crate) kind: UserKind,
    /// The expiry of the credential, if any.
    pub(crate) ends_at: Option<Timestamp>,
    /// The records of the credential.
    pub(super) credential: CredentialRecords,
    /// The access policies in force.
    law: Arc<AccessPolicy>,
    asking: CallContext,
    kept_out: HiddenFlag,
}

/// The context of the request. It is not part of the caller's identity: all are equal.
#[derive(Clone, Copy, Debug, Default)]
struct CallContext(RequestContext);

impl PartialEq for CallContext {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for CallContext {}

/// True if a resource was hidden from the caller. It is not part of the caller's identity: all are equal.
#[derive(Clone, Debug, Default)]
struct HiddenFlag(Arc<AtomicBool>);

impl PartialEq for HiddenFlag {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for HiddenFlag {}

/// The reason of a failed authentication.
#[derive(Clone, Debug)]
pub(crate) enum Denied {
    /// The request has no token.
    NoToken,
    /// The token is unknown or invalid; with its user, if the secret was right.
    BadToken(Option<String>),
    /// The bootstrap token has ended, because this other administrator has a credential of their own.
    BootstrapEnded(String),
    /// The store returned an error.
    Store(store::Error),
}

impl Caller {
    /// Creates the caller `name` with these roles, bound to `tenant` if given, under `law`.
    pub(crate) fn new(
        name: impl Into<String>,
        roles: Vec<Role>,
        tenant: Option<String>,
        law: Arc<AccessPolicy>,
    ) -> Self {
        let (asking, kept_out) = (CallContext::default(), HiddenFlag::default());
        Self {
            name: name.into(),
            roles,
            tenant,
            kind: UserKind::Person,
            ends_at: None,
            credential: CredentialRecords::default(),
            law,
            asking,
            kept_out,
        }
    }

    /// Creates the caller for a user under `law`.
    pub(crate) fn of(user: User, law: Arc<AccessPolicy>) -> Self {
        Self { kind: user.kind, ..Self::new(user.name, user.roles, user.tenant, law) }
    }

    /// Sets the expiry and the records of the credential.
    fn until(self, ends_at: Option<Timestamp>, credential: CredentialRecords) -> Self {
        Self { ends_at, credential, ..self }
    }

    /// Returns the provenance of the caller's credential, without group memberships.
    pub(crate) fn provenance(&self) -> Provenance {
        of_credential(&self.name, &self.credential, &[])
    }

    /// Returns the record of an act at `now` on another credential.
    pub(crate) fn act(&self, now: Timestamp) -> CredentialAct {
        self.provenance().act(&self.name, now)
    }

    /// Sets the context of the request.
    pub(crate) fn asking(self, how: RequestContext) -> Self {
        Self { asking: CallContext(how), ..self }
    }

    /// Returns the caller as approvals and commands name them.
    pub(crate) fn person(&self) -> Person {
        let person = person(&self.name, &self.roles, self.tenant.as_deref());
        person.with_provenance(Some(Box::new(self.provenance())))
    }

    /// Returns the policies for the caller.
    pub(crate) fn law(&self) -> &AccessPolicy {
        &self.law
    }

    /// Returns the scope of the caller: their tenant, or the platform.
    pub(crate) fn place(&self) -> ResourceScope<'_> {
        self.tenant.as_deref().map_or(ResourceScope::Platform, ResourceScope::Tenant)
    }

    /// Decides if the caller may do `verb` in `place`.
    pub(crate) fn decide(&self, verb: Verb, place: ResourceScope<'_>) -> Decision {
        let who = Principal::User { name: &self.name, roles: &self.roles, tenant: self.tenant.as_deref() };
        self.law.decide(&who, verb, place, &self.asking.0)
    }

    /// Returns true if the caller may do `verb` in their own scope.
    pub(crate) fn may(&self, verb: Verb) -> bool {
        self.decide(verb, self.place()).allows
    }

    /// Returns the owner of the caller's work: their tenant, or the caller.
    pub(crate) fn owner(&self) -> &str {
        self.tenant.as_deref().unwrap_or(&self.name)
    }

    /// Returns true if the caller may see resources of `tenant`. Resources of the platform (an empty name) are only for users of the operator.
    ///
    /// A hidden resource is remembered for the audit of the resulting 404.
    pub(crate) fn sees(&self, tenant: &str) -> bool {
        let sees = self.tenant.as_deref().is_none_or(|own| own == tenant);
        if !sees {
            self.kept_out.0.store(true, Ordering::Relaxed);
        }
        sees
    }

    /// Returns true if a resource was hidden from this caller, or from a clone.
    pub(crate) fn was_kept_out(&self) -> bool {
        self.kept_out.0.load(Ordering::Relaxed)
    }
}

/// Returns a user as approvals and commands name them. A user who is bound to a tenant can only sit as its owner or auditor, whatever their roles are.
pub(super) fn person(name: &str, roles: &[Role], tenant: Option<&str>) -> Person {
    let own = |role: &&Role| tenant.is_none() || matches!(role, Role::TenantOwner | Role::Auditor);
    let roles: Vec<Role> = roles.iter().filter(own).copied().collect();
    Person::new(name.to_owned(), Role::seats(&roles))
}

/// Returns the user of the token in the `Authorization` header at `now`, under `law`.
pub(crate) async fn authenticate(
    store: &dyn Store,
    law: Arc<AccessPolicy>,
    header: Option<&str>,
    now: Timestamp,
) -> Result<Caller, Denied> {
    let presented = header.and_then(|text| text.split_once(' '));
    let Some((scheme, text)) = presented else { return Err(Denied::NoToken) };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Denied::NoToken);
    }
    let Some(token) = Token::parse(text) else { return Err(Denied::BadToken(None)) };
    let (whose, admitted) = match read::<StoredToken>(store, &token.id).await? {
        Some(StoredToken { ended_by: Some(by), hash, .. }) if token.matches(&hash) => {
            return Err(Denied::BootstrapEnded(by));
        }
        Some(kept) if token.matches(&kept.hash) => {
            let admitted = caller_of_token(store, &kept, law, now).await?;
            (Some(kept.user), admitted)
        }
        Some(_) => (None, None),
        None => match read::<Session>(store, &token.id).await? {
            Some(session) if token.matches(&session.hash) => {
                let admitted = caller_of_session(store, &session, law, now).await?;
                (Some(session.user), admitted)
            }
            Some(_) | None => (None, None),
        },
    };
    admitted.ok_or(Denied::BadToken(whose))
}

/// Returns when `token` expired, if it did. Only a caller with the right secret gets an answer.
pub(crate) async fn expiry(store: &dyn Store, token: &Token, now: Timestamp) -> Option<Timestamp> {
    // Errors of the store do not change the answer that the token is invalid.
    if let Ok(Some(kept)) = read::<StoredToken>(store, &token.id).await {
        let over = token.matches(&kept.hash) && kept.is_over(now);
        return over.then(|| kept.ends_at.or(kept.expired_at)).flatten();
    }
    let session = read::<Session>(store, &token.id).await.ok().flatten()?;
    Some(session.ends_at).filter(|ends_at| token.matches(&session.hash) && *ends_at <= now)
}

/// Returns the caller with this token id at `now`, under `law`; the token was authenticated before.
pub(crate) async fn reauthenticate(
    store: &dyn Store,
    law: Arc<AccessPolicy>,
    token: &str,
    now: Timestamp,
) -> Result<Caller, Denied> {
    let admitted = match read::<StoredToken>(store, token).await? {
        Some(kept) => caller_of_token(store, &kept, law, now).await?,
        None => match read::<Session>(store, token).await? {
            Some(session) => caller_of_session(store, &session, law, now).await?,
            None => None,
        },
    };
    admitted.ok_or(Denied::BadToken(None))
}

async fn caller_of_token(
    store: &dyn Store,
    kept: &StoredToken,
    law: Arc<AccessPolicy>,
    now: Timestamp,
) -> Result<Option<Caller>, Denied> {
    if kept.is_over(now) {
        kept.record_expiry(store, now).await;
        return Ok(None);
    }
    let user = read::<User>(store, &kept.user).await?.filter(|user| user.holds(&kept.id));
    Ok(user.map(|user| {
        let credential = of_token(&user, kept);
        Caller::of(user, law).until(kept.ends_at, credential)
    }))
}

async fn caller_of_session(
    store: &dyn Store,
    session: &Session,
    law: Arc<AccessPolicy>,
    now: Timestamp,
) -> Result<Option<Caller>, Denied> {
    if session.ends_at <= now {
        // An expired session is removed now, because it would become valid again if the clock were set back.
        let forget = Put { key: Key::new(Session::COLLECTION, &session.id), body: None };
        let commit = Commit { documents: vec![forget], ..Commit::default() };
        if let Err(error) = store.commit(commit).await {
            tracing::warn!(%error, user = session.user, "cannot remove an expired session yet");
        }
        return Ok(None);
    }
    // A user who was added later with the same name is another person.
    let is_theirs = |user: &User| user.created_at <= session.began_at && user.token.is_empty();
    let user = read::<User>(store, &session.user).await?.filter(is_theirs);
    Ok(user.map(|user| Caller::of(user, law).until(Some(session.ends_at), of_session(session))))
}

async fn read<T: Entity + DeserializeOwned>(store: &dyn Store, id: &str) -> Result<Option<T>, Denied> {
    let key = Key::new(T::COLLECTION, id);
    let Some(found) = store.document(&key).await.map_err(Denied::Store)? else { return Ok(None) };
    let corrupt = |e: serde_json::Error| store::Error::Corrupt { what: key.to_string(), why: e.to_string() };
    serde_json::from_slice(&found.body).map(Some).map_err(|e| Denied::Store(corrupt(e)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::NewToken;
    use store::{Commit, Memory, Put};

    async fn put<T: Entity + serde::Serialize>(store: &Memory, thing: &T) {
        let key = Key::new(T::COLLECTION, thing.id());
        let put = Put { key, body: Some(serde_json::to_vec(thing).unwrap()) };
        store.commit(Commit { documents: vec![put], ..Commit::default() }).await.unwrap();
    }

    async fn is_admitted(store: &Memory, token: &Token, at: u64) -> bool {
        let header = format!("Bearer {}", token.reveal());
        authenticate(store, AccessPolicy::shipped(), Some(&header), Timestamp(at)).await.is_ok()
    }

    #[tokio::test]
    async fn an_expired_token_or_session_stays_expired_when_the_clock_is_set_back() {
        let (store, token, session) = (Memory::new(), Token::draw().unwrap(), Token::draw().unwrap());
        let user = |token: &str, name: &str| -> User {
            let user = serde_json::json!({ "name": name, "roles": ["auditor"], "token": token, "created_at": 0, "created_by": "ada" });
            serde_json::from_value(user).unwrap()
        };
        put(&store, &user(&token.id, "robot")).await;
        put(&store, &user("", "oidc:ada")).await;
        let kept = StoredToken::new(
            &token,
            "robot",
            NewToken::FIRST,
            &CredentialAct { by: "ada".into(), at: Timestamp(0), controlled_by: None },
        );
        put(&store, &kept.ending(Some(Timestamp(1_000)))).await;
        let (id, hash) = (session.id.clone(), session.hash());
        let ends_at = Timestamp(1_000);
        put(
            &store,
            &Session {
                id,
                hash,
                user: "oidc:ada".into(),
                began_at: Timestamp(1),
                ends_at,
                groups: Vec::new(),
            },
        )
        .await;

        for token in [&token, &session] {
            assert!(is_admitted(&store, token, 999).await);
            assert!(!is_admitted(&store, token, 1_000).await, "it has expired");
            assert!(!is_admitted(&store, token, 500).await, "and stays expired");
        }
    }

    #[tokio::test]
    async fn a_token_that_was_not_used_after_its_expiry_is_also_recorded_as_expired() {
        let (store, token) = (Memory::new(), Token::draw().unwrap());
        let kept = StoredToken::new(
            &token,
            "robot",
            NewToken::FIRST,
            &CredentialAct { by: "ada".into(), at: Timestamp(0), controlled_by: None },
        );
        put(&store, &kept.ending(Some(Timestamp(1_000)))).await;

        crate::auth::record_expiries(&store, Timestamp(2_000)).await.unwrap();

        let kept = read::<StoredToken>(&store, &token.id).await.unwrap().unwrap();
        assert!(kept.is_over(Timestamp(500)), "{kept:?}");
    }
}
