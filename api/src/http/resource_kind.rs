//! Kinds of documents that are listed and shown alike: one type says what is special about each.

use crate::types::mapping;
use engine::Entity;
use serde_json::Value;
use store::CompositeKey;
use workflows::tenancy::Cohort;

/// A kind of document that belongs to tenants.
pub(super) trait ResourceKind: Entity + Send + Sync + 'static {
    /// The word for one, in messages.
    const WORD: &'static str;
    /// Parameters that a list is filtered by, and where in the shown document each is found.
    const FILTERS: &'static [(&'static str, &'static str)] = &[];
    /// Fields that are times.
    const TIMES: &'static [&'static str] = &[];
    /// Whether its ids begin with the tenant's name.
    const BY_TENANT: bool = true;

    /// Whether a change of it can be bound to its version.
    const BOUND: bool = false;

    /// Whose it is.
    fn tenant(&self) -> &str;

    /// The id that the parts of an address name.
    fn key(parts: &[&str]) -> String {
        joined(parts)
    }

    /// The document for reading. `account` is its tenant's, if it has one.
    fn seen(&self, account: Option<&Cohort>) -> Value {
        let _ = account;
        mapping::readable(self, Self::TIMES)
    }
}

/// An id of parts, of which the last is stored as it is.
fn joined(parts: &[&str]) -> String {
    let Some((tail, front)) = parts.split_last() else { return String::new() };
    if front.is_empty() {
        return (*tail).to_owned();
    }
    let front: Vec<&dyn std::fmt::Display> =
        front.iter().map(|part| part as &dyn std::fmt::Display).collect();
    CompositeKey::of(&front).tail(tail).into()
}

/// An id of a tenant and a number, as people write the number.
pub(super) fn numbered(parts: &[&str]) -> String {
    match parts {
        [tenant, number] => match number.parse::<u64>() {
            Ok(number) => CompositeKey::of(&[&tenant, &format_args!("{number:012}")]).into(),
            Err(_) => joined(parts),
        },
        _ => joined(parts),
    }
}
