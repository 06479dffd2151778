//! The special properties of resources whose list and show routes have the same pattern.

use crate::types::mapping;
use engine::Entity;
use serde_json::Value;
use store::CompositeKey;
use workflows::tenancy::Cohort;

/// A resource that belongs to tenants.
pub(super) trait ResourceKind: Entity + Send + Sync + 'static {
    /// The singular name, for messages.
    const WORD: &'static str;
    /// The filter parameters of the list, each with its position in the answer.
    const FILTERS: &'static [(&'static str, &'static str)] = &[];
    /// The fields that are timestamps.
    const TIMES: &'static [&'static str] = &[];
    /// True if ids begin with the name of the tenant.
    const BY_TENANT: bool = true;

    /// True if `If-Match` can condition a change.
    const BOUND: bool = false;

    /// The tenant of the resource.
    fn tenant(&self) -> &str;

    /// Returns the id for the path segments.
    fn key(parts: &[&str]) -> String {
        joined(parts)
    }

    /// Returns the answer. `account` is the account of the tenant, if any.
    fn seen(&self, account: Option<&Cohort>) -> Value {
        let _ = account;
        mapping::readable(self, Self::TIMES)
    }
}

/// Joins parts to an id; the last part is stored unchanged.
fn joined(parts: &[&str]) -> String {
    let Some((tail, front)) = parts.split_last() else { return String::new() };
    if front.is_empty() {
        return (*tail).to_owned();
    }
    let front: Vec<&dyn std::fmt::Display> =
        front.iter().map(|part| part as &dyn std::fmt::Display).collect();
    CompositeKey::of(&front).tail(tail).into()
}

/// Returns the id of a tenant and a number, from the number as users write it.
pub(super) fn numbered(parts: &[&str]) -> String {
    match parts {
        [tenant, number] => match number.parse::<u64>() {
            Ok(number) => CompositeKey::of(&[&tenant, &format_args!("{number:012}")]).into(),
            Err(_) => joined(parts),
        },
        _ => joined(parts),
    }
}
