//! Executions and their journals.

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
    /// Increases with each change; also the `ETag`.
    pub(crate) revision: u64,
    pub(crate) workflow: String,
    /// The schema version of the workflow's data.
    pub(crate) schema: u32,
    /// The tenant; empty for the platform.
    pub(crate) tenant: String,
    /// The subject, such as `tenant/acme`.
    pub(crate) subject: String,
    pub(crate) state: String,
    /// The phase: `forward`, `compensating`, `paused`, `parked` or `finished`.
    pub(crate) phase: String,
    /// The reason why it is parked or overdue, or the outcome.
    pub(crate) reason: Option<String>,
    pub(crate) open: bool,
    pub(crate) requested_by: String,
    /// The parent execution.
    pub(crate) parent: Option<String>,
    pub(crate) labels: Vec<String>,
    #[schemars(with = "Time")]
    pub(crate) created_at: String,
    #[schemars(with = "Time")]
    pub(crate) updated_at: String,
    /// The progress of an open execution. Included in the execution itself, in lists, and in the first page of a stream.
    pub(crate) progress: Option<Progress>,
}

/// The progress of an execution.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ExecutionProgress")]
pub(crate) struct Progress {
    /// The number of completed states on the longest path through the present one; `null` if the state is on no path to the end.
    done: Option<usize>,
    /// The number of states of that path.
    total: Option<usize>,
    current: Current,
    /// The estimated end, from recent executions of the workflow. `null` if it makes no progress now, or too few executions passed its state recently.
    #[schemars(with = "Option<Time>")]
    eta: Option<String>,
}

/// The present step of an execution.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "CurrentState")]
struct Current {
    state: String,
    /// The last progress report of its action.
    beat: Option<String>,
}

impl Progress {
    /// `place` is the number of completed states, and the number of all.
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
    /// The time at which it entered its state.
    #[schemars(with = "Time")]
    pub(crate) since: String,
    /// The plan that approvers vote on.
    #[schemars(with = "Plan")]
    pub(crate) plan: Value,
    /// The digest of the plan; empty if this version cannot read the plan.
    #[schemars(with = "String")]
    pub(crate) digest: Value,
    /// The reason of its rollback.
    pub(crate) cause: Value,
    /// The errors that keep it parked.
    #[schemars(with = "Vec<Failure>")]
    pub(crate) errors: Value,
    /// The last failure that was handled by another path.
    #[schemars(with = "Option<Object>")]
    pub(crate) last_failure: Value,
    /// The attempts of its present actions, if there is something to report.
    pub(crate) attempts: Vec<Attempt>,
    /// The completed actions with their undos.
    pub(crate) trail: Vec<Mark>,
    /// The effects that could not be undone.
    pub(crate) left_behind: Vec<Mark>,
    /// The state after which it can only go forward, once reached.
    pub(crate) pivot: Value,
    /// The authority for passing the pivot.
    #[schemars(with = "Option<Object>")]
    pub(crate) authorisation: Value,
    #[schemars(with = "Option<String>")]
    pub(crate) paused_by: Value,
    #[schemars(with = "Option<String>")]
    pub(crate) cancelled_by: Value,
    pub(crate) children: Vec<Child>,
    /// `null` after its end.
    pub(crate) waiting_for: Option<Waiting>,
    /// The data of the workflow.
    pub(crate) data: Value,
}

/// The plan of an execution.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the type that the engine serialises")]
pub(crate) struct Plan {
    title: String,
    /// The approved content: votes are void when it changes.
    decides: Value,
    /// The proposed placement; may change without a new vote.
    placement: Value,
}

/// The error of an action.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the type that the engine serialises")]
pub(crate) struct Failure {
    /// The handling by the engine: `transient`, `permanent`, `unknown`, or `pending` with a duration.
    class: Value,
    /// The code; docs/operations.md lists all codes with remedies.
    code: String,
    message: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    retry_after: Option<Value>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    beat: Option<Value>,
}

/// The attempts of one action.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Attempt {
    pub(crate) slot: usize,
    /// The number of failures.
    #[schemars(with = "u32")]
    pub(crate) failed: Value,
    /// True if the outcome of a call is unknown.
    pub(crate) doubt: Value,
    #[schemars(with = "u32")]
    pub(crate) edition: Value,
    /// The last error.
    pub(crate) last: Value,
    /// The last progress report.
    pub(crate) beat: Value,
}

