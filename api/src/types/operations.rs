//! The server, store, limits, batches, workflow versions and retention.

use crate::types::{Span, Time, executions::Row};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The version of the program.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Version {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

/// The health of the server, by named checks.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Readiness {
    pub(crate) ready: bool,
    pub(crate) checks: Vec<Check>,
}

/// One named check.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) ok: bool,
    pub(crate) says: String,
    pub(crate) facts: Value,
}

/// A registered workflow.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkflowRow")]
pub(crate) struct Workflow {
    pub(crate) name: String,
    pub(crate) schema: u32,
    pub(crate) initial: String,
    pub(crate) states: usize,
}

/// Open executions of a workflow with one schema.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Generation {
    pub(crate) workflow: String,
    pub(crate) schema: u32,
    pub(crate) open: u64,
    /// The schema that this server writes.
    pub(crate) here: Option<u32>,
    /// `current`, `older` or `no_worker`.
    pub(crate) standing: &'static str,
}

/// An execution with another schema.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OtherVersion")]
pub(crate) struct Migrated {
    pub(crate) id: String,
    pub(crate) workflow: String,
    pub(crate) subject: String,
    pub(crate) schema: u32,
    pub(crate) state: String,
    pub(crate) phase: String,
    /// `migratable`, `migrated` or `refused`.
    pub(crate) answer: &'static str,
    pub(crate) to: Option<u32>,
    pub(crate) why: Option<String>,
    pub(crate) waits_for: String,
    #[schemars(with = "Time")]
    pub(crate) updated_at: String,
}

/// A finished execution whose retention period is over.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Expiring {
    pub(crate) id: String,
    pub(crate) workflow: String,
    pub(crate) tenant: String,
    pub(crate) subject: String,
    pub(crate) outcome: Option<String>,
    #[schemars(with = "Time")]
    pub(crate) ended_at: String,
    /// The reason why it is kept anyway.
    pub(crate) stays: Option<&'static str>,
}

/// The result of a retention run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Forgotten {
    pub(crate) forgotten: u64,
    /// The first hundred executions that are kept.
    pub(crate) stays: Vec<Expiring>,
}

/// A key with its limit and its holders.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LimitedKey")]
pub(crate) struct Key {
    pub(crate) key: String,
    /// The key or pattern of the effective limit.
    pub(crate) limit: Option<String>,
    /// The maximum number of concurrent attempts.
    pub(crate) concurrency: Option<u32>,
    /// The rate, such as `10/1m`.
    pub(crate) rate: Option<String>,
    pub(crate) burst: Option<u32>,
    pub(crate) breaker: Option<Breaker>,
    pub(crate) set_by: Option<String>,
    #[schemars(with = "Option<Time>")]
    pub(crate) set_at: Option<String>,
    pub(crate) in_use: usize,
    pub(crate) places: Vec<Place>,
    /// The number of waiting attempts on this server.
    pub(crate) queued: usize,
    #[schemars(with = "Option<Time>")]
    pub(crate) oldest: Option<String>,
    /// `open`, `full`, `closed`, `left alone` (the breaker is open) or `tried once` (it is half open).
    pub(crate) state: &'static str,
    #[schemars(with = "Option<Time>")]
    pub(crate) until: Option<String>,
    pub(crate) closed: Option<Closed>,
    pub(crate) failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warning: Option<String>,
}

/// The condition that trips a circuit breaker.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Breaker {
    pub(crate) after: u32,
    #[schemars(with = "Span")]
    pub(crate) span: String,
    #[schemars(with = "Span")]
    pub(crate) cap: String,
}

/// The closure of a key: its author and reason.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ClosedBy")]
pub(crate) struct Closed {
    pub(crate) by: String,
    pub(crate) why: String,
}

/// An attempt that holds a key.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Place {
    pub(crate) execution: String,
    pub(crate) slot: u32,
    #[schemars(with = "Time")]
    pub(crate) since: String,
    #[schemars(with = "Time")]
    pub(crate) until: String,
    pub(crate) pending: bool,
}

/// A key that was opened.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Opened {
    pub(crate) key: String,
    pub(crate) state: &'static str,
}

/// A process that shares the store.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the status that each type of store reports")]
pub(crate) struct Engine {
    id: String,
    name: String,
    version: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    started_at: Option<Time>,
    /// `alive`, `silent` or `ended`.
    state: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    silent_ms: Option<u64>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    holds: Option<u64>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    batches: Option<Value>,
    /// True for the process that answers.
    here: bool,
}

/// Something beside executions that an operator has to look at: a limit that is closed, a clock that jumped, or a workload that does not
/// start.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StuckPlatform {
    /// The key of the limit, `clock`, the last failed execution, or the cluster.
    pub(crate) id: String,
    /// `limit`, `clock` or `observation`, which are not workflows; `workload_start` for a start that keeps failing.
    pub(crate) workflow: &'static str,
    /// The tenant of the workload that does not start; absent for the platform's own rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// Such as `limit/cluster/eu-1`.
    pub(crate) subject: String,
    /// `closed`, `jumped`, `failed` or `silent`.
    pub(crate) state: &'static str,
    /// `limit_closed`, `clock_jumped`, `not_started` or `source_silent`.
    pub(crate) reason: &'static str,
    #[schemars(with = "Time")]
    pub(crate) since: String,
    pub(crate) age_seconds: u64,
    /// The roles that must act.
    pub(crate) owner: Vec<&'static str>,
    /// The next step.
    pub(crate) next: &'static str,
    /// The fault.
    pub(crate) message: Option<String>,
}

