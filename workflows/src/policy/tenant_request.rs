//! The request for a tenant, as people and order systems write it: a YAML document, or the `data` of a CloudEvent.

use crate::{
    policy::{
        parsing::{
            document::{self, Item, Value},
            finding::Invalid,
            reader::{Fields, Reader},
        },
        platform_policy::PlatformPolicy,
    },
    tenancy::{
        Compliance, GpuModel, GpuOffer, Gpus, Isolation, Multitenancy, Profile, QuotaLimits, RegionId,
        Residency, TenantId, Tier, Workspace, WorkspaceClass, WorkspaceName, is_reserved,
    },
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What is promised to a tenant and asked of it: the five fields of a tenant's policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantPolicy {
    /// What service was sold.
    pub tier: Tier,
    /// How far the tenant is kept apart.
    pub isolation: Isolation,
    /// Where its work and data may be.
    pub data_residency: Residency,
    /// Whether its work may be preempted, and so may borrow.
    pub allow_preemption: bool,
    /// Whether its workspaces may share one GPU.
    pub allow_gpu_sharing: bool,
}

/// A workspace asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceRequest {
    /// Its name.
    pub name: WorkspaceName,
    /// What it is for.
    pub class: WorkspaceClass,
    /// GPUs of its own; `None` for an equal share of what the others leave.
    pub nominal: Option<Gpus>,
    /// The rest of its quota; `nominal` in here is not yet filled.
    pub limits: QuotaLimits,
    /// Whether `nominal` and the limits of lending and borrowing count slices instead of GPUs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_slices: bool,
}

impl WorkspaceRequest {
    /// Returns an amount of the workspace's quota in pieces of `offer`.
    pub(super) fn pieces(&self, offer: &GpuOffer, amount: Option<Gpus>) -> Option<Gpus> {
        let pieces = |amount: Gpus| if self.in_slices { u64::from(amount.0) } else { offer.pieces(amount) };
        amount.map(|amount| Gpus(u32::try_from(pieces(amount)).unwrap_or(u32::MAX)))
    }
}

/// What was bought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntitlementRequest {
    /// The GPU model.
    pub gpu_model: GpuModel,
    /// How many.
    pub gpus: Gpus,
    /// The slices that the GPUs are cut into, with isolation `shared_slices`; `None` for the smallest of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_profile: Option<Profile>,
    /// Where; `None` wherever residency allows.
    pub region: Option<RegionId>,
    /// The first day, as `2026-01-31`.
    pub from: Option<String>,
    /// The day after the last.
    pub to: Option<String>,
}

/// How many workspaces may be asked for with a tenant. What is planned and done grows with them.
const MOST_WORKSPACES: usize = 256;

/// A request for a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnboardingRequest {
    /// The tenant's name.
    pub name: TenantId,
    /// Its policy.
    pub tenant: TenantPolicy,
    /// Its workspaces; never empty.
    pub workspaces: Vec<WorkspaceRequest>,
    /// What was bought.
    pub entitlement: EntitlementRequest,
    /// What further rules hold.
    pub compliance: BTreeSet<Compliance>,
    /// Who shares what the tenant has; `None` where nothing is said, which is as among teams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multitenancy: Option<Multitenancy>,
    /// Line of each field in the document, where it had lines, so that a decision can point at them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, u64>,
}

impl TenantPolicy {
    /// The policy in a document that holds `tenant:` and its five fields.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_yaml(text: &str) -> Result<Self, Invalid> {
        let root = document::from_yaml(text)?;
        let reader = Reader::default();
        let read = reader.fields(&root, &["tenant"]).and_then(|top| tenant(&reader, top.required("tenant")?));
        reader.finish(read)
    }
}

impl OnboardingRequest {
    /// The request in a YAML document.
    ///
    /// # Errors
    /// Everything that is wrong with it, by line and column.
    pub fn from_yaml(text: &str) -> Result<Self, Invalid> {
        let root = document::from_yaml(text)?;
        let mut request = Self::read(&root)?;
        lines(&root, &mut request.lines);
        Ok(request)
    }

    /// The request in a JSON value, such as the `data` of a CloudEvent.
    ///
    /// # Errors
    /// Everything that is wrong with it, by the path of the field.
    pub fn from_json(data: &serde_json::Value) -> Result<Self, Invalid> {
        Self::read(&document::from_json(data, String::new()))
    }

    fn read(root: &Item) -> Result<Self, Invalid> {
        let reader = Reader::default();
        let read = Self::read_by(&reader, root);
        if let (Some(request), Value::Map(top)) = (&read, &root.value)
            && is_reserved(&request.name)
            && let Some((_, _, item)) = top.iter().find(|(name, _, _)| name == "name")
        {
            let problem = format!("the name {} is reserved", request.name);
            reader.note(item, problem, "choose another name; the platform and Kubernetes use this one");
        }
        reader.finish(read)
    }

