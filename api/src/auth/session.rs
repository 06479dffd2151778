//! Sessions: tokens with an end, for people whom an identity provider has named (`docs/adr/0018`).

use super::{Person, User, UserKind, provenance::SIGNED_IN};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use engine::{Engine, Entity, Error, View};
use program::{encoding::hex, token::Token};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use store::Timestamp;
use subtle::ConstantTimeEq as _;

/// How long somebody who has come back from the provider may take until the console asks for their token.
const REDEEMED_WITHIN: Duration = Duration::from_secs(60);

/// A token that ends by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// Names the token.
    pub(crate) id: String,
    /// SHA-256 of its secret.
    pub(crate) hash: String,
    /// Whose it is.
    pub(crate) user: String,
    /// When they signed in.
    pub(crate) began_at: Timestamp,
    /// When it ends.
    pub(crate) ends_at: Timestamp,
    /// Their groups, as the provider said then.
    pub(crate) groups: Vec<String>,
}

impl Entity for Session {
    const COLLECTION: &'static str = "sessions";
    const RETENTION: engine::Retention<Self> = engine::Retention::Scratch(|session| Some(session.ends_at));

    fn id(&self) -> String {
        self.id.clone()
    }
}

/// Someone who has come back from the provider, and whose tab has not asked for the token yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SignIn {
    /// SHA-256 of the code that the tab was given.
    id: String,
    /// What its verifier must hash to.
    challenge: String,
    /// Who they are.
    person: Person,
    /// Until when.
    pub(crate) until: Timestamp,
}

impl Entity for SignIn {
    const COLLECTION: &'static str = "sign_ins";
    const RETENTION: engine::Retention<Self> = engine::Retention::Scratch(|sign_in| Some(sign_in.until));

    fn id(&self) -> String {
        self.id.clone()
    }
}

/// The challenge that a verifier answers (RFC 7636, `S256`).
pub(crate) fn challenge_of(verifier: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

fn hashed(code: &str) -> String {
    hex::encode(&Sha256::digest(code))
}

/// Remembers who came back, for the tab that has the secret of `challenge`; returns the code that it asks with.
///
/// # Errors
/// The store's.
pub(crate) async fn store_sign_in<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    person: Person,
    challenge: String,
) -> Result<String, Error> {
    let code = super::user::generate_token()?.reveal();
    let until = engine.clock().now().after(REDEEMED_WITHIN);
    let sign_in = SignIn { id: hashed(&code), challenge, person, until };
    engine.transact(true, |view| view.get::<SignIn>(&sign_in.id).and_then(|_| view.put(&sign_in))).await?;
    Ok(code)
}

/// Who came back under `code`, for whoever shows the verifier; once. Nobody, if it is not known, was used, or is over.
///
/// # Errors
/// The store's.
pub(crate) async fn redeem_sign_in<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    code: &str,
    verifier: &str,
) -> Result<Option<Person>, Error> {
    let now = engine.clock().now();
    let (id, challenge) = (hashed(code), challenge_of(verifier));
    engine
        .transact(true, |view| {
            let Some(found) = view.get::<SignIn>(&id)? else { return Ok(None) };
            let same: bool = found.challenge.as_bytes().ct_eq(challenge.as_bytes()).into();
            if !same || found.until < now {
                return Ok(None);
            }
            view.delete::<SignIn>(&id)?;
            Ok(Some(found.person))
        })
        .await
}

/// Begins a session of `person`, who is a user from then on, with the roles that their groups give.
///
/// # Errors
/// The store's.
pub(crate) async fn begin_session<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    person: &Person,
    length: Duration,
) -> Result<(Session, Token), Error> {
    let token = super::user::generate_token()?;
    let now = engine.clock().now();
    let session = Session {
        id: token.id.clone(),
        hash: token.hash(),
        user: person.name.clone(),
        began_at: now,
        ends_at: now.after(length),
        groups: person.groups.clone(),
    };
    engine
        .transact(true, |view| {
            sign_in(view, person, now)?;
            view.get::<Session>(&session.id)?;
            view.put(&session)
        })
        .await?;
    Ok((session, token))
}

fn sign_in(view: &mut View, person: &Person, now: Timestamp) -> Result<(), engine::Undecided> {
    let before = view.get::<User>(&person.name)?;
    let user = User {
        name: person.name.clone(),
        roles: person.roles.clone(),
        tenant: person.tenant.clone(),
        kind: UserKind::Person,
        token: String::new(),
        tokens: Vec::new(),
        created_at: before.as_ref().map_or(now, |user| user.created_at),
        created_by: SIGNED_IN.into(),
        controlled_by: None,
        claimed_at: None,
        enrolment: None,
    };
    if before.as_ref() == Some(&user) { Ok(()) } else { view.put(&user) }
}

/// Ends a session; one that is not there is no error.
///
/// # Errors
/// The store's.
pub(crate) async fn end_session<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    id: &str,
) -> Result<bool, Error> {
    engine
        .transact(true, |view| {
            let is_there = view.get::<Session>(id)?.is_some();
            if is_there {
                view.delete::<Session>(id)?;
            }
            Ok(is_there)
        })
        .await
}
