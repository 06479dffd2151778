//! The tokens of users: several each, each with a name, and with an end if one was asked for.
//!
//! Invariant: a token opens something while its user names it. Taking its name off the user is what ends it.

use super::user::{ADMIN, User, generate_token};
use chrono::DateTime;
use engine::{ActionError, Claim, CredentialAct, Engine, Entity, Error, Undecided};
use program::token::Token;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};
use store::{Commit, Key, Put, Read, Store, Timestamp};
use workflows::policy::duration;

/// The most tokens of one user, those that are over included.
const MOST: usize = 50;
/// Tokens read in one go.
const PAGE: usize = 1_000;

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredToken {
    /// Names it.
    pub(crate) id: String,
    /// SHA-256 of the secret.
    pub(crate) hash: String,
    /// Whose it is.
    pub(crate) user: String,
    /// What it is called, unique among its user's; empty of one that was drawn before tokens had names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    /// When it was drawn, if that was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created_at: Option<Timestamp>,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created_by: Option<String>,
    /// Who else could have drawn it in that name; absent of one that an earlier version drew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) controlled_by: Option<BTreeSet<String>>,
    /// How it came to its user.
    #[serde(default, skip_serializing_if = "is_issued")]
    pub(crate) claim: Claim,
    /// When it opens nothing any more, if it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ends_at: Option<Timestamp>,
    /// The full hour in which it was used last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) used_at: Option<Timestamp>,
    /// When it was found to have expired. It stays so, also where the clock is set back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expired_at: Option<Timestamp>,
    /// The administrator whose own credential ended it, of the first admin's first token.
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
    /// What is kept of `token`, of `user` and called `name`.
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

    /// The same, ending then.
    pub(super) fn ending(self, ends_at: Option<Timestamp>) -> Self {
        Self { ends_at, ..self }
    }

    /// Whether its time is over.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.expired_at.is_some() || self.ends_at.is_some_and(|end| end <= now)
    }

    /// Records that it has expired, unless that is on record. It is refused whether or not that succeeds.
    pub(super) async fn record_expiry(&self, store: &dyn Store, now: Timestamp) {
        if self.expired_at.is_some() {
            return;
        }
        if let Err(error) = write_expiry(store, &self.id, now).await {
            tracing::warn!(%error, user = self.user, token = self.called(), "the expiry of a token is not on record yet");
        }
    }

    /// What it is called.
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

/// Records the expiry of every token that is over.
///
/// # Errors
/// The store's.
pub(crate) async fn record_expiries(store: &dyn Store, now: Timestamp) -> Result<(), store::Error> {
    let mut after: Option<String> = None;
    loop {
        let found = store.documents(StoredToken::COLLECTION, "", after.as_deref(), PAGE).await?;
        for document in &found.items {
            // One that cannot be read opens nothing.
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

/// A token that is asked for.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// What it is for, such as `ci`: 1 to 64 letters, digits, `.`, `-` and `_`, unique among the user's.
    pub(crate) name: String,
    /// When it ends: after a time (`P90D`, `90d`) or at a moment; never if absent.
    #[serde(default)]
    pub(crate) expires: Option<String>,
}

impl NewToken {
    /// What the token is called that a user is added with.
    pub(crate) const FIRST: &'static str = "first";
    /// What the token is called that a user has claimed with a one-time code.
    pub(crate) const ENROLLED: &'static str = "enrolled";
}

fn invalid(why: String) -> ActionError {
    ActionError::permanent("token.invalid", why)
}

/// When something ends that is said to expire so; `None` for what does not.
///
/// # Errors
/// `token.invalid`, which says how to write it.
pub(super) fn ends(expires: Option<&str>, now: Timestamp) -> Result<Option<Timestamp>, ActionError> {
    let Some(text) = expires else { return Ok(None) };
    let span = iso_span(text).or_else(|| duration::parse(text)).map(|span| now.after(span));
    let moment = || {
        let at = DateTime::parse_from_rfc3339(text).ok()?;
        u64::try_from(at.timestamp_millis()).ok().map(Timestamp)
    };
    match span.or_else(moment) {
        Some(end) if end > now => Ok(Some(end)),
        Some(_) => Err(invalid(format!("expires: {text} is over already; name a later end"))),
        None => Err(invalid(format!(
            "expires: {text:?} is neither a time nor a moment; write it like `P90D`, `PT12H`, `90d` or `2027-03-01T00:00:00Z`"
        ))),
    }
}

/// The span that an ISO 8601 duration says. Years and months have no one length, and are none.
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

/// Draws one more token for the user `name`; `None` when there is no such user. `also` is written with it.
///
/// # Errors
/// `token.exists`, `token.invalid`, or the store's.
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
            let why = format!(
                "name: {name} signs in through the identity provider; add a user for what has no browser"
            );
            return Err(invalid(why).into());
        }
        also(view)?;
        view.prefetch::<StoredToken>(user.all_tokens())?;
        let mut held = 0_usize;
        for id in user.all_tokens() {
            let other = view.get::<StoredToken>(id)?;
            held = held.saturating_add(1);
            if other.is_some_and(|other| other.called() == new.name) {
                let why = format!("{name} has a token {} already", new.name);
                return Err(ActionError::permanent("token.exists", why).into());
            }
        }
        if held >= MOST {
            let why = format!("name: {name} has {MOST} tokens; remove those that are used no more");
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

/// Takes back the token of `user` of this id or name; false when there is none.
///
/// # Errors
/// `user.is_admin` for the first admin's first, or the store's.
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
                let why = "the first admin's first token cannot be removed; empty the file admin.token and restart the server to replace it";
                return Err(ActionError::permanent("user.is_admin", why).into());
            }
            let mut lasting = false;
            for other in user.all_tokens().filter(|other| **other != id) {
                let kept = view.get::<StoredToken>(other)?;
                lasting |= kept.is_some_and(|kept| kept.expired_at.is_none() && kept.ends_at.is_none());
            }
            if is_last && !lasting {
                let why = format!(
                    "it is the only lasting token of {}, the last administrator: rotate it, or draw another first",
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

/// The tokens of `user`, the one they were added with first.
///
/// # Errors
/// The store's.
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
    fn an_end_is_a_time_as_iso_8601_or_this_house_writes_it_or_a_moment() {
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
    fn users_and_tokens_that_were_kept_before_tokens_had_names_can_still_be_read() {
        let user = r#"{"name":"olga","roles":["platform_ops"],"tenant":null,"token":"0011223344556677","created_at":7,"created_by":"admin"}"#;
        let user: User = serde_json::from_str(user).unwrap();
        assert_eq!((user.kind, user.tokens.len()), (UserKind::Person, 0));
        assert!(user.holds("0011223344556677") && !user.holds(""));
        let kept = r#"{"id":"0011223344556677","hash":"ab","user":"olga"}"#;
        let read: StoredToken = serde_json::from_str(kept).unwrap();
        assert_eq!((read.called(), read.is_over(Timestamp(u64::MAX))), ("first", false));
        assert_eq!(serde_json::to_string(&read).unwrap(), kept, "it is written as it was");
    }
}
