//! Sessions: expiring tokens for users of an identity provider (`docs/adr/0018`).

use super::{Person, User, UserKind, provenance::SIGNED_IN};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use engine::{Engine, Entity, Error, View};
use program::{encoding::hex, token::Token};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use store::Timestamp;
use subtle::ConstantTimeEq as _;

/// The time within which the console must redeem a sign-in.
const REDEEMED_WITHIN: Duration = Duration::from_secs(60);

/// A token that expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The id of the token.
    pub(crate) id: String,
    /// SHA-256 of the secret.
    pub(crate) hash: String,
    /// The user.
    pub(crate) user: String,
    /// The time of the sign-in.
    pub(crate) began_at: Timestamp,
    /// The expiry.
    pub(crate) ends_at: Timestamp,
    /// The groups from the identity provider, at the sign-in.
    pub(crate) groups: Vec<String>,
}

impl Entity for Session {
    const COLLECTION: &'static str = "sessions";
    const RETENTION: engine::Retention<Self> = engine::Retention::Scratch(|session| Some(session.ends_at));

    fn id(&self) -> String {
        self.id.clone()
    }
}

/// A completed sign-in whose token the browser tab has not requested yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SignIn {
    /// SHA-256 of the code of the tab.
    id: String,
    /// The hash of the verifier.
    challenge: String,
    /// The person.
    person: Person,
    /// The expiry.
    pub(crate) until: Timestamp,
}

impl Entity for SignIn {
    const COLLECTION: &'static str = "sign_ins";
    const RETENTION: engine::Retention<Self> = engine::Retention::Scratch(|sign_in| Some(sign_in.until));

    fn id(&self) -> String {
        self.id.clone()
    }
}

/// Returns the challenge of a verifier (RFC 7636, `S256`).
pub(crate) fn challenge_of(verifier: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

fn hashed(code: &str) -> String {
    hex::encode(&Sha256::digest(code))
}

/// Stores a sign-in for the tab with the secret of `challenge`; returns the code with which the tab redeems it.
///
/// # Errors
/// An error of the store.
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

/// Redeems the sign-in of `code` once, with its verifier. Returns `None` for an unknown, used or expired code.
///
/// # Errors
/// An error of the store.
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

/// Starts a session of `person`. Adds the user, with the roles of their groups.
///
/// # Errors
/// An error of the store.
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

/// Ends a session; succeeds if there is none.
///
/// # Errors
/// An error of the store.
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