    /// The request in a part of a document, with the lines of its fields.
    pub(super) fn read_within(reader: &Reader, item: &Item) -> Option<Self> {
        let mut request = Self::read_by(reader, item)?;
        lines(item, &mut request.lines);
        let prefix = format!("{}.", item.path);
        let own = |(path, line): (String, u64)| (path.replacen(&prefix, "", 1), line);
        request.lines = std::mem::take(&mut request.lines).into_iter().map(own).collect();
        Some(request)
    }

    fn read_by(reader: &Reader, root: &Item) -> Option<Self> {
        let known = ["name", "tenant", "workspaces", "entitlement", "compliance", "multitenancy"];
        reader.fields(root, &known).and_then(|top| request(reader, &top))
    }
}

/// Remembers the line of every field of two levels, which is as deep as rules point.
fn lines(root: &Item, lines: &mut BTreeMap<String, u64>) {
    let Value::Map(top) = &root.value else { return };
    for (name, at, item) in top {
        lines.extend(at.map(|spot| (name.clone(), spot.line)));
        let Value::Map(inner) = &item.value else { continue };
        lines.extend(inner.iter().filter_map(|(_, at, field)| Some((field.path.clone(), (*at)?.line))));
    }
}

fn request(reader: &Reader, top: &Fields<'_>) -> Option<OnboardingRequest> {
    let name = top.required("name").and_then(|item| reader.name(item));
    let tenant = top.required("tenant").and_then(|item| tenant(reader, item));
    let entitlement = top.required("entitlement").and_then(|item| entitlement(reader, item));
    let workspaces =
        top.optional("workspaces").map_or_else(|| Some(Vec::new()), |item| workspaces(reader, item));
    let compliance =
        top.optional("compliance").map_or_else(|| Some(BTreeSet::new()), |item| tags(reader, item));
    let multitenancy = top.optional("multitenancy").map_or(Some(None), |item| reader.one_of(item).map(Some));
    let mut workspaces = workspaces?;
    if workspaces.is_empty() {
        workspaces.push(WorkspaceRequest {
            name: Workspace::DEFAULT.parse().ok()?,
            class: WorkspaceClass::Production,
            nominal: None,
            limits: QuotaLimits::default(),
            in_slices: false,
        });
    }
    let lines = BTreeMap::new();
    Some(OnboardingRequest {
        name: name?,
        tenant: tenant?,
        workspaces,
        entitlement: entitlement?,
        compliance: compliance?,
        multitenancy: multitenancy?,
        lines,
    })
}

fn tenant(reader: &Reader, item: &Item) -> Option<TenantPolicy> {
    let known = ["tier", "isolation", "data_residency", "allow_preemption", "allow_gpu_sharing"];
    let fields = reader.fields(item, &known)?;
    let tier = fields.required("tier").and_then(|item| reader.one_of(item));
    let isolation = fields.required("isolation").and_then(|item| isolation(reader, item));
    let data_residency = fields.required("data_residency").and_then(|item| residency(reader, item));
    let allow_preemption = fields.required("allow_preemption").and_then(|item| reader.bool(item));
    let allow_gpu_sharing = fields.required("allow_gpu_sharing").and_then(|item| reader.bool(item));
    Some(TenantPolicy {
        tier: tier?,
        isolation: isolation?,
        data_residency: data_residency?,
        allow_preemption: allow_preemption?,
        allow_gpu_sharing: allow_gpu_sharing?,
    })
}

fn isolation(reader: &Reader, item: &Item) -> Option<Isolation> {
    if item.value == Value::Text("dedicated".into()) {
        return Some(Isolation::DedicatedNodes);
    }
    reader.one_of(item)
}

/// `any`, `eu-only`, or a list of jurisdictions.
pub(crate) fn residency(reader: &Reader, item: &Item) -> Option<Residency> {
    match &item.value {
        Value::Text(text) if text == "any" => Some(Residency::Any),
        Value::Text(text) if text == "eu-only" => {
            Some(Residency::Within("eu".parse().ok().into_iter().collect()))
        }
        Value::List(items) if !items.is_empty() => {
            let read: Vec<_> = items.iter().map(|item| reader.name(item)).collect();
            read.into_iter().collect::<Option<_>>().map(Residency::Within)
        }
        _ => {
            let problem = format!("{} does not say where data may be", item.value.kind());
            reader.note(
                item,
                problem,
                "write `eu-only`, `any`, or a list of jurisdictions such as `[eu, us]`",
            );
            None
        }
    }
}

fn workspaces(reader: &Reader, item: &Item) -> Option<Vec<WorkspaceRequest>> {
    let read: Vec<_> =
        reader.list_of(item, MOST_WORKSPACES).iter().map(|item| workspace(reader, item)).collect();
    let read: Vec<WorkspaceRequest> = read.into_iter().collect::<Option<_>>()?;
    let mut seen = BTreeSet::new();
    for workspace in &read {
        if !seen.insert(&workspace.name) {
            reader.note(
                item,
                format!("workspace {} is asked for twice", workspace.name),
                "give each its own name",
            );
        }
    }
    Some(read)
}

