//! A request that was refused for who asked, on its way into the journal and out of it.
//!
//! Nothing else is changed by such a request, so its journal entry stands in a commit of its own, made a little later by whoever
//! counts them. Invariant: no secret gets in, since of a token only its id is taken.

use crate::signing::Moment;
use engine::AuditContext;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{Entry, Sequence, Timestamp};

/// The longest address and the longest words that are kept, in characters.
const LONGEST: usize = 1_024;

/// What was refused, and from where it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denied {
    /// The network address that asked; `*` for several.
    pub from: String,
    /// The method and the route, such as `DELETE /v1/users/{name}`; `*` for several.
    pub asked: String,
    /// The id of the token that was sent; never its secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The id of the request, of several that of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// How many requests this entry stands for.
    pub times: u64,
    /// When the first of them was refused.
    pub since: Moment,
    /// When the last of them was.
    pub until: Moment,
}

/// A refusal as it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Who asked, as far as that is known; [`Denial::UNKNOWN`] where it is not.
    pub who: String,
    /// In whose audit it is told; empty for the platform's own.
    pub tenant: String,
    /// The address with its names filled in.
    pub path: String,
    /// Why, as a code of a problem.
    pub code: String,
    /// Why, in the words of the answer.
    pub why: String,
    /// The rest of it.
    pub what: Denied,
}

impl Denial {
    /// The event of such entries.
    pub const EVENT: &'static str = "access.denied";
    /// Who asks with nothing that says who it is.
    pub const UNKNOWN: &'static str = "unknown";
    /// Stands for several, where one is named otherwise.
    pub const SEVERAL: &'static str = "*";

    /// Its entry in the journal, written at `now`.
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
    /// All of it as a sentence.
    pub(super) fn describe(&self, who: &str, at: &str, code: &str) -> String {
        let who = if who == Denial::SEVERAL { "several callers" } else { who };
        let asked = if self.asked == Denial::SEVERAL { "several things" } else { &self.asked };
        let at = if at.is_empty() { String::new() } else { format!(" at {at}") };
        let from = if self.from == Denial::SEVERAL { "several addresses" } else { &self.from };
        let mut says = format!("{who} was denied {asked}{at}, asked from {from}: {code}");
        if self.times > 1 {
            says.push_str(&format!("; {} times, from {} to {}", self.times, self.since, self.until));
        }
        says
    }
}
