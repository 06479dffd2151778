//! Limits on the number of streams, in total and per token; also ends streams whose token is no longer valid.

use crate::auth::{Caller, Denied, policy::AccessPolicy, reauthenticate, voting_person};
use engine::Person;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use store::{Store, Timestamp};
use tokio::sync::watch;

/// The caller of a stream, and its seats at approvals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatcherIdentity {
    /// The caller.
    pub(crate) caller: Caller,
    /// The caller as a person with groups.
    pub(crate) person: Person,
}

/// All open streams.
#[derive(Debug)]
pub(crate) struct StreamQuota {
    most: usize,
    most_each: usize,
    taken: Mutex<BTreeMap<String, TokenStreams>>,
}

/// The streams of a token.
#[derive(Debug)]
struct TokenStreams {
    held: usize,
    standing: WatcherIdentity,
    /// Set to the reason when its streams must end.
    over: watch::Sender<Option<&'static str>>,
}

/// A place, released when dropped.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    of: Arc<StreamQuota>,
    token: String,
    over: watch::Receiver<Option<&'static str>>,
}

impl StreamQuota {
    pub(crate) fn new(most: usize, most_each: usize) -> Self {
        Self { most, most_each, taken: Mutex::default() }
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<String, TokenStreams>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for the token with this id.
    ///
    /// # Errors
    /// The reached limit.
    pub(crate) fn take(
        self: &Arc<Self>,
        token: &str,
        standing: WatcherIdentity,
    ) -> Result<StreamPermit, String> {
        let mut taken = self.taken();
        let all: usize = taken.values().map(|token| token.held).sum();
        if all >= self.most {
            return Err(format!("{} streams are open, the maximum of this server (http.streams)", self.most));
        }
        let known = taken.get(token).filter(|known| known.over.borrow().is_none());
        if known.is_some_and(|known| known.held >= self.most_each) {
            let most = self.most_each;
            return Err(format!(
                "{most} streams are open with this token, the maximum per token (http.streams_per_token)"
            ));
        }
        let fresh = || TokenStreams { held: 0, standing: standing.clone(), over: watch::Sender::new(None) };
        let known = taken.entry(token.to_owned()).or_insert_with(fresh);
        if known.standing != standing || known.over.borrow().is_some() {
            // Earlier streams of the token had other rights, and end; their places are still counted.
            known.over.send_replace(Some(CHANGED));
            *known = TokenStreams { held: known.held, ..fresh() };
        }
        known.held = known.held.saturating_add(1);
        Ok(StreamPermit { of: self.clone(), token: token.to_owned(), over: known.over.subscribe() })
    }

    /// Ends the streams of every token that has changed.
    pub(crate) async fn check(&self, store: &dyn Store, law: &Arc<AccessPolicy>, now: Timestamp) {
        let known: Vec<(String, WatcherIdentity)> =
            self.taken().iter().map(|(token, known)| (token.clone(), known.standing.clone())).collect();
        for (token, standing) in known {
            let why = match current_identity(store, law.clone(), &token, now).await {
                Ok(Some(current)) if current == standing => continue,
                Ok(Some(_)) => CHANGED,
                Ok(None) => REVOKED,
                Err(error) => {
                    tracing::debug!(%error, "cannot check a token; trying again");
                    continue;
                }
            };
            if let Some(known) = self.taken().get(&token).filter(|known| known.standing == standing) {
                known.over.send_replace(Some(why));
            }
        }
    }
}

/// The token was revoked.
const REVOKED: &str = "token";
/// The rights of the token's user have changed.
const CHANGED: &str = "rights";

async fn current_identity(
    store: &dyn Store,
    law: Arc<AccessPolicy>,
    token: &str,
    now: Timestamp,
) -> Result<Option<WatcherIdentity>, store::Error> {
    let caller = match reauthenticate(store, law, token, now).await {
        Ok(caller) => caller,
        Err(Denied::NoToken | Denied::BadToken(_) | Denied::BootstrapEnded(_)) => return Ok(None),
        Err(Denied::Store(error)) => return Err(error),
    };
    WatcherIdentity::of(store, caller).await.map(Some)
}

impl WatcherIdentity {
    /// Returns the present state of `caller`.
    pub(crate) async fn of(store: &dyn Store, caller: Caller) -> Result<Self, store::Error> {
        let person = voting_person(store, &caller.name, &caller).await?.unwrap_or_else(|| caller.person());
        Ok(Self { caller, person })
    }
}

impl StreamPermit {
    /// Returns the reason if the stream must end.
    pub(crate) fn over(&self) -> Option<&'static str> {
        *self.over.borrow()
    }

    /// Waits until the stream must end.
    pub(crate) async fn ends(&mut self) {
        // The sender is dropped only after it has sent a reason.
        _ = self.over.wait_for(Option::is_some).await;
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        if let Some(known) = taken.get_mut(&self.token) {
            known.held = known.held.saturating_sub(1);
            if known.held == 0 {
                taken.remove(&self.token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(name: &str) -> WatcherIdentity {
        let caller = Caller::new(name, Vec::new(), None, AccessPolicy::shipped());
        WatcherIdentity { person: caller.person(), caller }
    }

    #[test]
    fn places_are_limited_and_a_dropped_place_is_free_again() {
        let places = Arc::new(StreamQuota::new(3, 2));
        let (one, two) =
            (places.take("a", standing("ada")).unwrap(), places.take("a", standing("ada")).unwrap());
        let third = places.take("a", standing("ada")).unwrap_err();
        assert!(third.contains("http.streams_per_token"), "{third}");
        let other = places.take("b", standing("bob")).unwrap();
        let fourth = places.take("c", standing("cleo")).unwrap_err();
        assert!(fourth.contains("http.streams)"), "{fourth}");
        drop((one, other));
        assert!(places.take("a", standing("ada")).is_ok());
        drop(two);
        assert!(places.taken().is_empty());
    }

    #[tokio::test]
    async fn streams_end_when_the_rights_of_their_user_change() {
        let places = Arc::new(StreamQuota::new(3, 3));
        let mut before = places.take("a", standing("ada")).unwrap();
        let after = places.take("a", standing("bob")).unwrap();
        before.ends().await;
        assert_eq!((before.over(), after.over()), (Some(CHANGED), None));
    }
}
