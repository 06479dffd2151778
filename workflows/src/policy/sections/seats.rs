//! Reads the seats of an approval.

use crate::policy::parsing::{document::Item, reader::Reader};
use engine::Seat;

/// The roles.
pub(in crate::policy) const ROLES: [&str; 10] = [
    "platform_ops",
    "capacity_manager",
    "finance",
    "security",
    "compliance",
    "dpo",
    "tenant_owner",
    "auditor",
    "breakglass",
    "admin",
];

pub(in crate::policy) fn seats(reader: &Reader, item: &Item) -> Option<Vec<Seat>> {
    let items = reader.list(item);
    if items.is_empty() {
        reader.note(
            item,
            "no approver is named".into(),
            "name at least one seat: `- {any_of: [admin], count: 1}`",
        );
    }
    let read: Vec<_> = items.iter().map(|item| seat(reader, item)).collect();
    read.into_iter().collect()
}

fn seat(reader: &Reader, item: &Item) -> Option<Seat> {
    let fields = reader.fields(item, &["any_of", "count"])?;
    let count = fields.required("count").and_then(|item| reader.whole(item, 1..=20_u32));
    let roles = fields.required("any_of")?;
    let any_of = reader.texts(roles)?;
    named(reader, roles, &any_of)?;
    Some(Seat { any_of, count: count? })
}

/// Checks that these are roles or groups of users.
pub(in crate::policy) fn named(reader: &Reader, item: &Item, any_of: &[String]) -> Option<()> {
    let group = |name: &str| name.strip_prefix("group:").is_some_and(|name| !name.is_empty());
    if any_of.is_empty() || any_of.iter().any(|name| !ROLES.contains(&name.as_str()) && !group(name)) {
        let remedy = format!("use {}, or `group:NAME`", ROLES.join(", "));
        reader.note(item, "not all of these are roles or groups".into(), remedy);
        return None;
    }
    Some(())
}
