//! The tokens of users: several per user, each with a name and an optional expiry.
//!
//! Invariant: a token is valid only while its user lists it. Removing it from the list ends it.

use super::user::{ADMIN, User, generate_token};
use chrono::DateTime;
use engine::{ActionError, Claim, CredentialAct, Engine, Entity, Error, Undecided};
use program::token::Token;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};
use store::{Commit, Key, Put, Read, Store, Timestamp};
use workflows::policy::duration;

/// The maximum number of tokens of a user, including expired ones.
const MOST: usize = 50;
/// The number of tokens read at once.
const PAGE: usize = 1_000;

/// A stored token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredToken {
    /// The id.
    pub(crate) id: String,
    /// SHA-256 of the secret.
    pub(crate) hash: String,
    /// The user.
    pub(crate) user: String,
    /// The name, unique per user; empty for tokens from before names existed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    /// The creation time, if recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created_at: Option<Timestamp>,
    /// The creator, if recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created_by: Option<String>,
    /// The persons who control the creator's credential; absent for tokens of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) controlled_by: Option<BTreeSet<String>>,
    /// How the user got the token.
    #[serde(default, skip_serializing_if = "is_issued")]
    pub(crate) claim: Claim,
    /// The expiry, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ends_at: Option<Timestamp>,
    /// The hour of the last use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) used_at: Option<Timestamp>,
    /// When the token was found to be expired. It stays expired even if the clock is set back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expired_at: Option<Timestamp>,
    /// The administrator whose own credential ended the bootstrap token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended_by: Option<String>,
}

fn is_issued(claim: &Claim) -> bool {
    *claim == Claim::Issued
}

impl Entity for StoredToken {
    const COLLECTION: &'static str = "tokens";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.id.clone()
    }
}

impl StoredToken {
    /// Creates the record of `token` for `user` with a `name`.
    pub(super) fn new(token: &Token, user: &str, name: &str, by: &CredentialAct) -> Self {
        Self {
            id: token.id.clone(),
            hash: token.hash(),
            user: user.into(),
            name: name.into(),
            created_at: Some(by.at),
            created_by: Some(by.by.clone()),
            controlled_by: by.controlled_by.clone(),
            claim: Claim::Issued,
            ends_at: None,
            used_at: None,
            expired_at: None,
            ended_by: None,
        }
    }

    /// Sets the expiry.
    pub(super) fn ending(self, ends_at: Option<Timestamp>) -> Self {
        Self { ends_at, ..self }
    }

    /// Returns true if the token has expired.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.expired_at.is_some() || self.ends_at.is_some_and(|end| end <= now)
    }

    /// Records the expiry, unless it is already recorded. An expired token is rejected even if this fails.
    pub(super) async fn record_expiry(&self, store: &dyn Store, now: Timestamp) {
        if self.expired_at.is_some() {
            return;
        }
        if let Err(error) = write_expiry(store, &self.id, now).await {
            tracing::warn!(%error, user = self.user, token = self.called(), "cannot record the expiry of a token yet");
        }
    }

    /// Returns the name.
    pub(crate) fn called(&self) -> &str {
        if self.name.is_empty() { NewToken::FIRST } else { &self.name }
    }
}

async fn write_expiry(store: &dyn Store, id: &str, now: Timestamp) -> Result<(), store::Error> {
    let key = Key::new(StoredToken::COLLECTION, id);
    let Some(found) = store.document(&key).await? else { return Ok(()) };
    let corrupt = |e: serde_json::Error| store::Error::Corrupt { what: key.to_string(), why: e.to_string() };
    let kept: StoredToken = serde_json::from_slice(&found.body).map_err(corrupt)?;
    if !kept.is_over(now) || kept.expired_at.is_some() {
        return Ok(());
    }
    let body = serde_json::to_vec(&StoredToken { expired_at: Some(now), ..kept }).map_err(corrupt)?;
    let read = Read { key: key.clone(), version: Some(found.version) };
    let documents = vec![Put { key: key.clone(), body: Some(body) }];
    store.commit(Commit { reads: vec![read], documents, ..Commit::default() }).await.map(drop)
}

