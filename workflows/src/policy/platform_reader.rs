//! Reads the platform policy's document.

use super::{
    document::Item,
    platform::{Approvals, Demands, PlatformPolicy, PolicyRef, sha256},
    reader::{Fields, Reader},
    request::residency,
};
use crate::tenancy::{Cents, Compliance, GpuModel, Gpus, RegionId, Tier};
use engine::Seat;
use std::collections::{BTreeMap, BTreeSet};

const TOP: [&str; 12] = [
    "policy",
    "version",
    "self_service",
    "approvals",
    "waits",
    "limits",
    "prices",
    "quotas",
    "nodes",
    "images",
    "capacity",
    "compliance",
];

pub(super) fn policy(reader: &Reader, root: &Item, text: &str) -> Option<PlatformPolicy> {
    let top = reader.fields(root, &TOP)?;
    let name = top.must("policy").and_then(|item| named(reader, item));
    let version = top.must("version").and_then(|item| reader.whole(item, 1..=u32::MAX));
    let service = top.must("self_service").and_then(|item| self_service(reader, item));
    let approvals = group(reader, &top, "approvals", &["onboarding"])
        .and_then(|all| approvals(reader, all.must("onboarding")?));
    let waits = group(reader, &top, "waits", &["waitlist", "patience"]).and_then(|waits| {
        let read = |name| waits.must(name).and_then(|item| reader.duration(item));
        both(read("waitlist"), read("patience"))
    });
    let max_replacements = group(reader, &top, "limits", &["max_replacements"])
        .and_then(|limits| reader.whole(limits.must("max_replacements")?, 0..=100_u32));
    let prices = top.must("prices").and_then(|item| prices(reader, item));
    let quotas = group(reader, &top, "quotas", &["borrowing_limit", "lending_limit"]);
    let quota =
        |name| quotas.as_ref().and_then(|quotas| quotas.may(name)).and_then(|item| gpus(reader, item));
    let (borrowing_limit, lending_limit) = (quota("borrowing_limit"), quota("lending_limit"));
    let drivers =
        group(reader, &top, "nodes", &["drivers"]).and_then(|nodes| texts(reader, nodes.must("drivers")?));
    let registries = group(reader, &top, "images", &["registries"])
        .and_then(|images| texts(reader, images.must("registries")?));
    let capacity = top.must("capacity").and_then(|item| capacity(reader, item));
    let demands =
        top.may("compliance").map_or_else(|| Some(BTreeMap::new()), |item| compliance(reader, item));

    let ((self_service_tiers, self_service_gpus), (waitlist, patience)) = (service?, waits?);
    let ((price, prices), (overcommit, buffer, buffers)) = (prices?, capacity?);
    Some(PlatformPolicy {
        reference: PolicyRef { name: name?, version: version?, digest: sha256(text.as_bytes()) },
        self_service_tiers,
        self_service_gpus,
        onboarding: approvals?,
        waitlist,
        patience,
        max_replacements: max_replacements?,
        price,
        prices,
        borrowing_limit,
        lending_limit,
        drivers: drivers?,
        registries: registries?,
        overcommit,
        buffer,
        buffers,
        compliance: demands?,
    })
}

fn group<'a>(reader: &'a Reader, top: &Fields<'a>, name: &str, known: &[&str]) -> Option<Fields<'a>> {
    reader.fields(top.must(name)?, known)
}

fn both<A, B>(a: Option<A>, b: Option<B>) -> Option<(A, B)> {
    Some((a?, b?))
}

fn gpus(reader: &Reader, item: &Item) -> Option<Gpus> {
    reader.whole(item, 0..=100_000_u32).map(Gpus)
}

fn self_service(reader: &Reader, item: &Item) -> Option<(BTreeSet<Tier>, Gpus)> {
    let fields = reader.fields(item, &["tiers", "max_gpus"])?;
    let tiers = fields.must("tiers").and_then(|item| set(reader, item));
    both(tiers, fields.must("max_gpus").and_then(|item| gpus(reader, item)))
}

fn prices(reader: &Reader, item: &Item) -> Option<(Cents, BTreeMap<GpuModel, Cents>)> {
    let fields = reader.fields(item, &["cents_per_gpu_hour", "by_model"])?;
    let usual = fields.must("cents_per_gpu_hour").and_then(|item| cents(reader, item));
    let by_model = fields.may("by_model").map(|item| by_name(reader, item, |item| cents(reader, item)));
    Some((usual?, by_model.unwrap_or_default()))
}

