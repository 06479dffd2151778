//! The server, its store, limits, batches, versions, and what is forgotten.

use crate::types::{Span, Time, executions::Row};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Which program answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Version {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

/// Whether the server works, by named checks.
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

/// A workflow that can run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkflowRow")]
pub(crate) struct Workflow {
    pub(crate) name: String,
    pub(crate) schema: u32,
    pub(crate) initial: String,
    pub(crate) states: usize,
}

/// Open executions of a workflow at one schema.
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

/// An execution of another version.
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

/// A finished execution that is kept no longer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Expiring {
    pub(crate) id: String,
    pub(crate) workflow: String,
    pub(crate) tenant: String,
    pub(crate) subject: String,
    pub(crate) outcome: Option<String>,
    #[schemars(with = "Time")]
    pub(crate) ended_at: String,
    /// Why it stays all the same.
    pub(crate) stays: Option<&'static str>,
}

/// What was forgotten.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Forgotten {
    pub(crate) forgotten: u64,
    /// The first hundred that stay.
    pub(crate) stays: Vec<Expiring>,
}

/// A key, what may be asked of it, and who is inside.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LimitedKey")]
pub(crate) struct Key {
    pub(crate) key: String,
    /// The key or pattern whose limit holds.
    pub(crate) limit: Option<String>,
    /// Attempts at work at once.
    pub(crate) concurrency: Option<u32>,
    /// Such as `10/1m`.
    pub(crate) rate: Option<String>,
    pub(crate) burst: Option<u32>,
    pub(crate) breaker: Option<Breaker>,
    pub(crate) set_by: Option<String>,
    #[schemars(with = "Option<Time>")]
    pub(crate) set_at: Option<String>,
    pub(crate) in_use: usize,
    pub(crate) places: Vec<Place>,
    /// How many wait on this server.
    pub(crate) queued: usize,
    #[schemars(with = "Option<Time>")]
    pub(crate) oldest: Option<String>,
    /// `open`, `full`, `closed`, `left alone` or `tried once`.
    pub(crate) state: &'static str,
    #[schemars(with = "Option<Time>")]
    pub(crate) until: Option<String>,
    pub(crate) closed: Option<Closed>,
    pub(crate) failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warning: Option<String>,
}

/// When a breaker trips.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Breaker {
    pub(crate) after: u32,
    #[schemars(with = "Span")]
    pub(crate) span: String,
    #[schemars(with = "Span")]
    pub(crate) cap: String,
}

/// Who closed a key, and why.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ClosedBy")]
pub(crate) struct Closed {
    pub(crate) by: String,
    pub(crate) why: String,
}

/// An attempt that is inside.
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

/// A key that is open again.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Opened {
    pub(crate) key: String,
    pub(crate) state: &'static str,
}

/// A process that shares the store.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what each kind of store says of its processes")]
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
    /// Whether it is the one that answers.
    here: bool,
}

/// Something beside executions that an operator has to look at: a limit that is closed, a clock that jumped, or a workload that does not
/// start.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StuckPlatform {
    /// The key of the limit, `clock`, or the execution that failed last.
    pub(crate) id: String,
    /// `limit` or `clock`, which are no workflows of which executions are; `workload_start` for a start that keeps failing.
    pub(crate) workflow: &'static str,
    /// Whose workload does not start; absent for what is the platform's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// Such as `limit/cluster/eu-1`.
    pub(crate) subject: String,
    /// `closed`, `jumped` or `failed`.
    pub(crate) state: &'static str,
    /// `limit_closed`, `clock_jumped` or `not_started`.
    pub(crate) reason: &'static str,
    #[schemars(with = "Time")]
    pub(crate) since: String,
    pub(crate) age_seconds: u64,
    /// Whose turn it is, by role.
    pub(crate) owner: Vec<&'static str>,
    /// What to do.
    pub(crate) next: &'static str,
    /// What is wrong.
    pub(crate) message: Option<String>,
}

impl StuckPlatform {
    /// What stands in the place of a workflow, of a limit.
    pub(crate) const LIMIT: &'static str = "limit";
    /// The same, of the clock.
    pub(crate) const CLOCK: &'static str = "clock";
    /// What a limit is listed for.
    pub(crate) const CLOSED: &'static str = "limit_closed";
    /// What the clock is listed for.
    pub(crate) const JUMPED: &'static str = "clock_jumped";
    /// The workflow that starts admitted workloads.
    pub(crate) const START: &'static str = "workload_start";
    /// What a workload is listed for that its cluster does not start.
    pub(crate) const NOT_STARTED: &'static str = "not_started";
}

/// A hold to be reviewed, or an offboarding that waits for one.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StuckHold {
    /// The hold, `TENANT/NAME`; or the execution that waits.
    pub(crate) id: String,
    pub(crate) tenant: String,
    /// `hold` or `offboarding`.
    pub(crate) workflow: &'static str,
    /// Such as `hold/acme/case-9` or `tenant/acme`.
    pub(crate) subject: String,
    /// `review_due` or `held`.
    pub(crate) state: &'static str,
    /// `hold_review_due` or `offboarding_held`.
    pub(crate) reason: &'static str,
    #[schemars(with = "Time")]
    pub(crate) since: String,
    pub(crate) age_seconds: u64,
    /// Whose turn it is, by role.
    pub(crate) owner: Vec<&'static str>,
    /// What to do.
    pub(crate) next: &'static str,
    pub(crate) message: Option<String>,
}

impl StuckHold {
    /// What stands in the place of a workflow, of a hold.
    pub(crate) const HOLD: &'static str = "hold";
}

/// What a confirmation of the clock came to.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClockConfirmed {
    /// Whether something waited for it.
    pub(crate) confirmed: bool,
    /// What the time was to be before the jump.
    #[schemars(with = "Option<Time>")]
    pub(crate) from: Option<String>,
    /// What the clock showed after it.
    #[schemars(with = "Option<Time>")]
    pub(crate) to: Option<String>,
}

/// How the store is.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Store {
    /// `embedded` or `postgres`.
    pub(crate) kind: &'static str,
    pub(crate) sequence: u64,
    pub(crate) tasks: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) held: Option<StoreHeld>,
}

/// Since when the store is held, and why.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StoreHeld {
    #[schemars(with = "Time")]
    pub(crate) since: String,
    pub(crate) why: String,
}

/// What waits in the store and would be performed.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct PendingWork {
    /// `calls`, `decides`, `rings`, `tells`, `nothing` or `unknown`.
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
#[expect(dead_code, reason = "describes what the engine serialises")]
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
    /// Commands a second.
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
    /// When the last has its turn, if it goes on as it went; `null` before the first had its own, and once it is over.
    eta: Option<Time>,
}

/// What a batch would reach.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BatchPreview {
    pub(crate) count: usize,
    /// How many would refuse.
    pub(crate) refusing: usize,
    /// Sent back, it says that these are meant.
    pub(crate) digest: String,
    pub(crate) first: Vec<Previewed>,
}

/// An execution that a batch would reach.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchPreviewRow")]
pub(crate) struct Previewed {
    #[serde(flatten)]
    pub(crate) row: Row,
    /// Why it would refuse.
    pub(crate) refuses: Option<String>,
}

/// What became of one execution of a batch.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what the engine serialises")]
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