/// Records the expiry of all expired tokens.
///
/// # Errors
/// An error of the store.
pub(crate) async fn record_expiries(store: &dyn Store, now: Timestamp) -> Result<(), store::Error> {
    let mut after: Option<String> = None;
    loop {
        let found = store.documents(StoredToken::COLLECTION, "", after.as_deref(), PAGE).await?;
        for document in &found.items {
            // An unreadable record authenticates no user.
            if let Ok(kept) = serde_json::from_slice::<StoredToken>(&document.body)
                && kept.is_over(now)
            {
                kept.record_expiry(store, now).await;
            }
        }
        after = found.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// A new token.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// The purpose, such as `ci`: 1 to 64 letters, digits, `.`, `-` and `_`, unique among the user's tokens.
    pub(crate) name: String,
    /// The expiry: a duration (`P90D`, `90d`) or a time; never if absent.
    #[serde(default)]
    pub(crate) expires: Option<String>,
}

impl NewToken {
    /// The name of the token with which a user is added.
    pub(crate) const FIRST: &'static str = "first";
    /// The name of the token that a user claims with a one-time code.
    pub(crate) const ENROLLED: &'static str = "enrolled";
}

fn invalid(why: String) -> ActionError {
    ActionError::permanent("token.invalid", why)
}

/// Parses an expiry; returns `None` for a token that does not expire.
///
/// # Errors
/// `token.invalid`, with the accepted formats.
pub(super) fn ends(expires: Option<&str>, now: Timestamp) -> Result<Option<Timestamp>, ActionError> {
    let Some(text) = expires else { return Ok(None) };
    let span = iso_span(text).or_else(|| duration::parse(text)).map(|span| now.after(span));
    let moment = || {
        let at = DateTime::parse_from_rfc3339(text).ok()?;
        u64::try_from(at.timestamp_millis()).ok().map(Timestamp)
    };
    match span.or_else(moment) {
        Some(end) if end > now => Ok(Some(end)),
        Some(_) => Err(invalid(format!("expires: {text} is in the past; use a later time"))),
        None => Err(invalid(format!(
            "expires: {text:?} is neither a duration nor a time; write it like `P90D`, `PT12H`, `90d` or `2027-03-01T00:00:00Z`"
        ))),
    }
}

/// Parses an ISO 8601 duration. Years and months are rejected, because their length varies.
fn iso_span(text: &str) -> Option<Duration> {
    let (days, hours) = text
        .strip_prefix('P')?
        .split_once('T')
        .map_or_else(|| (text.strip_prefix('P').unwrap_or_default(), ""), |(days, hours)| (days, hours));
    if let Some(weeks) = days.strip_suffix('W').filter(|_| hours.is_empty()) {
        let weeks: u64 = weeks.parse().ok()?;
        return weeks.checked_mul(7 * 86_400).map(Duration::from_secs);
    }
    let lower = |part: &str| part.to_ascii_lowercase();
    let is_days = days.is_empty() || (days.ends_with('D') && days.len() > 1);
    let is_hours = hours.chars().all(|c| c.is_ascii_digit() || matches!(c, 'H' | 'M' | 'S'));
    (is_days && is_hours && !text.ends_with('T'))
        .then(|| duration::parse(&format!("{}{}", lower(days), lower(hours))))
        .flatten()
}

fn check(new: &NewToken) -> Result<(), ActionError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if new.name.is_empty() || new.name.len() > 64 || !new.name.chars().all(allowed) {
        return Err(invalid("name: use 1 to 64 letters, digits, '.', '-' and '_'".into()));
    }
    Ok(())
}

/// Issues another token for the user `name`; returns `None` if there is no such user. `also` is written in the same commit.
///
/// # Errors
/// `token.exists`, `token.invalid`, or an error of the store.
pub(crate) async fn issue_token<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    name: &str,
    new: &NewToken,
    by: &CredentialAct,
    also: impl Fn(&mut engine::View) -> Result<(), Undecided>,
) -> Result<Option<(StoredToken, Token)>, Error> {
    check(new).map_err(Error::Undecided)?;
    let now = engine.clock().now();
    let ends_at = ends(new.expires.as_deref(), now).map_err(Error::Undecided)?;
    let token = generate_token()?;
    let kept = StoredToken::new(&token, name, &new.name, by).ending(ends_at);
    let made = engine.transact(true, |view| {
        let Some(mut user) = view.get::<User>(name)? else { return Ok(None) };
        if name.starts_with("oidc:") {
            let why =
                format!("name: {name} signs in with the identity provider; add a separate user for programs");
            return Err(invalid(why).into());
        }
        also(view)?;
        view.prefetch::<StoredToken>(user.all_tokens())?;
        let mut held = 0_usize;
        for id in user.all_tokens() {
            let other = view.get::<StoredToken>(id)?;
            held = held.saturating_add(1);
            if other.is_some_and(|other| other.called() == new.name) {
                let why = format!("{name} already has a token {}", new.name);
                return Err(ActionError::permanent("token.exists", why).into());
            }
        }
        if held >= MOST {
            let why = format!("name: {name} has {MOST} tokens; remove unused ones");
            return Err(invalid(why).into());
        }
        user.tokens.push(kept.id.clone());
        view.get::<StoredToken>(&kept.id)?;
        view.put(&kept)?;
        view.put(&user)?;
        Ok(Some(()))
    });
    Ok(made.await?.map(|()| (kept.clone(), token)))
}

