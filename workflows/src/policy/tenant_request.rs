//! The request for a tenant, as a YAML document or the `data` of a CloudEvent.

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

/// The five fields of a tenant's policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantPolicy {
    /// The service tier.
    pub tier: Tier,
    /// The isolation level.
    pub isolation: Isolation,
    /// The allowed locations of its workloads and data.
    pub data_residency: Residency,
    /// True if its workloads may be preempted, and so may borrow.
    pub allow_preemption: bool,
    /// True if its workspaces may share one GPU.
    pub allow_gpu_sharing: bool,
}

/// A requested workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceRequest {
    /// The name.
    pub name: WorkspaceName,
    /// The class.
    pub class: WorkspaceClass,
    /// The nominal quota in GPUs; `None` for an equal share of the rest.
    pub nominal: Option<Gpus>,
    /// The other limits of its quota; `nominal` in it is not set yet.
    pub limits: QuotaLimits,
    /// True if `nominal` and the lending and borrowing limits count slices instead of GPUs.
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

/// The entitlement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntitlementRequest {
    /// The GPU model.
    pub gpu_model: GpuModel,
    /// The number of GPUs.
    pub gpus: Gpus,
    /// The slice profile of the GPUs, with isolation `shared_slices`; `None` for the smallest of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_profile: Option<Profile>,
    /// The region; `None` for any region that the residency allows.
    pub region: Option<RegionId>,
    /// The first day, such as `2026-01-31`.
    pub from: Option<String>,
    /// The day after the last.
    pub to: Option<String>,
}

/// The most workspaces of one request. The work of planning and onboarding grows with their number.
const MOST_WORKSPACES: usize = 256;

/// A request for a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnboardingRequest {
    /// The tenant's name.
    pub name: TenantId,
    /// The policy.
    pub tenant: TenantPolicy,
    /// The workspaces; never empty.
    pub workspaces: Vec<WorkspaceRequest>,
    /// The entitlement.
    pub entitlement: EntitlementRequest,
    /// The compliance tags.
    pub compliance: BTreeSet<Compliance>,
    /// The groups that share the tenant; `None` counts as teams of one company.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multitenancy: Option<Multitenancy>,
    /// The line of each field, if the document has lines, for the reasons of a decision.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, u64>,
}

impl TenantPolicy {
    /// Reads the tenant policy in a document with `tenant:` and its five fields.
    ///
    /// # Errors
    /// Every problem of the document.
    pub fn from_yaml(text: &str) -> Result<Self, Invalid> {
        let root = document::from_yaml(text)?;
        let reader = Reader::default();
        let read = reader.fields(&root, &["tenant"]).and_then(|top| tenant(&reader, top.required("tenant")?));
        reader.finish(read)
    }
}

impl OnboardingRequest {
    /// Reads the request in a YAML document.
    ///
    /// # Errors
    /// Every problem of the document, by line and column.
    pub fn from_yaml(text: &str) -> Result<Self, Invalid> {
        let root = document::from_yaml(text)?;
        let mut request = Self::read(&root)?;
        lines(&root, &mut request.lines);
        Ok(request)
    }

    /// Reads the request in a JSON value, such as the `data` of a CloudEvent.
    ///
    /// # Errors
    /// Every problem of the value, by the path of the field.
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

    /// Reads the request in a part of a document, with the lines of its fields.
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

/// Records the line of every field of the upper two levels. Rules refer to no deeper level.
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
    let multitenancy = top.optionally("multitenancy", |item| reader.one_of(item));
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

/// Reads `any`, `eu-only`, or a list of jurisdictions.
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
            let problem = format!("{} is not a data residency", item.value.kind());
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
                format!("workspace {} is requested twice", workspace.name),
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

/// Reads the nominal quota in GPUs or slices, the other limits, and the unit of the numbers.
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
            format!("the entitlement ends on {end}, which is not after its start"),
            "set `to` later than `from`",
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

/// S-49: GPUs are bought whole. A part of a GPU is a slice, whose name depends on the model.
fn whole_gpus(reader: &Reader, item: &Item, model: Option<&GpuModel>) -> Option<Gpus> {
    if let Value::Fraction(part) = item.value
        && part > 0.0
        && part.fract().abs() >= f64::EPSILON
    {
        let advice = model.and_then(|model| PlatformPolicy::built_in().ok()?.gpu_models.advice(model, part));
        let advice = advice.unwrap_or_else(|| "use time slices, with isolation `shared_slices`".into());
        let remedy = format!("write a whole number from 1 to 100000; for a part of a GPU, {advice}");
        reader.note(item, format!("{} is not a valid number here", item.value.kind()), remedy);
        return None;
    }
    reader.whole(item, 1..=100_000_u32).map(Gpus)
}

fn day(reader: &Reader, item: &Item) -> Option<String> {
    let text = reader.text(item)?;
    if text.len() == 10 && chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok() {
        return Some(text.to_owned());
    }
    reader.note(item, format!("{text:?} is not a date"), "write it as `2026-01-31`");
    None
}

fn tags(reader: &Reader, item: &Item) -> Option<BTreeSet<Compliance>> {
    let read: Vec<_> = reader.list(item).iter().map(|item| reader.one_of(item)).collect();
    read.into_iter().collect()
}