fn workspace(reader: &Reader, item: &Item) -> Option<WorkspaceRequest> {
    let fields = reader.fields(item, &["name", "class", "quotas"])?;
    let name = fields.required("name").and_then(|item| reader.name(item));
    let class = fields.required("class").and_then(|item| reader.one_of(item));
    let none = || Some((None, QuotaLimits::default(), false));
    let quotas = fields.optional("quotas").map_or_else(none, |item| quotas(reader, item));
    let (nominal, limits, in_slices) = quotas?;
    Some(WorkspaceRequest { name: name?, class: class?, nominal, limits, in_slices })
}

/// GPUs or slices of its own, the other limits, and whether the numbers count slices.
fn quotas(reader: &Reader, item: &Item) -> Option<(Option<Gpus>, QuotaLimits, bool)> {
    let known = [
        "gpus",
        "slices",
        "borrowing_limit",
        "lending_limit",
        "cpu_milli",
        "memory_mib",
        "storage_gib",
        "pods",
    ];
    let fields = reader.fields(item, &known)?;
    let (whole, slices) = (fields.optional("gpus"), fields.optional("slices"));
    if let (Some(_), Some(slices)) = (whole, slices) {
        reader.note(slices, "both `gpus` and `slices` are given".into(), "give one of the two");
    }
    let gpus = |name| fields.optional(name).and_then(|item| reader.whole(item, 0..=100_000_u32)).map(Gpus);
    let other = |name| fields.optional(name).and_then(|item| reader.whole(item, 0..=1_u64 << 50));
    let limits = QuotaLimits {
        nominal: Gpus::ZERO,
        borrowing_limit: gpus("borrowing_limit"),
        lending_limit: gpus("lending_limit"),
        cpu_milli: other("cpu_milli"),
        memory_mib: other("memory_mib"),
        storage_gib: other("storage_gib"),
        pods: other("pods"),
    };
    let nominal = if slices.is_some() { gpus("slices") } else { gpus("gpus") };
    Some((nominal, limits, slices.is_some()))
}

fn entitlement(reader: &Reader, item: &Item) -> Option<EntitlementRequest> {
    let fields = reader.fields(item, &["gpu_model", "gpus", "slice_profile", "region", "from", "to"])?;
    let gpu_model = fields.required("gpu_model").and_then(|item| reader.name(item));
    let gpus = fields.required("gpus").and_then(|item| whole_gpus(reader, item, gpu_model.as_ref()));
    let slice_profile = fields.optional("slice_profile").map(|item| reader.name(item));
    let region = fields.optional("region").map(|item| reader.name(item));
    let day = |name| fields.optional(name).map(|item| day(reader, item));
    let (from, to) = (day("from"), day("to"));
    if let (Some(Some(first)), Some(Some(end))) = (&from, &to)
        && first >= end
    {
        reader.note(
            item,
            format!("the entitlement ends on {end}, not after it begins"),
            "let `to` be later than `from`",
        );
    }
    let optional = |read: Option<Option<String>>| read.map_or(Some(None), |read| read.map(Some));
    let region = region.map_or(Some(None), |read| read.map(Some));
    Some(EntitlementRequest {
        gpu_model: gpu_model?,
        gpus: gpus?,
        slice_profile: slice_profile.map_or(Some(None), |read| read.map(Some))?,
        region: region?,
        from: optional(from)?,
        to: optional(to)?,
    })
}

/// S-49: GPUs are bought whole; a part of one is a slice, whose name depends on the model.
fn whole_gpus(reader: &Reader, item: &Item, model: Option<&GpuModel>) -> Option<Gpus> {
    if let Value::Fraction(part) = item.value
        && part > 0.0
        && part.fract().abs() >= f64::EPSILON
    {
        let advice = model.and_then(|model| PlatformPolicy::built_in().ok()?.gpu_models.advice(model, part));
        let advice = advice.unwrap_or_else(|| "share one in time, with isolation `shared_slices`".into());
        let remedy = format!("write a whole number from 1 to 100000; for a part of a GPU, {advice}");
        reader.note(item, format!("{} is not a number that fits here", item.value.kind()), remedy);
        return None;
    }
    reader.whole(item, 1..=100_000_u32).map(Gpus)
}

fn day(reader: &Reader, item: &Item) -> Option<String> {
    let text = reader.text(item)?;
    if text.len() == 10 && chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok() {
        return Some(text.to_owned());
    }
    reader.note(item, format!("{text:?} is no day"), "write it as `2026-01-31`");
    None
}

fn tags(reader: &Reader, item: &Item) -> Option<BTreeSet<Compliance>> {
    let read: Vec<_> = reader.list(item).iter().map(|item| reader.one_of(item)).collect();
    read.into_iter().collect()
}
