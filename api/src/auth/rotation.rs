//! The next token in the place of one: the same name and the same rights, and the one before opens nothing from then on.

use super::{
    stored_token::StoredToken,
    user::{ADMIN, User, generate_token, keep},
};
use engine::{ActionError, CredentialAct, Engine, Error, Undecided};
use program::token::Token;
use std::path::Path;

/// Draws the next token in the place of that of `user` with this id or name; `None` where there is none. `also` is written with it.
/// A token that ends keeps its end. The first admin's first is kept in `file`, too.
///
/// # Errors
/// `token.invalid` for one that has ended, `admin_token.unwritable`, or the store's.
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
        let why = format!("token {} of {} has ended: draw another", kept.called(), found.name);
        return Err(Error::Undecided(ActionError::permanent("token.invalid", why)));
    }
    if found.name == ADMIN && found.token == kept.id && file.exists() {
        // Before the commit: the next start takes the token of the file, so that neither order locks anybody out.
        keep(file, &next).map_err(|error| {
            let why = format!("{}: {error}; the admin token is kept there", file.display());
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
            let why = format!("token {} of {} has ended: draw another", kept.called(), found.name);
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
