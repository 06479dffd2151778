//! The end of the bootstrap token: the first admin's token is for setup, and ends once another administrator has a credential of their own.
//!
//! Called for every authenticated caller. Invariant: the token ends only after another administrator has used a credential that no other person can have. To
//! recover, empty the file `admin.token` and restart the server.

use super::{Caller, Role, User, UserKind, Verb, collections::all, stored_token::StoredToken, user::ADMIN};
use engine::{Claim, Engine, Error};
use store::Store;

impl Caller {
    /// Returns true if the caller is an administrator of the platform, with a permanent credential that no other person can have.
    fn is_real_administrator(&self) -> bool {
        let lasts = self.ends_at.is_none() || self.credential.claim == Claim::Oidc;
        self.name != ADMIN
            && self.kind == UserKind::Person
            && self.tenant.is_none()
            && self.roles.contains(&Role::Admin)
            && self.may(Verb::ManageUsers)
            && lasts
            && self.provenance().controlled_by.is_empty()
    }
}

/// Ends the bootstrap token if `caller` is another administrator. Returns true if it has ended.
///
/// # Errors
/// An error of the store. The token stays valid, and the next call tries again.
pub(crate) async fn end_bootstrap_token<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    caller: &Caller,
) -> Result<bool, Error> {
    if !caller.is_real_administrator() {
        return Ok(false);
    }
    let ended = engine
        .transact(true, |view| {
            let Some(admin) = view.get::<User>(ADMIN)? else { return Ok(false) };
            let Some(first) = view.get::<StoredToken>(&admin.token)? else { return Ok(false) };
            if first.ended_by.is_some() {
                return Ok(false);
            }
            let now = view.now();
            let expired_at = Some(first.expired_at.unwrap_or(now));
            view.put(&StoredToken { ended_by: Some(caller.name.clone()), expired_at, ..first })?;
            Ok(true)
        })
        .await?;
    if ended {
        tracing::warn!(
            by = caller.name,
            "the bootstrap token has ended, because another administrator has signed in"
        );
    }
    Ok(true)
}

/// Returns true if the platform has no administrator except the user `name`. Users of an identity provider count only if the server offers it (`offers_oidc`).
///
/// # Errors
/// An error of the store.
pub(super) async fn is_last_administrator(
    store: &dyn Store,
    name: &str,
    offers_oidc: bool,
) -> Result<bool, store::Error> {
    let users = all::<User>(store).await?;
    let tokens = all::<StoredToken>(store).await?;
    let opens = |user: &User| {
        (offers_oidc && user.name.starts_with("oidc:"))
            || user.all_tokens().any(|id| {
                tokens
                    .iter()
                    .any(|token| token.id == *id && token.expired_at.is_none() && token.ends_at.is_none())
            })
    };
    let administers = |user: &&User| {
        user.kind == UserKind::Person
            && user.tenant.is_none()
            && user.roles.contains(&Role::Admin)
            && opens(user)
    };
    let mut administrators = users.iter().filter(administers).map(|user| user.name.as_str());
    Ok(administrators.next() == Some(name) && administrators.next().is_none())
}

/// Explains the end to a caller with the old token. `by` is the other administrator.
pub(crate) fn explain_end(by: &str) -> String {
    format!(
        "the bootstrap token has ended, because {by} is an administrator with a credential of their own: use your own token; if no administrator is left, \
         empty the file admin.token in the data folder and restart the server"
    )
}
