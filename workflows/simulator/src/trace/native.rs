//! Parses Tenure's own trace format: one row (CSV) or one object per line (JSONL) for each workload. `docs/simulate.md`
//! explains the columns.

use crate::trace::{
    BATCH, Demand, Kind, PRODUCTION, Trace, Treatment,
    csv_rows::{CsvTable, Findings, Row},
    openb::slice,
    workspace_name,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};
use workflows::{
    policy::Invalid,
    tenancy::{Checkpoint, GpuKind, TenantId, WorkloadClass, WorkspaceClass},
};

/// The required columns.
pub(crate) const REQUIRED: [&str; 3] = ["at_s", "workspace", "gpus"];
const OPTIONAL: [&str; 8] =
    ["name", "by", "gpu_milli", "together", "duration_s", "class", "preemptible", "checkpoint"];

/// Parses a trace in CSV.
///
/// # Errors
///
/// All errors, with line and column.
pub(crate) fn read_csv(text: &str, tenant: TenantId, whole: &GpuKind) -> Result<Trace, Invalid> {
    let mut findings = Findings::default();
    let mut gathered = Gathered::default();
    let sheet = CsvTable::open(text, &REQUIRED)?;
    for column in sheet.columns().filter(|column| !REQUIRED.contains(column) && !OPTIONAL.contains(column)) {
        let problem = format!("the header has an unknown column {column:?}");
        findings.note(
            Some((1, 1)),
            "",
            problem,
            &format!("the optional columns are {}", OPTIONAL.join(", ")),
        );
    }
    sheet.each(&mut findings, |row| gathered.take(row, whole));
    findings.or(gathered.trace(tenant))
}

/// Parses a trace in JSONL: objects with the columns' names as fields.
///
/// # Errors
///
/// All errors, with line.
pub(crate) fn read_jsonl(text: &str, tenant: TenantId, whole: &GpuKind) -> Result<Trace, Invalid> {
    let mut findings = Findings::default();
    let columns: Vec<&str> = REQUIRED.into_iter().chain(OPTIONAL).collect();
    let places = columns.iter().enumerate().map(|(place, name)| ((*name).to_owned(), place)).collect();
    let mut gathered = Gathered::default();
    for (line, text) in (1_u64..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        let fields = match serde_json::from_str::<serde_json::Map<String, Value>>(text) {
            Ok(fields) => fields,
            Err(error) => {
                let at = u64::try_from(error.column().max(1)).unwrap_or(1);
                let problem = format!("the line is not a JSON object: {error}");
                findings.note(Some((line, at)), "", problem, "write one object a line");
                continue;
            }
        };
        if let Some(unknown) = fields.keys().find(|field| !columns.contains(&field.as_str())) {
            let problem = format!("field {unknown:?} is unknown here");
            findings.note(Some((line, 1)), "", problem, &format!("use {}", columns.join(", ")));
        }
        let record: csv::StringRecord = columns.iter().map(|column| plain(fields.get(*column))).collect();
        let findings = &mut findings;
        gathered.take(&mut Row { record: &record, places: &places, line, cells: false, findings }, whole);
    }
    findings.or(gathered.trace(tenant))
}

fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[derive(Default)]
struct Gathered {
    demands: Vec<Demand>,
    names: HashSet<String>,
}

impl Gathered {
    fn take(&mut self, row: &mut Row<'_>, whole: &GpuKind) {
        let Some(demand) = demand(row, whole, self.demands.len() + 1) else { return };
        if !self.names.insert(demand.name.clone()) {
            row.note("name", format!("the workload {:?} occurs twice", demand.name), "give it another name");
        }
        self.demands.push(demand);
    }

    fn trace(self, tenant: TenantId) -> Trace {
        let mut workspaces = BTreeMap::new();
        for demand in &self.demands {
            workspaces.insert(demand.workspace.clone(), WorkspaceClass::Production);
        }
        let demands = self.demands;
        Trace { kind: Kind::Events, tenant, workspaces, demands, ends: Duration::ZERO, notes: vec![] }
            .settled()
    }
}

fn demand(row: &mut Row<'_>, whole: &GpuKind, number: usize) -> Option<Demand> {
    let at = row.seconds("at_s")?;
    let gpus = row.whole("gpus", 1, 65_536);
    let workspace = row.must("workspace")?;
    let lasts = row.seconds("duration_s")?;
    let milli = if row.text("gpu_milli").is_empty() { Some(1_000) } else { row.whole("gpu_milli", 1, 1_000) };
    let together = if row.text("together").is_empty() { Some(0) } else { row.whole("together", 0, 65_536) };
    let standing = standing(row)?;
    let checkpoint = match row.text("checkpoint") {
        "" | "signal" => Checkpoint::Signal,
        "none" => Checkpoint::None,
        "api" => Checkpoint::Api,
        other => {
            let problem = format!("{other:?} is not a checkpoint method");
            row.note("checkpoint", problem, "use one of none, signal, api");
            return None;
        }
    };
    let Some(name) = workspace_name(&workspace) else {
        row.note(
            "workspace",
            format!("{workspace:?} cannot be converted to a name"),
            "use letters and digits, 27 at most",
        );
        return None;
    };
    let Some(at) = at else {
        row.note("at_s", "the value is missing".into(), "add the time of its request");
        return None;
    };
    let (gpus, milli) = (gpus?, milli?);
    let profile = if gpus == 1 { slice(milli) } else { None };
    let own = row.text("name");
    Some(Demand {
        name: if own.is_empty() { format!("workload-{number:05}") } else { own.to_owned() },
        by: Some(row.text("by").to_owned()).filter(|by| !by.is_empty()),
        origin: name.to_string(),
        workspace: name,
        at,
        lasts,
        left: lasts.map(|lasts| at + lasts),
        kind: GpuKind { model: whole.model.clone(), profile: profile.and_then(|text| text.parse().ok()) },
        gpus,
        together: together?,
        standing,
        checkpoint,
    })
}

/// Returns the treatment of a workload: by its workspace's share, unless the row gives a class.
fn standing(row: &mut Row<'_>) -> Option<Treatment> {
    let text = row.text("class").to_owned();
    let class = match text.as_str() {
        "" => None,
        text => match text.parse::<WorkloadClass>() {
            Ok(class) => Some(class),
            Err(_) => {
                let problem = format!("{text:?} is not a class of workloads");
                row.note("class", problem, "use one of service, batch, interactive, or leave it blank");
                return None;
            }
        },
    };
    let preemptible = match row.text("preemptible") {
        "" => class.map(|class| class != WorkloadClass::Service),
        "true" => Some(true),
        "false" => Some(false),
        other => {
            let problem = format!("{other:?} is neither true nor false");
            row.note("preemptible", problem, "write `true` or `false`, or leave it blank");
            return None;
        }
    };
    Some(match preemptible {
        None => Treatment::ByShare,
        Some(preemptible) => Treatment::Given {
            class: class.unwrap_or(WorkloadClass::Batch),
            preemptible,
            priority: if preemptible { BATCH } else { PRODUCTION },
        },
    })
}
