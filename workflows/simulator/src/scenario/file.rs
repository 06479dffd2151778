//! Parses a scenario: a small cluster in YAML with its demands, or with a population that generates them.

use crate::{
    scenario::{MONDAY, NodeSpec, ReclaimTerms, Scenario, WorkspaceSpec, known, population::Population},
    trace::{BATCH, Demand, Kind, PRODUCTION, Treatment},
};
use chrono::{DateTime, Utc};
use std::{collections::BTreeMap, time::Duration};
use store::Timestamp;
use workflows::{
    policy::{Invalid, Item, Reader, Value, from_yaml},
    tenancy::{
        Allowance, Checkpoint, GpuKind, GpuModel, Resource, TenantId, WorkloadClass, WorkspaceClass,
        WorkspaceName,
    },
    yaml,
};

const TOP: [&str; 10] = [
    "scenario",
    "about",
    "tenant",
    "starts",
    "lasts",
    "fleet",
    "reclaim",
    "workspaces",
    "workloads",
    "population",
];

/// Parses a scenario. `seed` is for its population, if it has one.
///
/// # Errors
///
/// All errors, with line, column and field.
pub(crate) fn read(text: &str, seed: u64) -> Result<Scenario, Invalid> {
    let item = from_yaml(text)?;
    let reader = Reader::default();
    let tenant = known("acme")?;
    let model = known("H100")?;
    let read = scenario(&reader, &item, tenant, model, seed);
    reader.finish(read)
}

fn scenario(reader: &Reader, item: &Item, tenant: TenantId, model: GpuModel, seed: u64) -> Option<Scenario> {
    let top = reader.fields(item, &TOP)?;
    let name = top.required("scenario").and_then(|item| reader.text(item));
    let about =
        top.optional("about").and_then(|item| reader.text(item)).unwrap_or_default().trim().to_owned();
    let tenant = top.optional("tenant").map_or(Some(tenant), |item| reader.name(item));
    let starts = top.optional("starts").map_or(Some(MONDAY), |item| moment(reader, item));
    let lasts = top.required("lasts").and_then(|item| reader.duration(item));
    let fleet = top.required("fleet").and_then(|item| fleet(reader, item, &model));
    let terms = top.optional("reclaim").map_or(Some(ReclaimTerms::default()), |item| terms(reader, item));
    let model = fleet.as_ref().map_or(model, |(model, _)| model.clone());
    let kind = GpuKind::whole(model.clone());
    let workspaces = top.required("workspaces").and_then(|item| workspaces(reader, item, &kind));
    let clock = Clock { starts: starts?, lasts: lasts? };
    let (portions, workspaces) = (workspaces.clone().unwrap_or_default(), workspaces);
    let mut demands = Vec::new();
    for item in
        top.optional("workloads").map(|item| reader.list_of(item, yaml::MOST_VALUES)).unwrap_or_default()
    {
        demands.extend(workload(reader, item, &kind, &portions, &clock));
    }
    if let Some(item) = top.optional("population") {
        let population = Population::read(reader, item)?;
        demands.extend(population.draw(&portions, &kind, clock.lasts, seed));
    }
    demands.sort_by_key(|demand| demand.at);
    Some(Scenario {
        name: name?.to_owned(),
        about,
        kind: Kind::Scenario,
        tenant: tenant?,
        model,
        starts: clock.starts,
        ends: clock.lasts,
        machines: fleet?.1,
        workspaces: workspaces?,
        demands,
        terms: terms?,
        counts: Vec::new(),
        notes: Vec::new(),
    })
}

struct Clock {
    starts: Timestamp,
    lasts: Duration,
}

fn moment(reader: &Reader, item: &Item) -> Option<Timestamp> {
    let text = reader.text(item)?;
    let parsed = text.parse::<DateTime<Utc>>().ok().and_then(|at| u64::try_from(at.timestamp_millis()).ok());
    if parsed.is_none() {
        reader.note(item, format!("{text:?} is not a timestamp"), "write it as 2026-03-02T06:00:00Z");
    }
    parsed.map(Timestamp)
}

fn fleet(reader: &Reader, item: &Item, model: &GpuModel) -> Option<(GpuModel, Vec<NodeSpec>)> {
    let fields = reader.fields(item, &["nodes", "gpus", "model"])?;
    let nodes = fields.required("nodes").and_then(|item| reader.whole(item, 1_u32..=4_096));
    let gpus = fields.required("gpus").and_then(|item| reader.whole(item, 1_u16..=64));
    let model = fields.optional("model").map_or(Some(model.clone()), |item| reader.name(item));
    let (nodes, gpus, model) = (nodes?, gpus?, model?);
    let machine = |number: u32| {
        let node = format!("node-{number}").parse().ok()?;
        Some(NodeSpec { node, gpus: vec![None; usize::from(gpus)] })
    };
    Some((model, (1..=nodes).filter_map(machine).collect()))
}

fn terms(reader: &Reader, item: &Item) -> Option<ReclaimTerms> {
    let fields = reader.fields(item, &["grace", "deadline", "cooldown", "sweep_every"])?;
    let span =
        |name: &str, usual: Duration| fields.optional(name).map_or(Some(usual), |item| reader.duration(item));
    let usual = ReclaimTerms::default();
    let terms = ReclaimTerms {
        grace: span("grace", usual.grace)?,
        deadline: span("deadline", usual.deadline)?,
        cooldown: span("cooldown", usual.cooldown)?,
        sweep_every: span("sweep_every", usual.sweep_every)?,
    };
    if terms.deadline <= terms.grace || terms.sweep_every.is_zero() {
        reader.note(
            item,
            "the terms are contradictory".into(),
            "set a deadline longer than the grace period, and a sweep",
        );
        return None;
    }
    Some(terms)
}

