//! The simulated workflows: a main workflow whose steps are data, its child chores, and demolitions, which destroy a
//! plan that two users approved.

mod actions;
mod chore;
mod demolition;
mod errand;
mod pool;

pub use actions::{Made, Make, Pay, Unmake, Wreck};
pub use chore::{Chore, Doing};
pub use demolition::{Demolition, Wrecking};
pub use errand::{Errand, Going, Spec};
pub use pool::{Pool, Release, Reserve};

use engine::{HOUR, MINUTE, RetryPolicy, Workflow};
use std::time::Duration;

/// How long approvals and signals are awaited.
pub const ANSWER_WITHIN: Duration = HOUR;
/// The duration of a plain wait.
pub const SLEEP: Duration = Duration::from_secs(600);

fn policy() -> RetryPolicy {
    RetryPolicy { attempts: 4, ..RetryPolicy::default() }
}

/// Returns how soon a state may pass its deadline, by workflow and state; `None` without a relevant deadline.
#[must_use]
pub fn soonest(workflow: &str, state: &str, data: &serde_json::Value) -> Option<Duration> {
    match workflow {
        Errand::NAME => {
            let errand: Errand = serde_json::from_value(data.clone()).ok()?;
            Some(match errand.spec(state)? {
                Spec::Ask | Spec::Listen => ANSWER_WITHIN,
                Spec::Sleep => SLEEP,
                Spec::Make(_) | Spec::Reserve(_) => 6 * HOUR,
                Spec::Send(_) => 24 * HOUR,
                Spec::Pay(_) => MINUTE,
            })
        }
        Chore::NAME if state == "Dawdling" => Some(SLEEP),
        Demolition::NAME if state == "Agreeing" => Some(ANSWER_WITHIN),
        _ => None,
    }
}
