//! Denied requests: their journal entry and its text in the audit.
//!
//! A denied request changes nothing else, so its journal entry has a commit of its own, which is written shortly after the request. Equal requests
//! are counted in one entry. Invariant: no secret is stored; of a token only its id is kept.

use crate::signing::Moment;
use engine::AuditContext;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{Entry, Sequence, Timestamp};

/// The maximum length of a stored address and of a stored text, in characters.
const LONGEST: usize = 1_024;

/// The denied request and its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denied {
    /// The network address of the caller. `*` for several.
    pub from: String,
    /// The method and the route, such as `DELETE /v1/users/{name}`. `*` for several.
    pub asked: String,
    /// The id of the token. Never its secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The id of the request, or of the first request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The number of requests that this entry covers.
    pub times: u64,
    /// The time of the first request.
    pub since: Moment,
    /// The time of the last request.
    pub until: Moment,
}

/// A denied request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The caller, or [`Denial::UNKNOWN`].
    pub who: String,
    /// The tenant whose audit lists it. Empty for the platform's own audit.
    pub tenant: String,
    /// The path of the request.
    pub path: String,
    /// The problem code.
    pub code: String,
    /// The text of the answer.
    pub why: String,
    /// The other fields.
    pub what: Denied,
}

impl Denial {
    /// The event name of such entries.
    pub const EVENT: &'static str = "access.denied";
    /// The name of an unauthenticated caller.
    pub const UNKNOWN: &'static str = "unknown";
    /// The value for several different values.
    pub const SEVERAL: &'static str = "*";

    /// Returns the journal entry, written at `now`.
    #[must_use]
    pub fn entry(&self, now: Timestamp) -> Entry {
        let short = |text: &str| text.chars().take(LONGEST).collect::<String>();
        let detail = json!({
            "tenant": self.tenant, "at": short(&self.path), "code": self.code, "why": short(&self.why), "denied": self.what,
        });
        Entry {
            sequence: Sequence(0),
            execution: AuditContext::no_execution(),
            at: now,
            actor: short(&self.who),
            event: Self::EVENT.into(),
            from: String::new(),
            to: String::new(),
            detail: serde_json::to_vec(&detail).unwrap_or_default(),
        }
    }
}

impl Denied {
    /// Returns the sentence of the entry.
    pub(super) fn describe(&self, who: &str, at: &str, code: &str) -> String {
        let who = if who == Denial::SEVERAL { "several callers" } else { who };
        let asked = if self.asked == Denial::SEVERAL { "several things" } else { &self.asked };
        let at = if at.is_empty() { String::new() } else { format!(" at {at}") };
        let from = if self.from == Denial::SEVERAL { "several addresses" } else { &self.from };
        let mut says = format!("{who} was denied {asked}{at}, from address {from}: {code}");
        if self.times > 1 {
            says.push_str(&format!("; {} times, from {} to {}", self.times, self.since, self.until));
        }
        says
    }
}