/// Revokes the token of `user` with this id or name; returns false if there is none.
///
/// # Errors
/// `user.is_admin` for the bootstrap token, or an error of the store.
pub(crate) async fn remove_token<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    user: &str,
    token: &str,
    offers_oidc: bool,
) -> Result<bool, Error> {
    let is_last = super::bootstrap::is_last_administrator(&**engine.store(), user, offers_oidc).await?;
    engine
        .transact(true, |view| {
            let Some(mut user) = view.get::<User>(user)? else { return Ok(false) };
            view.prefetch::<StoredToken>(user.all_tokens())?;
            let mut meant = None;
            for id in user.all_tokens() {
                let kept = view.get::<StoredToken>(id)?;
                if id == token || kept.is_some_and(|kept| kept.called() == token) {
                    meant = Some(id.clone());
                    break;
                }
            }
            let Some(id) = meant else { return Ok(false) };
            if user.name == ADMIN && user.token == id {
                let why = "the bootstrap token cannot be removed; empty the file admin.token and restart the server to replace it";
                return Err(ActionError::permanent("user.is_admin", why).into());
            }
            let mut lasting = false;
            for other in user.all_tokens().filter(|other| **other != id) {
                let kept = view.get::<StoredToken>(other)?;
                lasting |= kept.is_some_and(|kept| kept.expired_at.is_none() && kept.ends_at.is_none());
            }
            if is_last && !lasting {
                let why = format!(
                    "it is the only permanent token of {}, the last administrator: rotate it, or issue another first",
                    user.name
                );
                return Err(ActionError::permanent("user.is_admin", why).into());
            }
            if user.token == id {
                user.token.clear();
            }
            user.tokens.retain(|other| *other != id);
            view.delete::<StoredToken>(&id)?;
            view.put(&user)?;
            Ok(true)
        })
        .await
}

/// Returns the tokens of `user`, the first one first.
///
/// # Errors
/// An error of the store.
pub(crate) async fn tokens_of(store: &dyn Store, user: &User) -> Result<Vec<StoredToken>, store::Error> {
    let mut found = Vec::new();
    for id in user.all_tokens() {
        let key = Key::new(StoredToken::COLLECTION, id);
        let Some(document) = store.document(&key).await? else { continue };
        let corrupt =
            |e: serde_json::Error| store::Error::Corrupt { what: key.to_string(), why: e.to_string() };
        found.push(serde_json::from_slice(&document.body).map_err(corrupt)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::UserKind;

    #[test]
    fn an_expiry_is_an_iso_8601_duration_or_a_short_duration_or_a_time() {
        let now = Timestamp(1_000);
        let after = |seconds: u64| Ok(Some(Timestamp(1_000 + seconds * 1_000)));
        let read = |text| ends(Some(text), now).map_err(|error| error.code);
        assert_eq!(ends(None, now).unwrap(), None);
        for (text, seconds) in [
            ("P90D", 90 * 86_400),
            ("P2W", 14 * 86_400),
            ("PT12H", 43_200),
            ("P1DT1H30M", 86_400 + 5_400),
            ("90d", 90 * 86_400),
            ("1h30m", 5_400),
        ] {
            assert_eq!(read(text), after(seconds), "{text}");
        }
        assert_eq!(read("1970-01-01T00:01:00Z"), Ok(Some(Timestamp(60_000))));
        for wrong in
            ["", "P", "PT", "P1Y", "P3M", "P1DT", "P1M1D", "PD", "P1H", "P0D", "soon", "1970-01-01T00:00:01Z"]
        {
            assert_eq!(read(wrong), Err("token.invalid".to_owned()), "{wrong:?}");
        }
    }

    #[test]
    fn users_and_tokens_from_before_tokens_had_names_are_readable() {
        let user = r#"{"name":"olga","roles":["platform_ops"],"tenant":null,"token":"0011223344556677","created_at":7,"created_by":"admin"}"#;
        let user: User = serde_json::from_str(user).unwrap();
        assert_eq!((user.kind, user.tokens.len()), (UserKind::Person, 0));
        assert!(user.holds("0011223344556677") && !user.holds(""));
        let kept = r#"{"id":"0011223344556677","hash":"ab","user":"olga"}"#;
        let read: StoredToken = serde_json::from_str(kept).unwrap();
        assert_eq!((read.called(), read.is_over(Timestamp(u64::MAX))), ("first", false));
        assert_eq!(serde_json::to_string(&read).unwrap(), kept, "it is stored unchanged");
    }
}
