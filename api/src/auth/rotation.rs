//! Rotation of tokens: a new token with the same name and rights replaces the old one.

use super::{
    stored_token::StoredToken,
    user::{ADMIN, User, generate_token, keep},
};
use engine::{ActionError, CredentialAct, Engine, Error, Undecided};
use program::token::Token;
use std::path::Path;

/// Rotates the token of `user` with this id or name; returns `None` if there is none. `also` is written in the same commit. The expiry is kept. The bootstrap
/// token is also written to `file`.
///
/// # Errors
/// `token.invalid` for an expired token, `admin_token.unwritable`, or an error of the store.
pub(crate) async fn rotate_token<P: Send + Sync + 'static>(
    engine: &Engine<P>,
    (user, token): (&str, &str),
    by: &CredentialAct,
    file: &Path,
    also: impl Fn(&mut engine::View) -> Result<(), Undecided>,
) -> Result<Option<(StoredToken, Token)>, Error> {
    let next = generate_token()?;
    let found = engine.transact(false, |view| {
        let Some(user) = view.get::<User>(user)? else { return Ok(None) };
        let ids: Vec<String> = user.all_tokens().cloned().collect();
        view.prefetch::<StoredToken>(&ids)?;
        for id in &ids {
            let kept = view.get::<StoredToken>(id)?;
            if let Some(kept) = kept.filter(|kept| kept.id == token || kept.called() == token) {
                return Ok(Some((user, kept)));
            }
        }
        Ok(None)
    });
    let Some((found, kept)) = found.await? else { return Ok(None) };
    if kept.is_over(engine.clock().now()) {
        let why = format!("token {} of {} has expired: issue another", kept.called(), found.name);
        return Err(Error::Undecided(ActionError::permanent("token.invalid", why)));
    }
    if found.name == ADMIN && found.token == kept.id && file.exists() {
        // The file is written before the commit: the next start uses its token, so a crash in between locks no administrator out.
        keep(file, &next).map_err(|error| {
            let why = format!("{}: {error}; the admin token is stored there", file.display());
            Error::Undecided(ActionError::permanent("admin_token.unwritable", why))
        })?;
    }
    let issued = StoredToken::new(&next, &found.name, kept.called(), by).ending(kept.ends_at);
    let rotated = engine.transact(true, |view| {
        let Some(mut user) = view.get::<User>(&found.name)?.filter(|user| user.holds(&kept.id)) else {
            return Ok(None);
        };
        also(view)?;
        if user.token == kept.id {
            user.token.clone_from(&issued.id);
        }
        for id in &mut user.tokens {
            if *id == kept.id {
                id.clone_from(&issued.id);
            }
        }
        let Some(now_kept) = view.get::<StoredToken>(&kept.id)? else { return Ok(None) };
        if now_kept.is_over(view.now()) {
            let why = format!("token {} of {} has expired: issue another", kept.called(), found.name);
            return Err(ActionError::permanent("token.invalid", why).into());
        }
        view.delete::<StoredToken>(&kept.id)?;
        view.get::<StoredToken>(&issued.id)?;
        view.put(&issued)?;
        view.put(&user)?;
        Ok(Some(()))
    });
    Ok(rotated.await?.map(|()| (issued.clone(), next)))
}
