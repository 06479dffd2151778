//! One-time codes, by which somebody claims a credential that nobody else has seen.
//!
//! Invariant: a code is stored as its SHA-256, opens nothing, and is worth one claim of one user before its end. Claiming ends every
//! credential that the user had.

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

/// How long a code may be used, unless something shorter is asked for.
const VALID: Duration = Duration::from_secs(3 * 86_400);
/// The longest that may be asked for.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// What a code begins with, so that nobody takes it for a token.
const PREFIX: &str = "enrol";

/// A code that was handed out and not used yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Enrolment {
    /// SHA-256 of the code.
    id: String,
    /// Who may claim.
    user: String,
    /// Who made it.
    made: CredentialAct,
    /// Until when it may be used.
    pub(crate) until: Timestamp,
}

impl Entity for Enrolment {
    const COLLECTION: &'static str = "enrolments";
    const RETENTION: engine::Retention<Self> = engine::Retention::Scratch(|enrolment| Some(enrolment.until));

    fn id(&self) -> String {
        self.id.clone()
    }
}

/// A code that is asked for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewEnrolment {
    /// When the code ends: after a time (`P1D`, `12h`) or at a moment; at most 30 days away, and after 3 days if absent.
    #[serde(default)]
    pub(crate) expires: Option<String>,
}

fn invalid(why: String) -> Undecided {
    ActionError::permanent("token.invalid", why).into()
}

fn check(user: &User) -> Result<(), Undecided> {
    let name = &user.name;
    if name == ADMIN {
        let why = "the first admin's token stands in the file admin.token of the server, and is claimed by who can read that";
        return Err(ActionError::permanent("user.is_admin", why).into());
    }
    if user.kind == UserKind::Service {
        return Err(invalid(format!("name: {name} is a service, and has nobody who could enrol")));
    }
    if name.starts_with("oidc:") {
        return Err(invalid(format!(
            "name: {name} signs in through the identity provider, and needs no code"
        )));
    }
    Ok(())
}

/// Makes a code by which the user `name` may claim a credential of their own, in place of any made before; `None` when there is no
/// such user.
///
/// # Errors
/// `token.invalid`, `user.is_admin`, or the store's.
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
        let why = "expires: a code may be used for at most 30 days; name an earlier end";
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

/// Whose code this is, if it is one that was handed out.
///
/// # Errors
/// The store's.
pub(crate) async fn enrolling<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    code: &str,
) -> Result<Option<String>, Error> {
    let id = hash(code.trim());
    engine.transact(false, |view| Ok(view.get::<Enrolment>(&id)?.map(|found| found.user))).await
}

/// Draws the token of whoever shows `code`, and ends all that they had; `None` when the code is not known, was used, or is over.
///
/// # Errors
/// The store's.
pub(crate) async fn claim<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    code: &str,
) -> Result<Option<(StoredToken, Token)>, Error> {
    let (now, id, token) = (engine.clock().now(), hash(code.trim()), generate_token()?);
    let claimed = engine.transact(true, |view| {
        let Some(found) = view.get::<Enrolment>(&id)? else { return Ok(None) };
        let user = view.get::<User>(&found.user)?;
        // Another of the same name, made since, is somebody else, and has no such code.
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
