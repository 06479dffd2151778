//! Executions and their history.

use super::{Object, Time};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// An execution in lists.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ExecutionRow")]
pub(crate) struct Row {
    /// A UUID of version 7.
    pub(crate) id: String,
    /// Counts its changes; the `ETag`.
    pub(crate) revision: u64,
    pub(crate) workflow: String,
    /// The version of the workflow's data.
    pub(crate) schema: u32,
    /// Empty for the platform's own.
    pub(crate) tenant: String,
    /// What it is about, such as `tenant/acme`.
    pub(crate) subject: String,
    pub(crate) state: String,
    /// What is going on: `forward`, `compensating`, `paused`, `parked` or `finished`.
    pub(crate) phase: String,
    /// Why it is parked or overdue, or how it finished.
    pub(crate) reason: Option<String>,
    pub(crate) open: bool,
    pub(crate) requested_by: String,
    /// The execution that started it.
    pub(crate) parent: Option<String>,
    pub(crate) labels: Vec<String>,
    #[schemars(with = "Time")]
    pub(crate) created_at: String,
    #[schemars(with = "Time")]
    pub(crate) updated_at: String,
    /// How far it is, while it is open; told by the execution itself, by lists and by what is present when a stream begins.
    pub(crate) progress: Option<Progress>,
}

/// How far an execution is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ExecutionProgress")]
pub(crate) struct Progress {
    /// How many states are behind it, on the longest way through its present one; `null` where that is on no way that leads on.
    done: Option<usize>,
    /// How many states that way has.
    total: Option<usize>,
    current: Current,
    /// When it will be over, if it goes as the last ones of its workflow went. `null` while it is not on its way, or too few went
    /// through its state lately.
    #[schemars(with = "Option<Time>")]
    eta: Option<String>,
}

/// What an execution is at.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "CurrentState")]
struct Current {
    state: String,
    /// What its action said last of how far that is.
    beat: Option<String>,
}

impl Progress {
    /// `place` is how many states are behind it, and of how many.
    pub(crate) fn new(
        place: Option<(usize, usize)>,
        state: &str,
        beat: Option<String>,
        eta: Option<String>,
    ) -> Self {
        let (done, total) = place.unzip();
        Self { done, total, current: Current { state: state.to_owned(), beat }, eta }
    }
}

/// An execution in full.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Execution {
    #[serde(flatten)]
    pub(crate) row: Row,
    /// Since when it is in its state.
    #[schemars(with = "Time")]
    pub(crate) since: String,
    /// What it will do, as people vote on it.
    #[schemars(with = "Plan")]
    pub(crate) plan: Value,
    /// The plan's digest; empty where this version cannot read it.
    #[schemars(with = "String")]
    pub(crate) digest: Value,
    /// Why it was turned back.
    pub(crate) cause: Value,
    /// What keeps it parked.
    #[schemars(with = "Vec<Failure>")]
    pub(crate) errors: Value,
    /// What last went wrong and was led elsewhere.
    #[schemars(with = "Option<Object>")]
    pub(crate) last_failure: Value,
    /// What its present actions have been through, where there is something to tell.
    pub(crate) attempts: Vec<Attempt>,
    /// What it has done, and how each is undone.
    pub(crate) trail: Vec<Mark>,
    /// What could not be taken back.
    pub(crate) left_behind: Vec<Mark>,
    /// The state past which there is only forward, once it is reached.
    pub(crate) pivot: Value,
    /// Who let it pass.
    #[schemars(with = "Option<Object>")]
    pub(crate) authorisation: Value,
    #[schemars(with = "Option<String>")]
    pub(crate) paused_by: Value,
    #[schemars(with = "Option<String>")]
    pub(crate) cancelled_by: Value,
    pub(crate) children: Vec<Child>,
    /// `null` once it has finished.
    pub(crate) waiting_for: Option<Waiting>,
    /// The workflow's own data.
    pub(crate) data: Value,
}

/// What an execution will do.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct Plan {
    title: String,
    /// What people decide on: their votes are void when it changes.
    decides: Value,
    /// Where things are to lie; may change without a new vote.
    placement: Value,
}

/// What an action failed with.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct Failure {
    /// What the engine does about it: `transient`, `permanent`, `unknown`, or `pending` with a span.
    class: Value,
    /// Listed in docs/operations.md with what to do.
    code: String,
    message: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    retry_after: Option<Value>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    beat: Option<Value>,
}

/// What one action has been through.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Attempt {
    pub(crate) slot: usize,
    /// How often it failed.
    #[schemars(with = "u32")]
    pub(crate) failed: Value,
    /// Whether a call without an answer has to be asked about.
    pub(crate) doubt: Value,
    #[schemars(with = "u32")]
    pub(crate) edition: Value,
    /// Its last error.
    pub(crate) last: Value,
    /// What it last said of how far it is.
    pub(crate) beat: Value,
}

