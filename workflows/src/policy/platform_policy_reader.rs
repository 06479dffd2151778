//! Reads the platform policy's document.

use crate::{
    policy::{
        contradictions::contradictions,
        examples,
        parsing::{
            document::{Item, Value},
            provenance::Provenance,
            reader::{Fields, Reader},
        },
        platform_policy::{ComplianceDemands, OnboardingApproval, PlatformPolicy, sha256},
        sections::{
            admission::AdmissionRules,
            approvals::{ApprovalGates, GATE},
            capacity::CapacityRules,
            gpu_models::GpuModels,
            guards::Guards,
            lending::LendingRules,
            offboarding::OffboardingRules,
            pins,
            procedures::procedure,
            reclaim::ReclaimRules,
            retention,
            sanitisation::SanitisationRules,
            scheduling::SchedulingRules,
            seats::seats,
            sweeps::SweepSchedules,
        },
        tenant_request::residency,
    },
    tenancy::{Cents, Compliance, GpuModel, Gpus, PolicyRef, RegionId, Tier},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use strum::VariantArray as _;

const TOP: [&str; 26] = [
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
    "lending",
    "pins",
    "retention",
    "reclaim",
    "admission",
    "sanitisation",
    "offboarding",
    "guards",
    "gpu_models",
    "aliases",
    "priorities",
    "sweeps",
    "scheduling",
    "examples",
];

/// The document with the defaults for another.
pub(super) struct GapFiller<'a> {
    pub(super) root: &'a Item,
    pub(super) provenance: &'a Provenance,
}

#[allow(clippy::too_many_lines, reason = "one line a section, in the order of the document")]
pub(super) fn policy(
    reader: &Reader,
    root: &Item,
    text: &str,
    under: Option<&GapFiller<'_>>,
) -> Option<PlatformPolicy> {
    let policy = read(reader, root, text, under);
    let examples = examples::read(reader, root);
    let policy = policy?;
    reader.note_all(contradictions(&policy));
    examples.map(|_| policy)
}

/// Reads the name and the version of a document, and adds the digest of its text.
fn reference(reader: &Reader, root: &Item, text: &str) -> Option<PolicyRef> {
    let name = reader.own_field(root, "policy").and_then(|item| named(reader, item));
    let version = reader.own_field(root, "version").and_then(|item| reader.whole(item, 1..=u32::MAX));
    Some(PolicyRef { name: name?, version: version?, digest: sha256(text.as_bytes()) })
}

fn read(reader: &Reader, root: &Item, text: &str, under: Option<&GapFiller<'_>>) -> Option<PlatformPolicy> {
    let mut top = reader.fields(root, &TOP)?;
    if let Some(under) = under {
        top = top.with_defaults(under.root);
    }
    let reference = reference(reader, root, text);
    let older = older(&top);
    let approvals = top.layer("approvals", &APPROVALS);
    let onboarding = approvals
        .and_then(|all| all.layer("onboarding", &[&GATE[..], &["finance", "security"]].concat()))
        .and_then(|fields| onboarding(&fields));
    let gates = approvals.and_then(|fields| ApprovalGates::read(&fields));
    let capacity = CapacityRules::fields(&top);
    let stock = capacity.and_then(|fields| stock(&fields));
    let capacity = capacity.and_then(|fields| CapacityRules::read(&fields));
    let demands = top.required("compliance").and_then(|item| compliance(reader, item));
    let pins = top.required("pins").and_then(|item| pins::read(reader, item));
    let retention = top.required("retention").and_then(|item| retention::read(reader, item));
    let priorities = top.required("priorities").and_then(|item| priorities(reader, item));
    let (lending, reclaim) = (LendingRules::read(&top), ReclaimRules::read(&top));
    let (admission, scheduling) = (AdmissionRules::read(&top), SchedulingRules::read(&top));
    let (sanitisation, offboarding) = (SanitisationRules::read(&top), OffboardingRules::read(&top));
    let (guards, sweeps, gpu_models) =
        (Guards::read(&top), SweepSchedules::read(&top), GpuModels::read(&top));

    let (older, stock, reference) = (older?, stock?, reference?);
    let under = under.map(|under| under.provenance);
    let provenance = Provenance::from_document(&reference.name, reference.version, root, under);
    Some(PlatformPolicy {
        reference,
        self_service_tiers: older.tiers,
        self_service_gpus: older.max_gpus,
        onboarding: onboarding?,
        waitlist: older.waitlist,
        patience: older.patience,
        max_replacements: older.max_replacements,
        price: older.price,
        prices: older.prices,
        borrowing_limit: older.borrowing_limit,
        lending_limit: older.lending_limit,
        drivers: older.drivers,
        registries: older.registries,
        overcommit: stock.0,
        buffer: stock.1,
        buffers: stock.2,
        compliance: demands?,
        approvals: gates?,
        lending: lending?,
        pins: pins?,
        retention: retention?,
        reclaim: reclaim?,
        admission: admission?,
        capacity: capacity?,
        sanitisation: sanitisation?,
        offboarding: offboarding?,
        guards: guards?,
        gpu_models: gpu_models?,
        priorities: priorities?,
        scheduling: scheduling?,
        sweeps: sweeps?,
        provenance,
    })
}

const APPROVALS: [&str; 9] = [
    "onboarding",
    "quota_increase",
    "quota_decrease",
    "reclaim",
    "offboard",
    "destroy",
    "sla_change",
    "incident",
    "capacity",
];

