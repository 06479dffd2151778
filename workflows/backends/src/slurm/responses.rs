//! Parses accounts, associations, jobs, nodes and reservations from the data parsers of `slurmrestd`.
//!
//! v0.0.38 has plain numbers and a single state. Newer versions have `{"set": true, "number": 8}` and lists of states.
//! Both forms are accepted.

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::slurm::hostlist::{expanded, gpu_indices};
use workflows::platform::GpuSet;

/// The supported data parsers, by the last part of their version.
const OLDEST: u32 = 38;
const NEWEST: u32 = 42;
/// States of a job that has ended and uses no resources.
const OVER: [&str; 10] = [
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "REVOKED",
];

/// A version of `slurmrestd`'s data parser: v0.0.N.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parser(u32);

impl fmt::Display for Parser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v0.0.{}", self.0)
    }
}

impl Parser {
    /// Returns the newest supported version that the API description lists for both daemons.
    ///
    /// # Errors
    ///
    /// The served versions, if none is supported.
    pub(super) fn newest(api: &Value) -> Result<Self, String> {
        let paths = api.get("paths").and_then(Value::as_object);
        let served = |side: &str| -> BTreeSet<u32> {
            let heads = paths.into_iter().flat_map(|paths| paths.keys());
            heads.filter_map(|path| path.strip_prefix(side)?.split('/').next()?.parse().ok()).collect()
        };
        let (control, accounting) = (served("/slurm/v0.0."), served("/slurmdb/v0.0."));
        let both: Vec<u32> = control.intersection(&accounting).copied().collect();
        let known = both.iter().rev().find(|version| (OLDEST..=NEWEST).contains(version));
        known.map(|version| Self(*version)).ok_or_else(|| {
            let named: Vec<String> = both.iter().map(|version| Self(*version).to_string()).collect();
            if named.is_empty() { "no data parser for both daemons".into() } else { named.join(", ") }
        })
    }

    /// Returns true if job submissions use the newer fields: `tres_per_node`, a list as environment, and objects for
    /// numbers.
    pub(super) fn is_later(self) -> bool {
        self.0 > OLDEST
    }
}

/// An account, over all clusters of the accounting database.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) description: String,
}

/// An account, or a user in an account, in one cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Association {
    pub(super) cluster: String,
    pub(super) account: String,
    pub(super) parent: Option<String>,
    pub(super) user: Option<String>,
    /// `GrpTRES`, by resource, and `GrpJobs` as `jobs`.
    pub(super) limits: BTreeMap<String, u64>,
    /// `GrpSubmitJobs`.
    pub(super) submits: Option<u64>,
}

/// A job that the controller remembers.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) account: String,
    pub(super) states: Vec<String>,
    pub(super) reason: String,
    pub(super) comment: String,
    pub(super) admin_comment: String,
    pub(super) priority: u64,
    pub(super) nodes: Vec<String>,
    pub(super) gpus: GpuSet,
    pub(super) requeues: bool,
}

impl Job {
    fn is(&self, state: &str) -> bool {
        self.states.iter().any(|one| one == state)
    }

    /// Returns true if the job is pending, running or completing.
    pub(super) fn is_live(&self) -> bool {
        self.is("COMPLETING") || !self.states.iter().any(|state| OVER.contains(&state.as_str()))
    }

    /// Returns true if the job occupies its nodes: it is running or completing.
    pub(super) fn is_on_nodes(&self) -> bool {
        self.is("COMPLETING") || (self.is_live() && !self.is("PENDING"))
    }

    /// Returns true if the job is pending and held. Slurm gives held jobs the priority 0.
    pub(super) fn is_held(&self) -> bool {
        self.is("PENDING") && (self.priority == 0 || self.reason.starts_with("JobHeld"))
    }

    pub(super) fn is_pending(&self) -> bool {
        self.is("PENDING") && !self.is("COMPLETING")
    }
}

/// A node.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) states: BTreeSet<String>,
    pub(super) reason: String,
    pub(super) comment: String,
}

impl Node {
    pub(super) fn is_drained(&self) -> bool {
        self.states.contains("DRAIN")
    }

