//! The request for an SLA change, as a YAML document or a JSON value.

use crate::{
    policy::{Invalid, Item, Reader, TenantPolicy, Value, from_json, from_yaml},
    quota_change::parse_time,
    tenancy::{Isolation, TenantId, Tier},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::Timestamp;

/// A request for an SLA change. A missing field stays unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlaRequest {
    /// The tenant.
    pub tenant: TenantId,
    /// The new tier.
    pub tier: Option<Tier>,
    /// The new isolation level.
    pub isolation: Option<Isolation>,
    /// True if its workloads may be preempted, and so may borrow.
    pub allow_preemption: Option<bool>,
    /// True if its workspaces may share one GPU.
    pub allow_gpu_sharing: Option<bool>,
    /// The start of the tenant's maintenance window; now if absent.
    pub not_before: Option<Timestamp>,
    /// The requester's reason.
    pub reason: String,
    /// The line of each field, if the document has lines, for the reasons of a decision.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, u64>,
}

const FIELDS: [&str; 7] =
    ["tenant", "tier", "isolation", "allow_preemption", "allow_gpu_sharing", "not_before", "reason"];

impl SlaRequest {
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

    /// Returns the service level after the change of `before`.
    #[must_use]
    pub fn apply_to(&self, before: &TenantPolicy) -> TenantPolicy {
        TenantPolicy {
            tier: self.tier.unwrap_or(before.tier),
            isolation: self.isolation.unwrap_or(before.isolation),
            data_residency: before.data_residency.clone(),
            allow_preemption: self.allow_preemption.unwrap_or(before.allow_preemption),
            allow_gpu_sharing: self.allow_gpu_sharing.unwrap_or(before.allow_gpu_sharing),
        }
    }
}

fn request(reader: &Reader, root: &Item) -> Option<SlaRequest> {
    let top = reader.fields(root, &FIELDS)?;
    let tenant = top.required("tenant").and_then(|item| reader.name(item));
    let tier = top.optionally("tier", |item| reader.one_of(item));
    let isolation = top.optionally("isolation", |item| match &item.value {
        Value::Text(text) if text == "dedicated" => Some(Isolation::DedicatedNodes),
        _ => reader.one_of(item),
    });
    let flag = |name| top.optionally(name, |item| reader.bool(item));
    let (preemption, sharing) = (flag("allow_preemption"), flag("allow_gpu_sharing"));
    let not_before = top.optionally("not_before", |item| parse_time(reader, item));
    let reason = top.required("reason").and_then(|item| reader.text(item));
    Some(SlaRequest {
        tenant: tenant?,
        tier: tier?,
        isolation: isolation?,
        allow_preemption: preemption?,
        allow_gpu_sharing: sharing?,
        not_before: not_before?,
        reason: reason?.to_owned(),
        lines: BTreeMap::new(),
    })
}