/// The smaller sections.
struct Older {
    tiers: BTreeSet<Tier>,
    max_gpus: Gpus,
    waitlist: Duration,
    patience: Duration,
    max_replacements: u32,
    price: Cents,
    prices: BTreeMap<GpuModel, Cents>,
    borrowing_limit: Option<Gpus>,
    lending_limit: Option<Gpus>,
    drivers: Vec<String>,
    registries: Vec<String>,
}

fn older(top: &Fields<'_>) -> Option<Older> {
    let reader = top.reader();
    let service = top.layer("self_service", &["tiers", "max_gpus"]);
    let tiers = service.and_then(|fields| reader.set(fields.required("tiers")?));
    let max_gpus = service.and_then(|fields| reader.gpus(fields.required("max_gpus")?));
    let waits = top.layer("waits", &["waitlist", "patience"]);
    let span = |name| waits.and_then(|waits| reader.duration(waits.required(name)?));
    let (waitlist, patience) = (span("waitlist"), span("patience"));
    let max_replacements = top
        .layer("limits", &["max_replacements"])
        .and_then(|limits| reader.whole(limits.required("max_replacements")?, 0..=100_u32));
    let prices = top.layer("prices", &["cents_per_gpu_hour", "by_model"]);
    let price = prices.and_then(|prices| reader.cents(prices.required("cents_per_gpu_hour")?));
    let by_model = prices
        .and_then(|prices| Some(reader.by_name(prices.required("by_model")?, |item| reader.cents(item))));
    let quotas = top.layer("quotas", &["borrowing_limit", "lending_limit"]);
    let limit = |name| quotas.and_then(|quotas| limit(reader, quotas.required(name)?));
    let (borrowing_limit, lending_limit) = (limit("borrowing_limit"), limit("lending_limit"));
    let drivers = top.layer("nodes", &["drivers"]).and_then(|nodes| reader.texts(nodes.required("drivers")?));
    let registries =
        top.layer("images", &["registries"]).and_then(|images| reader.texts(images.required("registries")?));
    Some(Older {
        tiers: tiers?,
        max_gpus: max_gpus?,
        waitlist: waitlist?,
        patience: patience?,
        max_replacements: max_replacements?,
        price: price?,
        prices: by_model?,
        borrowing_limit: borrowing_limit?,
        lending_limit: lending_limit?,
        drivers: drivers?,
        registries: registries?,
    })
}

/// Reads GPUs, or `unlimited`.
fn limit(reader: &Reader, item: &Item) -> Option<Option<Gpus>> {
    if item.value == Value::Text("unlimited".into()) {
        return Some(None);
    }
    reader.gpus(item).map(Some)
}

fn stock(fields: &Fields<'_>) -> Option<(bool, Gpus, BTreeMap<RegionId, Gpus>)> {
    let reader = fields.reader();
    let overcommit = fields.required("overcommit").and_then(|item| reader.bool(item));
    let buffer = fields.layer("buffer_gpus", &["each", "by_region"])?;
    let each = buffer.required("each").and_then(|item| reader.gpus(item));
    let by_region = reader.by_name(buffer.required("by_region")?, |item| reader.gpus(item));
    Some((overcommit?, each?, by_region))
}

fn priorities(reader: &Reader, item: &Item) -> Option<BTreeMap<Tier, u32>> {
    let mut all = BTreeMap::new();
    for (tier, inner) in reader.keyed::<Tier>(item) {
        all.insert(tier, reader.whole(inner, 0..=1_000_000_u32)?);
    }
    for tier in Tier::VARIANTS.iter().filter(|tier| !all.contains_key(tier)) {
        let tier: &str = (*tier).into();
        reader.note(item, format!("tier {tier} has no priority"), format!("add `{tier}: …`"));
    }
    Some(all)
}

fn named(reader: &Reader, item: &Item) -> Option<String> {
    let name = reader.text(item)?;
    if name == PlatformPolicy::NAME {
        return Some(name.to_owned());
    }
    reader.note(item, format!("policy {name:?} does not exist"), "write `policy: platform`");
    None
}

fn onboarding(fields: &Fields<'_>) -> Option<OnboardingApproval> {
    let reader = fields.reader();
    let within = fields.required("within").and_then(|item| reader.duration(item));
    let seats_at = |fields: Fields<'_>| fields.required("seats").and_then(|item| seats(reader, item));
    let always = seats_at(*fields);
    let finance = fields.layer("finance", &["above_cents_per_month", "seats"]);
    let security = fields.layer("security", &["seats"]);
    let above = finance.and_then(|finance| reader.cents(finance.required("above_cents_per_month")?));
    let finance_seats = finance.and_then(seats_at);
    let security_seats = security.and_then(seats_at);
    let procedure = procedure(fields);
    Some(OnboardingApproval {
        within: within?,
        seats: always?,
        finance_above: above?,
        finance_seats: finance_seats?,
        security_seats: security_seats?,
        procedure: procedure?,
    })
}

fn compliance(reader: &Reader, item: &Item) -> Option<BTreeMap<Compliance, ComplianceDemands>> {
    let mut read = BTreeMap::new();
    for (name, _, inner) in reader.entries(item) {
        let Ok(tag) = name.parse::<Compliance>() else {
            reader.note(
                inner,
                format!("{name:?} is not a compliance tag"),
                "use hipaa, gdpr, pci, soc2 or 21cfr11",
            );
            continue;
        };
        let Some(fields) = reader.fields(inner, &["residency", "isolation"]) else { continue };
        let demands = ComplianceDemands {
            residency: fields.optional("residency").and_then(|item| residency(reader, item)),
            isolation: fields.optional("isolation").and_then(|item| reader.set(item)),
        };
        read.insert(tag, demands);
    }
    Some(read)
}