    /// Returns true if the node does not respond or is marked as down.
    pub(super) fn is_away(&self) -> bool {
        self.states.contains("DOWN") || self.states.contains("NOT_RESPONDING")
    }
}

/// Nodes that are reserved for accounts.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservation {
    pub(super) name: String,
    pub(super) accounts: String,
    pub(super) users: String,
    pub(super) nodes: Vec<String>,
    pub(super) start: u64,
}

fn list<'a>(answer: &'a Value, key: &str) -> &'a [Value] {
    answer.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(of: &Value, key: &str) -> String {
    of.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn some_text(of: &Value, key: &str) -> Option<String> {
    Some(text(of, key)).filter(|text| !text.is_empty())
}

/// Reads a plain number, or an object with `set` and `number`.
fn number(value: &Value) -> Option<u64> {
    if let Value::Object(fields) = value {
        let flag = |name: &str| fields.get(name).and_then(Value::as_bool);
        if flag("set") == Some(false) || flag("infinite") == Some(true) {
            return None;
        }
        return fields.get("number")?.as_u64();
    }
    value.as_u64()
}

/// Reads one state or a list of states, in upper case.
fn states(value: Option<&Value>) -> Vec<String> {
    let words = match value {
        Some(Value::String(word)) => vec![word.as_str()],
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => Vec::new(),
    };
    words.into_iter().map(str::to_ascii_uppercase).collect()
}

pub(super) fn accounts(answer: &Value) -> Vec<Account> {
    let read = |one: &Value| Account { name: text(one, "name"), description: text(one, "description") };
    list(answer, "accounts").iter().map(read).collect()
}

pub(super) fn associations(answer: &Value) -> Vec<Association> {
    list(answer, "associations").iter().map(association).collect()
}

fn association(one: &Value) -> Association {
    let at = |path: &str| one.pointer(path);
    let tres = at("/max/tres/total").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut limits: BTreeMap<String, u64> = tres.iter().filter_map(tres_line).collect();
    limits.extend(at("/max/jobs/per/count").and_then(number).map(|jobs| ("jobs".to_owned(), jobs)));
    Association {
        cluster: text(one, "cluster"),
        account: text(one, "account"),
        parent: some_text(one, "parent_account"),
        user: some_text(one, "user"),
        limits,
        submits: at("/max/jobs/per/submitted").and_then(number),
    }
}

/// Reads a resource such as `gres/gpu:h200` and its count; memory is in MiB.
fn tres_line(one: &Value) -> Option<(String, u64)> {
    let kind = text(one, "type");
    let name = some_text(one, "name").map_or_else(|| kind.clone(), |name| format!("{kind}/{name}"));
    Some((name, one.get("count")?.as_u64()?))
}

pub(super) fn qos(answer: &Value) -> Vec<(String, String)> {
    // v0.0.38 has the key in upper case, newer versions in lower case.
    let all = [list(answer, "QOS"), list(answer, "qos")].concat();
    let id = |one: &Value| one.get("id").and_then(number).unwrap_or_default().to_string();
    all.iter().map(|one| (text(one, "name"), id(one))).collect()
}

pub(super) fn jobs(answer: &Value) -> Vec<Job> {
    list(answer, "jobs").iter().map(job).collect()
}

fn job(one: &Value) -> Job {
    let nodes = expanded(&text(one, "nodes"));
    let details = list(one, "gres_detail").iter().filter_map(Value::as_str).map(gpu_indices);
    let gpus = nodes.iter().cloned().zip(details).filter(|(_, gpus)| !gpus.is_empty()).collect();
    Job {
        id: one.get("job_id").and_then(number).unwrap_or_default(),
        name: text(one, "name"),
        account: text(one, "account"),
        states: states(one.get("job_state")),
        reason: text(one, "state_reason"),
        comment: text(one, "comment"),
        admin_comment: text(one, "admin_comment"),
        priority: one.get("priority").and_then(number).unwrap_or_default(),
        nodes,
        gpus,
        requeues: one.get("requeue").and_then(Value::as_bool).unwrap_or_default(),
    }
}

pub(super) fn nodes(answer: &Value) -> Vec<Node> {
    let read = |one: &Value| Node {
        name: text(one, "name"),
        states: [states(one.get("state")), states(one.get("state_flags"))].concat().into_iter().collect(),
        reason: text(one, "reason"),
        comment: text(one, "comment"),
    };
    list(answer, "nodes").iter().map(read).collect()
}

pub(super) fn reservations(answer: &Value) -> Vec<Reservation> {
    let read = |one: &Value| Reservation {
        name: text(one, "name"),
        accounts: text(one, "accounts"),
        users: text(one, "users"),
        nodes: expanded(&text(one, "node_list")),
        start: one.get("start_time").and_then(number).unwrap_or_default(),
    };
    list(answer, "reservations").iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn api(paths: &[&str]) -> Value {
        let paths: serde_json::Map<String, Value> =
            paths.iter().map(|path| ((*path).to_owned(), json!({}))).collect();
        json!({ "paths": paths })
    }

    #[test]
    fn the_newest_data_parser_of_both_sides_is_used() {
        let two = api(&[
            "/slurm/v0.0.37/jobs",
            "/slurmdb/v0.0.37/qos",
            "/slurm/v0.0.38/jobs",
            "/slurmdb/v0.0.38/qos",
        ]);
        assert_eq!(Parser::newest(&two).unwrap().to_string(), "v0.0.38");
        let later = api(&[
            "/slurm/v0.0.41/jobs/",
            "/slurmdb/v0.0.41/qos/",
            "/slurm/v0.0.44/jobs/",
            "/slurmdb/v0.0.44/qos/",
        ]);
        assert_eq!(Parser::newest(&later).unwrap().to_string(), "v0.0.41");
        let lone = api(&["/slurm/v0.0.38/jobs", "/slurmdb/v0.0.37/qos", "/slurm/v0.0.37/jobs"]);
        assert_eq!(Parser::newest(&lone).unwrap_err(), "v0.0.37");
        assert_eq!(Parser::newest(&api(&["/openapi"])).unwrap_err(), "no data parser for both daemons");
    }

    #[test]
    fn limits_are_parsed_in_the_formats_of_old_and_new_parsers() {
        let tres = json!([{ "type": "mem", "name": null, "id": 2, "count": 64_001 },
            { "type": "gres", "name": "gpu:h200", "id": 1002, "count": 8 }]);
        for count in [json!(5), json!({ "set": true, "infinite": false, "number": 5 })] {
            let one = json!({ "associations": [{ "account": "t-acme--prod", "cluster": "gpu", "user": "", "parent_account": "t-acme",
                "max": { "jobs": { "per": { "count": count, "submitted": null } }, "tres": { "total": tres } } }] });
            let read = associations(&one).remove(0);
            let wanted = [("gres/gpu:h200", 8), ("jobs", 5), ("mem", 64_001)];
            assert_eq!(read.limits, wanted.map(|(name, n)| (name.to_owned(), n)).into());
            assert_eq!((read.user, read.submits), (None, None));
        }
        assert_eq!(number(&json!({ "set": false, "infinite": false, "number": 0 })), None);
    }

    #[test]
    fn a_job_is_parsed_with_its_gpus() {
        let one = |state: Value| {
            let all = json!({ "jobs": [{ "job_id": 1, "name": "train", "account": "a", "job_state": state, "nodes": "gpu[0,2]",
                "gres_detail": ["gpu:h200:2(IDX:0-1)", "gpu:h200:1(IDX:7)"], "priority": 1, "requeue": true }] });
            jobs(&all).remove(0)
        };
        let running = one(json!("RUNNING"));
        assert_eq!(running.gpus, GpuSet::from([("gpu0".into(), [0, 1].into()), ("gpu2".into(), [7].into())]));
        assert!(running.is_live() && running.is_on_nodes() && running.requeues);
        let leaving = one(json!(["CANCELLED", "COMPLETING"]));
        assert!(leaving.is_live() && leaving.is_on_nodes(), "what is completing still has its nodes");
        assert!(!one(json!(["CANCELLED"])).is_live());
        assert!(!one(json!("PENDING")).is_on_nodes() && !one(json!("PENDING")).is_held());
    }
}
