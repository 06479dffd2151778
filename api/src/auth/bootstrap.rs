//! The end of the first admin's token: it is for setting up, and ends once there is an administrator with a credential of their own.
//!
//! Called for every caller that is let in. Invariant: the token never ends unless another administrator has just been let in by a
//! credential that nobody else can have; and who is left without one empties the file `admin.token` and restarts the server.

use super::{Caller, Role, User, UserKind, Verb, collections::all, stored_token::StoredToken, user::ADMIN};
use engine::{Claim, Engine, Error};
use store::Store;

impl Caller {
    /// Whether this is an administrator of the platform by a credential that nobody else can have, and that does not end by itself.
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

/// Ends the first admin's token if `caller` is another administrator; true if it has ended, now or before.
///
/// # Errors
/// The store's. The token goes on then, and the next call tries again.
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
        tracing::warn!(by = caller.name, "the first admin's token has ended: there is another administrator");
    }
    Ok(true)
}

/// Returns true if no administrator of the platform remains without the user `name`. Users of an identity provider count only where
/// the server offers it (`offers_oidc`): without it they cannot sign in.
///
/// # Errors
/// The store's.
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

/// What the holder of the ended token is told. `by` is the other administrator.
pub(crate) fn explain_end(by: &str) -> String {
    format!(
        "the first admin's token has ended, since {by} administers with a credential of their own: use your own token; where no \
         administrator is left, empty the file admin.token in the data folder and restart the server"
    )
}
