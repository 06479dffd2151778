//! The request for a quota change, as a YAML document or a JSON value.

use crate::{
    policy::{Invalid, Item, Reader, from_json, from_yaml},
    tenancy::{Allowance, Quota, Resource, TenantId, WorkspaceName},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{CompositeKey, Timestamp};

/// The direction of a quota change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Direction {
    /// Increase.
    Increase,
    /// Decrease.
    Decrease,
}

impl Direction {
    /// Returns true if a change has this direction. A change of only the limits fits both.
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

/// The size of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// By this amount.
    By(u64),
    /// The new total amount.
    To(u64),
}

/// A request for a quota change of one resource of one workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRequest {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The resource.
    pub resource: Resource,
    /// The change of the nominal quota, in the resource's unit.
    pub change: Change,
    /// The new borrowing limit; unchanged if absent.
    pub borrowing_limit: Option<u64>,
    /// The new lending limit, at most the nominal quota; unchanged if absent.
    pub lending_limit: Option<u64>,
    /// The end of a temporary change; permanent if absent.
    pub until: Option<Timestamp>,
    /// True if the request intentionally exceeds the bought amount. Needs an end, and approval by finance.
    pub exception: bool,
    /// The requester's reason.
    pub reason: String,
    /// Set by the sweep that ends temporary quotas, never by a document: the end was approved with the increase.
    #[serde(default)]
    pub ended: bool,
    /// The line of each field, if the document has lines, for the reasons of a decision.
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
/// The largest amount.
const MOST: u64 = 1 << 50;

/// Returns the subject and guard of a quota change: `quota/acme/research/gpu/H100`.
#[must_use]
pub fn subject(tenant: &TenantId, workspace: &WorkspaceName, resource: &Resource) -> String {
    CompositeKey::of(&[&"quota", &tenant, &workspace]).tail(resource).into()
}

impl QuotaRequest {
    /// Reads the request in a YAML document.
    ///
    /// # Errors
    /// Every problem of the document, by line and column.
    pub fn from_yaml(text: &str) -> Result<Self, Invalid> {
        let root = from_yaml(text)?;
        Ok(Self { lines: root.lines(), ..Self::read(&root)? })
    }

    /// Reads the request in a JSON value.
    ///
    /// # Errors
    /// Every problem of the value, by the path of the field.
    pub fn from_json(data: &serde_json::Value) -> Result<Self, Invalid> {
        Self::read(&from_json(data, String::new()))
    }

    fn read(root: &Item) -> Result<Self, Invalid> {
        let reader = Reader::default();
        let read = request(&reader, root);
        reader.finish(read)
    }

    /// Returns the subject of the change: `quota/acme/research/gpu/H100`.
    #[must_use]
    pub fn subject(&self) -> String {
        subject(&self.tenant, &self.workspace, &self.resource)
    }

    /// Returns the allowance after the change of `before`; `None` if it would be negative.
    #[must_use]
    pub fn apply_to(&self, before: &Allowance, direction: Direction) -> Option<Allowance> {
        let nominal = match (self.change, direction) {
            (Change::To(to), _) => to,
            (Change::By(by), Direction::Increase) => before.nominal.checked_add(by)?,
            (Change::By(by), Direction::Decrease) => before.nominal.checked_sub(by)?,
        };
        if self.ended {
            // It returns to exactly the agreed limits, and no limit is also a value.
            let (borrowing_limit, lending_limit) = (self.borrowing_limit, self.lending_limit);
            return Some(Allowance { nominal, borrowing_limit, lending_limit });
        }
        let lending_limit = self.lending_limit.or(before.lending_limit);
        Some(Allowance {
            nominal,
            borrowing_limit: self.borrowing_limit.or(before.borrowing_limit),
            // Limits in the request are checked. A lending limit that is not in the request follows the quota down.
            lending_limit: lending_limit
                .map(|limit| if self.lending_limit.is_some() { limit } else { limit.min(nominal) }),
        })
    }

    /// Returns the direction from `before` to an absolute amount: a decrease if the quota falls, or stays and a limit falls.
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

    /// Returns the decreases that are due because the temporary part of `quota` has ended.
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
    let amount = |item: &Item| reader.whole(item, 0..=MOST);
    let change = match (top.optional("by").map(amount), top.optional("to").map(amount)) {
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
    let borrowing_limit = top.optionally("borrowing_limit", amount);
    let lending_limit = top.optionally("lending_limit", amount);
    let until = top.optionally("until", |item| parse_time(reader, item));
    let exception = top.optional("exception").map_or(Some(false), |item| reader.bool(item));
    let reason = top.required("reason").and_then(|item| reader.text(item));
    Some(QuotaRequest {
        tenant: tenant?,
        workspace: workspace?,
        resource: resource?,
        change: change?,
        borrowing_limit: borrowing_limit?,
        lending_limit: lending_limit?,
        until: until?,
        exception: exception?,
        reason: reason?.to_owned(),
        ended: false,
        lines: BTreeMap::new(),
    })
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

/// Reads a time in the format of requests.
pub(crate) fn parse_time(reader: &Reader, item: &Item) -> Option<Timestamp> {
    let text = reader.text(item)?;
    let read = chrono::DateTime::parse_from_rfc3339(text).ok();
    let at = read.and_then(|at| u64::try_from(at.timestamp_millis()).ok()).map(Timestamp);
    if at.is_none() {
        reader.note(item, format!("{text:?} is not a timestamp"), "write it as `2026-03-01T00:00:00Z`");
    }
    at
}
