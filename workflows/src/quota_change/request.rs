//! The request for another quota, as people write it: a YAML document, or a JSON value.

use crate::{
    policy::{Invalid, Item, Reader, Value, from_json, from_yaml},
    tenancy::{Allowance, Quota, Resource, TenantId, WorkspaceName},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{CompositeKey, Timestamp};

/// Which way a quota is to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Direction {
    /// To more.
    Increase,
    /// To less.
    Decrease,
}

impl Direction {
    /// Whether a change goes this way, or changes limits alone: these go up and down in either.
    #[must_use]
    pub fn allows(self, before: &Allowance, after: &Allowance) -> bool {
        if after.nominal == before.nominal {
            return after != before;
        }
        let limit = |allowance: &Allowance| allowance.borrowing_limit.unwrap_or(u64::MAX);
        match self {
            Self::Increase => after.nominal > before.nominal && limit(after) >= limit(before),
            Self::Decrease => after.nominal < before.nominal,
        }
    }
}

/// How far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// By so much more, or less.
    By(u64),
    /// To this.
    To(u64),
}

/// A request for another quota of one resource of one workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRequest {
    /// Whose.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// Of what.
    pub resource: Resource,
    /// How far the nominal quota changes, in the resource's unit.
    pub change: Change,
    /// Another borrowing limit; as it is when absent.
    pub borrowing_limit: Option<u64>,
    /// Another lending limit; as it is when absent, and never above the nominal quota.
    pub lending_limit: Option<u64>,
    /// When it ends by itself; never when absent.
    pub until: Option<Timestamp>,
    /// Whether more than was bought is asked for on purpose. Needs an end, and finance.
    pub exception: bool,
    /// Why, in the requester's words.
    pub reason: String,
    /// Set by the sweep that ends temporary quotas, never by a document: people agreed to the end when they agreed to
    /// the increase.
    #[serde(default)]
    pub ended: bool,
    /// Line of each field in the document, where it had lines, so that a decision can point at them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, u64>,
}

const FIELDS: [&str; 10] = [
    "tenant",
    "workspace",
    "resource",
    "by",
    "to",
    "borrowing_limit",
    "lending_limit",
    "until",
    "exception",
    "reason",
];
/// The largest amount of anything.
const MOST: u64 = 1 << 50;

/// What a change of a quota is about, and its guard: `quota/acme/research/gpu/H100`.
#[must_use]
pub fn subject(tenant: &TenantId, workspace: &WorkspaceName, resource: &Resource) -> String {
    CompositeKey::of(&[&"quota", &tenant, &workspace]).tail(resource).into()
}

impl QuotaRequest {
    /// The request in a YAML document.
    ///
    /// # Errors
    /// Everything that is wrong with it, by line and column.
    pub fn from_yaml(text: &str) -> Result<Self, Invalid> {
        let root = from_yaml(text)?;
        let mut request = Self::read(&root)?;
        if let Value::Map(fields) = &root.value {
            let lines = fields.iter().filter_map(|(name, at, _)| Some((name.clone(), (*at)?.line)));
            request.lines = lines.collect();
        }
        Ok(request)
    }

    /// The request in a JSON value.
    ///
    /// # Errors
    /// Everything that is wrong with it, by the path of the field.
    pub fn from_json(data: &serde_json::Value) -> Result<Self, Invalid> {
        Self::read(&from_json(data, String::new()))
    }

    fn read(root: &Item) -> Result<Self, Invalid> {
        let reader = Reader::default();
        let read = request(&reader, root);
        reader.finish(read)
    }

    /// What a change of it is about: `quota/acme/research/gpu/H100`.
    #[must_use]
    pub fn subject(&self) -> String {
        subject(&self.tenant, &self.workspace, &self.resource)
    }

    /// What the allowance `before` becomes; `None` when that is less than nothing.
    #[must_use]
    pub fn apply_to(&self, before: &Allowance, direction: Direction) -> Option<Allowance> {
        let nominal = match (self.change, direction) {
            (Change::To(to), _) => to,
            (Change::By(by), Direction::Increase) => before.nominal.checked_add(by)?,
            (Change::By(by), Direction::Decrease) => before.nominal.checked_sub(by)?,
        };
        if self.ended {
            // It goes back to exactly what was agreed, and having no limit is a limit too.
            let (borrowing_limit, lending_limit) = (self.borrowing_limit, self.lending_limit);
            return Some(Allowance { nominal, borrowing_limit, lending_limit });
        }
        let lending_limit = self.lending_limit.or(before.lending_limit);
        Some(Allowance {
            nominal,
            borrowing_limit: self.borrowing_limit.or(before.borrowing_limit),
            // What the request names is judged; what merely stands follows the quota down.
            lending_limit: lending_limit
                .map(|limit| if self.lending_limit.is_some() { limit } else { limit.min(nominal) }),
        })
    }