impl StuckPlatform {
    /// The `workflow` of a limit.
    pub(crate) const LIMIT: &'static str = "limit";
    /// The `workflow` of the clock.
    pub(crate) const CLOCK: &'static str = "clock";
    /// The `reason` of a limit.
    pub(crate) const CLOSED: &'static str = "limit_closed";
    /// The `reason` of the clock.
    pub(crate) const JUMPED: &'static str = "clock_jumped";
    /// The workflow that starts admitted workloads.
    pub(crate) const START: &'static str = "workload_start";
    /// The `reason` of a workload that its cluster does not start.
    pub(crate) const NOT_STARTED: &'static str = "not_started";
    /// The `workflow` of a cluster that is not observed.
    pub(crate) const OBSERVATION: &'static str = "observation";
    /// The `reason` of a cluster whose last observation may no longer be used.
    pub(crate) const SILENT: &'static str = "source_silent";
}

/// A hold to review, or an offboarding that waits for a hold.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StuckHold {
    /// The hold, `TENANT/NAME`; or the waiting execution.
    pub(crate) id: String,
    pub(crate) tenant: String,
    /// `hold` or `offboarding`.
    pub(crate) workflow: &'static str,
    /// The subject, such as `hold/acme/case-9` or `tenant/acme`.
    pub(crate) subject: String,
    /// `review_due`, `held`, `unclassified` or `changing`.
    pub(crate) state: &'static str,
    /// `hold_review_due`, `offboarding_held`, `offboarding_unclassified` or `offboarding_changing`.
    pub(crate) reason: &'static str,
    #[schemars(with = "Time")]
    pub(crate) since: String,
    pub(crate) age_seconds: u64,
    /// The roles that must act.
    pub(crate) owner: Vec<&'static str>,
    /// The next step.
    pub(crate) next: &'static str,
    pub(crate) message: Option<String>,
}

impl StuckHold {
    /// The `workflow` of a hold.
    pub(crate) const HOLD: &'static str = "hold";
}

/// The result of a confirmation of the clock.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClockConfirmed {
    /// True if a clock jump was open.
    pub(crate) confirmed: bool,
    /// The expected time before the jump.
    #[schemars(with = "Option<Time>")]
    pub(crate) from: Option<String>,
    /// The time of the clock after the jump.
    #[schemars(with = "Option<Time>")]
    pub(crate) to: Option<String>,
}

/// The state of the store.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Store {
    /// `embedded` or `postgres`.
    pub(crate) kind: &'static str,
    pub(crate) sequence: u64,
    pub(crate) tasks: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) held: Option<StoreHeld>,
}

/// The start and the reason of a hold.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StoreHeld {
    #[schemars(with = "Time")]
    pub(crate) since: String,
    pub(crate) why: String,
}

/// A waiting task of the store.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the type that the engine serialises")]
pub(crate) struct PendingWork {
    /// The kind of task: `calls`, `decides`, `rings`, `tells`, `nothing` or `unknown`.
    does: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    undo: Option<bool>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    untold: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    execution: String,
    workflow: String,
    tenant: String,
    subject: String,
    state: String,
    slot: u32,
    due: Time,
}

/// One command to many executions.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the type that the engine serialises")]
pub(crate) struct Batch {
    id: String,
    /// `cancel`, `pause`, `resume` or `retry`.
    verb: String,
    filter: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    digest: String,
    by: String,
    reason: String,
    /// Commands per second.
    rate: u32,
    total: u32,
    next: u32,
    done: u32,
    refused: u32,
    skipped: u32,
    created_at: Time,
    #[schemars(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    stopped_by: Option<String>,
    /// `running`, `done` or `stopped`.
    state: String,
    /// The estimated end at the present rate; `null` before the first command and after the end.
    eta: Option<Time>,
}

/// The preview of a batch.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BatchPreview {
    pub(crate) count: usize,
    /// The number of executions that would refuse.
    pub(crate) refusing: usize,
    /// The digest of the selection, to be sent back as confirmation.
    pub(crate) digest: String,
    pub(crate) first: Vec<Previewed>,
}

/// An execution of the preview.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchPreviewRow")]
pub(crate) struct Previewed {
    #[serde(flatten)]
    pub(crate) row: Row,
    /// The reason of a refusal.
    pub(crate) refuses: Option<String>,
}

/// The result of a batch for one execution.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the type that the engine serialises")]
pub(crate) struct BatchItem {
    execution: String,
    /// `done`, `refused` or `skipped`.
    #[schemars(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    at: Option<Time>,
}