fn capacity(reader: &Reader, item: &Item) -> Option<(bool, Gpus, BTreeMap<RegionId, Gpus>)> {
    let fields = reader.fields(item, &["overcommit", "buffer_gpus"])?;
    let overcommit = fields.must("overcommit").and_then(|item| reader.bool(item));
    let buffer = group(reader, &fields, "buffer_gpus", &["each", "by_region"]);
    let buffer = buffer?;
    let each = buffer.must("each").and_then(|item| gpus(reader, item));
    let by_region = buffer.may("by_region").map(|item| by_name(reader, item, |item| gpus(reader, item)));
    Some((overcommit?, each?, by_region.unwrap_or_default()))
}

fn named(reader: &Reader, item: &Item) -> Option<String> {
    let name = reader.text(item)?;
    if name == PlatformPolicy::NAME {
        return Some(name.to_owned());
    }
    reader.note(item, format!("there is no policy named {name:?}"), "write `policy: platform`");
    None
}

fn approvals(reader: &Reader, item: &Item) -> Option<Approvals> {
    let fields = reader.fields(item, &["within", "seats", "finance", "security"])?;
    let within = fields.must("within").and_then(|item| reader.duration(item));
    let seats_at = |fields: &Fields<'_>| fields.must("seats").and_then(|item| seats(reader, item));
    let always = seats_at(&fields);
    let finance =
        fields.must("finance").and_then(|item| reader.fields(item, &["above_cents_per_month", "seats"]));
    let security = fields.must("security").and_then(|item| reader.fields(item, &["seats"]));
    let above =
        finance.as_ref().and_then(|f| f.must("above_cents_per_month")).and_then(|item| cents(reader, item));
    let finance_seats = finance.as_ref().and_then(seats_at);
    let security_seats = security.as_ref().and_then(seats_at);
    Some(Approvals {
        within: within?,
        seats: always?,
        finance_above: above?,
        finance_seats: finance_seats?,
        security_seats: security_seats?,
    })
}

/// Roles that people can have.
const ROLES: [&str; 10] = [
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

fn seats(reader: &Reader, item: &Item) -> Option<Vec<Seat>> {
    let items = reader.list(item);
    if items.is_empty() {
        reader.note(
            item,
            "nobody is asked".into(),
            "name at least one seat: `- {any_of: [admin], count: 1}`",
        );
    }
    let read: Vec<_> = items.iter().map(|item| seat(reader, item)).collect();
    read.into_iter().collect()
}

fn seat(reader: &Reader, item: &Item) -> Option<Seat> {
    let fields = reader.fields(item, &["any_of", "count"])?;
    let count = fields.must("count").and_then(|item| reader.whole(item, 1..=20_u32));
    let roles = fields.must("any_of")?;
    let any_of = texts(reader, roles)?;
    if any_of.is_empty() || any_of.iter().any(|role| !ROLES.contains(&role.as_str())) {
        reader.note(roles, "not all of these are roles".into(), format!("use {}", ROLES.join(", ")));
        return None;
    }
    Some(Seat { any_of, count: count? })
}

fn compliance(reader: &Reader, item: &Item) -> Option<BTreeMap<Compliance, Demands>> {
    let mut read = BTreeMap::new();
    for (name, _, inner) in reader.entries(item) {
        let Ok(tag) = name.parse::<Compliance>() else {
            reader.note(
                inner,
                format!("{name:?} is no compliance tag"),
                "use hipaa, gdpr, pci, soc2 or 21cfr11",
            );
            continue;
        };
        let Some(fields) = reader.fields(inner, &["residency", "isolation"]) else { continue };
        let demands = Demands {
            residency: fields.may("residency").and_then(|item| residency(reader, item)),
            isolation: fields.may("isolation").and_then(|item| set(reader, item)),
        };
        read.insert(tag, demands);
    }
    Some(read)
}

fn cents(reader: &Reader, item: &Item) -> Option<Cents> {
    reader.whole(item, 0..=1_u64 << 50).map(Cents)
}

fn texts(reader: &Reader, item: &Item) -> Option<Vec<String>> {
    let read: Vec<_> = reader.list(item).iter().map(|item| reader.text(item).map(str::to_owned)).collect();
    read.into_iter().collect()
}

fn set<T>(reader: &Reader, item: &Item) -> Option<BTreeSet<T>>
where
    T: std::str::FromStr + strum::VariantArray + Copy + Ord,
    &'static str: From<T>,
{
    let read: Vec<_> = reader.list(item).iter().map(|item| reader.one_of(item)).collect();
    read.into_iter().collect()
}

fn by_name<K: crate::tenancy::Naming, T>(
    reader: &Reader,
    item: &Item,
    read: impl Fn(&Item) -> Option<T>,
) -> BTreeMap<crate::tenancy::Name<K>, T> {
    let mut all = BTreeMap::new();
    for (name, _, inner) in reader.entries(item) {
        match name.parse() {
            Ok(key) => all.extend(read(inner).map(|value| (key, value))),
            Err(error) => reader.note(inner, format!("{error}"), "mend the name"),
        }
    }
    all
}