    /// The way that leads from `before` to what is asked for, where that is an amount: down if the quota falls, or stays and a limit
    /// falls.
    #[must_use]
    pub fn leads(&self, before: &Allowance) -> Direction {
        let limit = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        let falls = self.apply_to(before, Direction::Decrease).is_none_or(|after| {
            let limits = limit(after.borrowing_limit) < limit(before.borrowing_limit)
                || limit(after.lending_limit) < limit(before.lending_limit);
            after.nominal < before.nominal || after.nominal == before.nominal && limits
        });
        if falls { Direction::Decrease } else { Direction::Increase }
    }

    /// The decreases that are due now that the temporary part of `quota` has ended.
    #[must_use]
    pub fn due_decreases(quota: &Quota, now: Timestamp) -> Vec<Self> {
        let due = quota.ends.iter().filter(|ends| ends.at <= now).flat_map(|ends| &ends.then);
        let back = due.map(|(resource, then)| Self {
            tenant: quota.tenant.clone(),
            workspace: quota.workspace.clone(),
            resource: resource.clone(),
            change: Change::To(then.nominal),
            borrowing_limit: then.borrowing_limit,
            lending_limit: then.lending_limit,
            until: None,
            exception: false,
            reason: "the temporary increase has ended".into(),
            ended: true,
            lines: BTreeMap::new(),
        });
        back.collect()
    }
}

fn request(reader: &Reader, root: &Item) -> Option<QuotaRequest> {
    let top = reader.fields(root, &FIELDS)?;
    let tenant = top.required("tenant").and_then(|item| reader.name(item));
    let workspace = top.required("workspace").and_then(|item| reader.name(item));
    let resource = top.required("resource").and_then(|item| resource(reader, item));
    let whole = |name| top.optional(name).map(|item| reader.whole(item, 0..=MOST));
    let change = match (whole("by"), whole("to")) {
        (Some(by), None) => by.map(Change::By),
        (None, Some(to)) => to.map(Change::To),
        (Some(_), Some(_)) => {
            reader.note(root, "both `by` and `to` are given".into(), "write one of them");
            None
        }
        (None, None) => {
            reader.note(root, "neither `by` nor `to` is given".into(), "write `by: 4` or `to: 12`");
            None
        }
    };
    let (borrowing_limit, lending_limit) = (whole("borrowing_limit"), whole("lending_limit"));
    let until = top.optional("until").map(|item| parse_time(reader, item));
    let exception = top.optional("exception").map_or(Some(false), |item| reader.bool(item));
    let reason = top.required("reason").and_then(|item| reader.text(item));
    Some(QuotaRequest {
        tenant: tenant?,
        workspace: workspace?,
        resource: resource?,
        change: change?,
        borrowing_limit: optional(borrowing_limit)?,
        lending_limit: optional(lending_limit)?,
        until: optional(until)?,
        exception: exception?,
        reason: reason?.to_owned(),
        ended: false,
        lines: BTreeMap::new(),
    })
}

/// A field that may be absent, and must be right when it is there.
fn optional<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    read.map_or(Some(None), |read| read.map(Some))
}

fn resource(reader: &Reader, item: &Item) -> Option<Resource> {
    match reader.text(item)?.parse() {
        Ok(resource) => Some(resource),
        Err(error) => {
            let remedy = "such as gpu/H100, cpu_milli, memory_mib, storage_gib or pods";
            reader.note(item, format!("{error}"), remedy);
            None
        }
    }
}

/// A moment as people write it.
pub(crate) fn parse_time(reader: &Reader, item: &Item) -> Option<Timestamp> {
    let text = reader.text(item)?;
    let read = chrono::DateTime::parse_from_rfc3339(text).ok();
    let at = read.and_then(|at| u64::try_from(at.timestamp_millis()).ok()).map(Timestamp);
    if at.is_none() {
        reader.note(item, format!("{text:?} is no moment"), "write it as `2026-03-01T00:00:00Z`");
    }
    at
}