/// One action on the trail.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "TrailMark")]
pub(crate) struct Mark {
    pub(crate) state: Value,
    pub(crate) action: Value,
    /// The action that takes it back.
    pub(crate) undo: Value,
    pub(crate) arguments: Value,
    pub(crate) fate: Value,
}

/// An execution that another one has started.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChildExecution")]
pub(crate) struct Child {
    pub(crate) execution: String,
    pub(crate) workflow: String,
    pub(crate) subject: String,
    /// The parent's state that started it.
    pub(crate) state: String,
    pub(crate) slot: u32,
    pub(crate) attempt: u32,
    #[schemars(with = "Time")]
    pub(crate) started_at: String,
    #[schemars(with = "Option<String>")]
    pub(crate) outcome: Value,
}

/// What an execution waits for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "WaitingFor")]
pub(crate) struct Waiting {
    pub(crate) approval: Option<Asked>,
    #[schemars(with = "Option<Time>")]
    pub(crate) next_action_at: Option<String>,
    pub(crate) tasks: usize,
    /// Places that its attempts wait for.
    pub(crate) limits: Vec<Limited>,
}

/// The approval that an execution waits for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AwaitedApproval")]
pub(crate) struct Asked {
    pub(crate) id: String,
    pub(crate) digest: String,
    /// Who must agree, such as `1 of platform_ops and 1 of finance`.
    pub(crate) wanted: String,
    #[schemars(with = "Option<Time>")]
    pub(crate) deadline: Option<String>,
    pub(crate) ruling: Option<String>,
    pub(crate) takes_effect: Option<&'static str>,
}

/// A place at a key that an attempt waits for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AwaitedPlace")]
pub(crate) struct Limited {
    pub(crate) key: String,
    pub(crate) slot: u32,
    pub(crate) code: &'static str,
    pub(crate) why: String,
    #[schemars(with = "Time")]
    pub(crate) since: String,
    #[schemars(with = "Time")]
    pub(crate) looks_again_at: String,
}

/// One line of an execution's history.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "JournalLine")]
pub(crate) struct Line {
    pub(crate) sequence: u64,
    #[schemars(with = "Time")]
    pub(crate) at: String,
    pub(crate) actor: String,
    pub(crate) event: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) detail: Value,
}

/// An execution that somebody has to look at.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "StuckRow")]
pub(crate) struct Stuck {
    #[serde(flatten)]
    pub(crate) row: Row,
    #[schemars(with = "Time")]
    pub(crate) since: String,
    pub(crate) age_seconds: u64,
    /// Whose turn it is, by role.
    pub(crate) owner: Vec<String>,
    /// What to do.
    pub(crate) next: &'static str,
    /// Codes of its errors.
    pub(crate) errors: Vec<String>,
    pub(crate) message: Option<String>,
}

/// What an execution that was closed by force left behind.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Leftovers {
    #[serde(flatten)]
    pub(crate) row: Row,
    /// A release undoes it. False past the point of no return: then a release records that an operator has seen to it.
    pub(crate) undoable: bool,
    /// What is left, the latest first.
    pub(crate) left: Vec<Mark>,
}

/// What a repair would lead to.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct RepairPreview {
    state: String,
    phase: String,
    /// Where it could go from there.
    edges: Vec<Value>,
    data: Value,
    slots: Value,
    /// Whether a second person has to agree.
    needs_second: bool,
    /// Which fields of the data change.
    changes: Vec<Change>,
}

/// What an order would lead to.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct OrderPreview {
    pub(crate) state: String,
    pub(crate) phase: String,
    /// What would be taken back, the latest first.
    pub(crate) would_undo: Vec<Mark>,
    /// What would stay behind for good.
    pub(crate) would_leave: Vec<Mark>,
    /// Whether a second person has to agree.
    pub(crate) needs_second: bool,
}

/// A field that changes.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what is built field by field")]
pub(crate) struct Change {
    field: String,
    from: Value,
    to: Value,
}

/// A command that waits for a second person.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct Proposal {
    id: String,
    /// The same as `id`.
    proposal: String,
    execution: String,
    /// Void once the execution has another.
    revision: u64,
    workflow: String,
    tenant: String,
    subject: String,
    state: String,
    /// Its name, such as `repair`.
    command: String,
    /// The command in full.
    event: Value,
    by: String,
    reason: String,
    at: Time,
    /// Whether the execution has moved on, so that it can no longer take effect.
    void: bool,
}

/// A picture of a workflow.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct Drawn {
    diagram: Object,
    /// The state that is lit.
    current: Option<String>,
}