/// An action on the trail.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "TrailMark")]
pub(crate) struct Mark {
    pub(crate) state: Value,
    pub(crate) action: Value,
    /// The action that undoes it.
    pub(crate) undo: Value,
    pub(crate) arguments: Value,
    pub(crate) fate: Value,
}

/// A child execution.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChildExecution")]
pub(crate) struct Child {
    pub(crate) execution: String,
    pub(crate) workflow: String,
    pub(crate) subject: String,
    /// The state of the parent that started it.
    pub(crate) state: String,
    pub(crate) slot: u32,
    pub(crate) attempt: u32,
    #[schemars(with = "Time")]
    pub(crate) started_at: String,
    #[schemars(with = "Option<String>")]
    pub(crate) outcome: Value,
}

/// The conditions that an execution waits for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "WaitingFor")]
pub(crate) struct Waiting {
    pub(crate) approval: Option<Asked>,
    #[schemars(with = "Option<Time>")]
    pub(crate) next_action_at: Option<String>,
    pub(crate) tasks: usize,
    /// The limits that its attempts wait for.
    pub(crate) limits: Vec<Limited>,
}

/// The approval that an execution waits for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AwaitedApproval")]
pub(crate) struct Asked {
    pub(crate) id: String,
    pub(crate) digest: String,
    /// The required approvers, such as `1 of platform_ops and 1 of finance`.
    pub(crate) wanted: String,
    #[schemars(with = "Option<Time>")]
    pub(crate) deadline: Option<String>,
    pub(crate) ruling: Option<String>,
    pub(crate) takes_effect: Option<&'static str>,
}

/// A limit that an attempt waits for.
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

/// A journal entry.
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

/// An execution that needs an operator.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "StuckRow")]
pub(crate) struct Stuck {
    #[serde(flatten)]
    pub(crate) row: Row,
    #[schemars(with = "Time")]
    pub(crate) since: String,
    pub(crate) age_seconds: u64,
    /// The roles that must act.
    pub(crate) owner: Vec<String>,
    /// The next step.
    pub(crate) next: &'static str,
    /// The codes of its errors.
    pub(crate) errors: Vec<String>,
    pub(crate) message: Option<String>,
}

/// The effects that a terminated execution left behind.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Leftovers {
    #[serde(flatten)]
    pub(crate) row: Row,
    /// True if a release undoes the effects. False past the point of no return: a release then records that an operator handled them.
    pub(crate) undoable: bool,
    /// The effects, the latest first.
    pub(crate) left: Vec<Mark>,
}

/// The dry run of a repair.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the type that the engine serialises")]
pub(crate) struct RepairPreview {
    state: String,
    phase: String,
    /// The next possible transitions.
    edges: Vec<Value>,
    data: Value,
    slots: Value,
    /// True if a second person must confirm it.
    needs_second: bool,
    /// The changed fields of the data.
    changes: Vec<Change>,
}

/// The dry run of a command.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct OrderPreview {
    pub(crate) state: String,
    pub(crate) phase: String,
    /// The effects to undo, the latest first.
    pub(crate) would_undo: Vec<Mark>,
    /// The effects that would stay.
    pub(crate) would_leave: Vec<Mark>,
    /// True if a second person must confirm it.
    pub(crate) needs_second: bool,
}

/// A changed field.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes a type that is built field by field")]
pub(crate) struct Change {
    field: String,
    from: Value,
    to: Value,
}

/// A command that waits for a second person.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the type that the engine serialises")]
pub(crate) struct Proposal {
    id: String,
    /// The same as `id`.
    proposal: String,
    execution: String,
    /// The proposal is void once the execution has another revision.
    revision: u64,
    workflow: String,
    tenant: String,
    subject: String,
    state: String,
    /// The command, such as `repair`.
    command: String,
    /// The command in full.
    event: Value,
    by: String,
    reason: String,
    at: Time,
    /// True if the execution has changed, so the proposal can no longer take effect.
    void: bool,
}

/// The diagram of a workflow.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the type that the engine serialises")]
pub(crate) struct Drawn {
    diagram: Object,
    /// The highlighted state.
    current: Option<String>,
}
