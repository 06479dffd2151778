//! Standing in for somebody: a delegation as the core sees it, brought along with a vote. Pure.
//!
//! The shell finds the delegations; whether one covers a vote is decided here. One that was itself delegated never counts: the
//! roles of who delegates are their own.

use crate::{Person, Refusal, Vote};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// That somebody may vote for somebody else, for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mandate {
    /// Names the delegation.
    pub id: String,
    /// Who delegates.
    pub from: String,
    /// To whom.
    pub to: String,
    /// Which roles and groups; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// From when on.
    pub since: Timestamp,
    /// Until when, that moment excluded.
    pub until: Timestamp,
}

impl Mandate {
    /// Whether it counts at `at`.
    #[must_use]
    pub fn holds(&self, at: Timestamp) -> bool {
        self.since <= at && at < self.until
    }

    /// Whether it counts at any time from `from` to `to`, both included.
    pub(crate) fn touches(&self, from: Timestamp, to: Timestamp) -> bool {
        self.since <= to && from < self.until && self.since < self.until
    }

    fn covers(&self, role: &String) -> bool {
        self.roles.is_empty() || self.roles.contains(role)
    }
}

/// `vote` with what it stands on alone: of the one voted for the roles that were delegated, and the delegations that say so.
///
/// # Errors
/// [`Refusal::NotDelegated`].
pub(crate) fn mandated(vote: Vote) -> Result<Vote, Refusal> {
    let Some(principal) = vote.on_behalf_of else { return Ok(Vote { mandates: Vec::new(), ..vote }) };
    let mut mandates = vote.mandates;
    mandates.retain(|mandate| {
        mandate.from == principal.name && mandate.to == vote.person.name && mandate.holds(vote.at)
    });
    if mandates.is_empty() || principal.name == vote.person.name {
        return Err(Refusal::NotDelegated { person: vote.person.name, from: principal.name });
    }
    let roles =
        principal.roles.into_iter().filter(|role| mandates.iter().any(|mandate| mandate.covers(role)));
    let on_behalf_of = Some(Person { roles: roles.collect(), name: principal.name });
    Ok(Vote { on_behalf_of, mandates, ..vote })
}