fn workspaces(
    reader: &Reader,
    item: &Item,
    kind: &GpuKind,
) -> Option<BTreeMap<WorkspaceName, WorkspaceSpec>> {
    let mut all = BTreeMap::new();
    for (name, _, inner) in reader.entries(item) {
        let Ok(workspace) = name.parse::<WorkspaceName>() else {
            reader.note(
                inner,
                format!("{name:?} is not a valid name of a workspace"),
                "use lower-case letters, digits, '-'",
            );
            continue;
        };
        let fields =
            reader.fields(inner, &["class", "nominal", "reserved", "borrowing_limit", "lending_limit"]);
        let Some(fields) = fields else { continue };
        let count = |name: &str| fields.optional(name).map(|item| reader.whole(item, 0_u64..=1_000_000));
        let class = fields.required("class").and_then(|item| reader.one_of::<WorkspaceClass>(item));
        let nominal = fields.required("nominal").and_then(|item| reader.whole(item, 0_u64..=1_000_000));
        let limits = (count("borrowing_limit"), count("lending_limit"), count("reserved"));
        let (Some(class), Some(nominal)) = (class, nominal) else { continue };
        let (borrowing_limit, lending_limit) = (limits.0.flatten(), limits.1.flatten());
        let reserved = limits.2.flatten().unwrap_or(nominal);
        if reserved > nominal {
            let problem = format!("{reserved} GPUs are reserved, but its own quota is {nominal}");
            reader.note(inner, problem, "reserve at most the nominal quota");
        }
        let allowance = Allowance { nominal, borrowing_limit, lending_limit };
        let portion = WorkspaceSpec {
            class,
            allowances: BTreeMap::from([(Resource::Gpu(kind.clone()), allowance)]),
            reserved: BTreeMap::from([(kind.clone(), reserved)]),
        };
        all.insert(workspace, portion);
    }
    if all.is_empty() {
        reader.note(item, "the scenario has no workspace".into(), "add at least one");
        return None;
    }
    Some(all)
}

fn workload(
    reader: &Reader,
    item: &Item,
    kind: &GpuKind,
    workspaces: &BTreeMap<WorkspaceName, WorkspaceSpec>,
    clock: &Clock,
) -> Option<Demand> {
    let known = ["at", "name", "by", "workspace", "gpus", "together", "lasts", "class", "checkpoint"];
    let fields = reader.fields(item, &known)?;
    let name = fields.required("name").and_then(|item| reader.text(item));
    let at = fields.required("at").and_then(|item| when(reader, item, clock));
    let gpus = fields.required("gpus").and_then(|item| reader.whole(item, 1_u64..=65_536));
    let lasts = fields.optional("lasts").map(|item| reader.duration(item));
    let workspace = fields.required("workspace").and_then(|item| {
        let name = reader.name(item)?;
        if !workspaces.is_empty() && !workspaces.contains_key(&name) {
            reader.note(item, format!("workspace {name} does not exist"), "use one of the workspaces above");
        }
        Some(name)
    });
    let class = fields.required("class").and_then(|item| reader.one_of::<WorkloadClass>(item));
    let together = fields.optional("together").map_or(Some(0), |item| reader.whole(item, 0_u64..=64));
    let checkpoint =
        fields.optional("checkpoint").map_or(Some(Checkpoint::Signal), |item| saves(reader, item));
    let by = fields.optional("by").and_then(|item| reader.text(item)).map(ToOwned::to_owned);
    let preemptible = class? != WorkloadClass::Service;
    let lasts = match lasts {
        None => None,
        Some(lasts) => Some(lasts?),
    };
    let workspace: WorkspaceName = workspace?;
    Some(Demand {
        name: name?.to_owned(),
        by,
        origin: workspace.to_string(),
        workspace,
        at: at?,
        lasts,
        left: lasts.map(|lasts| at.unwrap_or_default() + lasts),
        kind: kind.clone(),
        gpus: gpus?,
        together: together?,
        standing: Treatment::Given {
            class: class?,
            preemptible,
            priority: if preemptible { BATCH } else { PRODUCTION },
        },
        checkpoint: checkpoint?,
    })
}

fn saves(reader: &Reader, item: &Item) -> Option<Checkpoint> {
    let text = reader.text(item)?;
    let read = text.parse().ok();
    if read.is_none() {
        reader.note(item, format!("{text:?} is not a checkpoint method"), "use one of none, signal, api");
    }
    read
}

/// Parses a duration since the start (`1h30m`) or a time of day (`07:30`).
fn when(reader: &Reader, item: &Item, clock: &Clock) -> Option<Duration> {
    let text = if let Value::Text(text) = &item.value { text.as_str() } else { "" };
    let of_day = text.split_once(':').and_then(|(hours, minutes)| {
        let (hours, minutes) = (hours.parse::<u64>().ok()?, minutes.parse::<u64>().ok()?);
        let begins = Duration::from_millis(clock.starts.0 % 86_400_000);
        let at = Duration::from_secs(hours * 3_600 + minutes * 60);
        (hours < 24 && minutes < 60).then(|| at.checked_sub(begins)).flatten()
    });
    let at = of_day.or_else(|| workflows::policy::duration::parse(text));
    match at {
        Some(at) if at <= clock.lasts => Some(at),
        Some(_) | None => {
            let problem = format!("{} is not a time of the scenario", item.value.kind());
            reader.note(
                item,
                problem,
                "write a time of day such as \"07:30\", or a duration after the start such as `1h30m`",
            );
            None
        }
    }
}
