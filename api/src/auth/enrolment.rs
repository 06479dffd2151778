//! One-time codes, with which a user claims a credential that no other person has seen.
//!
//! Invariant: a code is stored as its SHA-256, is not a credential, and is valid for one claim by one user before it expires. A claim ends all other
//! credentials of the user.

use super::{
    NewToken, User, UserKind,
    stored_token::{StoredToken, ends},
    user::{ADMIN, forget_tokens, generate_token},
};
use engine::{ActionError, Claim, CredentialAct, Engine, Entity, Error, Undecided};
use program::{encoding::hex, token::Token};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use store::Timestamp;

/// The default validity of a code.
const VALID: Duration = Duration::from_secs(3 * 86_400);
/// The maximum validity of a code.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// The prefix of codes, which distinguishes them from tokens.
const PREFIX: &str = "enrol";

/// An unused code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Enrolment {
    /// SHA-256 of the code.
    id: String,
    /// The user who may claim.
    user: String,
    /// The creator of the code.
    made: CredentialAct,
    /// The expiry.
    pub(crate) until: Timestamp,
}

impl Entity for Enrolment {
    const COLLECTION: &'static str = "enrolments";
    const RETENTION: engine::Retention<Self> = engine::Retention::Scratch(|enrolment| Some(enrolment.until));

    fn id(&self) -> String {
        self.id.clone()
    }
}

/// A new code.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewEnrolment {
    /// The expiry: a duration (`P1D`, `12h`) or a time; at most 30 days from now; 3 days if absent.
    #[serde(default)]
    pub(crate) expires: Option<String>,
}

fn invalid(why: String) -> Undecided {
    ActionError::permanent("token.invalid", why).into()
}

fn check(user: &User) -> Result<(), Undecided> {
    let name = &user.name;
    if name == ADMIN {
        let why = "the bootstrap token is in the file admin.token of the server; read it there";
        return Err(ActionError::permanent("user.is_admin", why).into());
    }
    if user.kind == UserKind::Service {
        return Err(invalid(format!("name: {name} is a service account, which cannot enrol")));
    }
    if name.starts_with("oidc:") {
        return Err(invalid(format!("name: {name} signs in with the identity provider, and needs no code")));
    }
    Ok(())
}

/// Creates a code with which the user `name` may claim a credential. Replaces earlier codes. Returns `None` if there is no such user.
///
/// # Errors
/// `token.invalid`, `user.is_admin`, or an error of the store.
pub(crate) async fn enrol<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    name: &str,
    new: &NewEnrolment,
    by: CredentialAct,
    also: impl Fn(&mut engine::View) -> Result<(), Undecided>,
) -> Result<Option<(String, Timestamp)>, Error> {
    let now = engine.clock().now();
    let asked = ends(new.expires.as_deref(), now).map_err(Error::Undecided)?;
    let until = asked.unwrap_or_else(|| now.after(VALID));
    if until > now.after(LONGEST) {
        let why = "expires: a code is valid for at most 30 days; use an earlier time";
        return Err(Error::Undecided(ActionError::permanent("token.invalid", why)));
    }
    let drawn = generate_token()?.reveal();
    let code = drawn.replacen("tn", PREFIX, 1);
    let enrolment = Enrolment { id: hash(&code), user: name.into(), made: by, until };
    let made = engine.transact(true, |view| {
        let Some(mut user) = view.get::<User>(name)? else { return Ok(None) };
        check(&user)?;
        also(view)?;
        if let Some(before) = user.enrolment.replace(enrolment.id.clone()) {
            view.get::<Enrolment>(&before)?;
            view.delete::<Enrolment>(&before)?;
        }
        view.get::<Enrolment>(&enrolment.id)?;
        view.put(&enrolment)?;
        view.put(&user)?;
        Ok(Some(()))
    });
    Ok(made.await?.map(|()| (code.clone(), until)))
}

/// Returns the user of a code.
///
/// # Errors
/// An error of the store.
pub(crate) async fn enrolling<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    code: &str,
) -> Result<Option<String>, Error> {
    let id = hash(code.trim());
    engine.transact(false, |view| Ok(view.get::<Enrolment>(&id)?.map(|found| found.user))).await
}

/// Creates the token of the user with this code, and ends the user's other credentials. Returns `None` for an unknown, used or expired code.
///
/// # Errors
/// An error of the store.
pub(crate) async fn claim<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    code: &str,
) -> Result<Option<(StoredToken, Token)>, Error> {
    let (now, id, token) = (engine.clock().now(), hash(code.trim()), generate_token()?);
    let claimed = engine.transact(true, |view| {
        let Some(found) = view.get::<Enrolment>(&id)? else { return Ok(None) };
        let user = view.get::<User>(&found.user)?;
        // A user who was added later with the same name has another code.
        let theirs = user.filter(|user| user.enrolment.as_ref() == Some(&id));
        let Some(mut user) = theirs.filter(|_| now < found.until) else { return Ok(None) };
        forget_tokens(view, &user)?;
        let kept = StoredToken {
            claim: Claim::Enrolled,
            ..StoredToken::new(
                &token,
                &user.name,
                NewToken::ENROLLED,
                &CredentialAct { at: now, ..found.made },
            )
        };
        user.token.clear();
        user.tokens = vec![kept.id.clone()];
        user.claimed_at = Some(now);
        user.enrolment = None;
        view.delete::<Enrolment>(&id)?;
        view.get::<StoredToken>(&kept.id)?;
        view.put(&kept)?;
        view.put(&user)?;
        Ok(Some(kept))
    });
    Ok(claimed.await?.map(|kept| (kept, token)))
}

fn hash(code: &str) -> String {
    hex::encode(&Sha256::digest(code))
}
