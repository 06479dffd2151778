//! Parses instances of the Alibaba GPU trace of 2025: services with one GPU each, by application.
//!
//! The applications with the most GPU instances have their own workspaces; the others share twelve, by a hash of their
//! name. A blank time means before the start or after the end of the trace.

use crate::trace::{
    Demand, Kind, Trace, Treatment,
    csv_rows::{CsvTable, Findings, Row},
    hashed, workspace_name,
};
use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};
use workflows::{
    policy::Invalid,
    tenancy::{Checkpoint, GpuKind, TenantId, WorkspaceClass, WorkspaceName},
};

/// The columns that are read.
pub(crate) const COLUMNS: [&str; 7] =
    ["instance_sn", "role", "app_name", "gpu_request", "creation_time", "scheduled_time", "deletion_time"];
/// The number of applications with their own workspace.
const OWN: usize = 20;
/// The number of workspaces for the other applications.
const SHARED: u64 = 12;

/// Parses the trace.
///
/// # Errors
///
/// All errors, with line and column.
pub(crate) fn read(text: &str, tenant: TenantId, whole: &GpuKind) -> Result<Trace, Invalid> {
    let mut findings = Findings::default();
    let (mut demands, mut without, mut ends) = (Vec::new(), 0_u64, Duration::ZERO);
    let mut names = HashSet::new();
    CsvTable::open(text, &COLUMNS)?.each(&mut findings, |row| {
        match instance(row, whole) {
            Some(Some(demand)) if names.insert(demand.name.clone()) => {
                // Times of instances without a GPU are ignored, so that halves are halves of the GPU demand.
                for column in ["creation_time", "scheduled_time", "deletion_time"] {
                    ends = ends.max(row.seconds(column).flatten().unwrap_or_default());
                }
                demands.push(demand);
            }
            Some(Some(_)) => {
                row.note("instance_sn", "the instance occurs twice".into(), "remove one of them")
            }
            Some(None) => without += 1,
            None => {}
        }
    });
    let workspaces = pool(&mut demands);
    let notes = vec![
        format!("{without} instances without a GPU are ignored"),
        format!("the {OWN} applications with the most GPU instances are workspaces, the rest share {SHARED}"),
    ];
    let trace = Trace { kind: Kind::Dlrm, tenant, workspaces, demands, ends, notes };
    findings.or(trace.settled())
}

/// Returns the demand of an instance; `Some(None)` if it has no GPU, and `None` if the row is invalid.
fn instance(row: &mut Row<'_>, whole: &GpuKind) -> Option<Option<Demand>> {
    let gpus = row.whole("gpu_request", 0, 1_024);
    let (name, app) = (row.must("instance_sn"), row.must("app_name"));
    let created = row.seconds("creation_time");
    let scheduled = row.seconds("scheduled_time");
    let deleted = row.seconds("deletion_time");
    let (gpus, name, app) = (gpus?, name?, app?);
    let (created, scheduled, deleted) = (created?, scheduled?, deleted?);
    if gpus == 0 {
        return Some(None);
    }
    let Some(workspace) = workspace_name(&app) else {
        row.note(
            "app_name",
            format!("{app:?} cannot be converted to a name"),
            "use letters and digits, 27 at most",
        );
        return None;
    };
    let at = created.unwrap_or_default();
    let began = scheduled.unwrap_or(at);
    if deleted.is_some_and(|deleted| deleted < began) {
        row.note("deletion_time", "it ends before it begins".into(), "give a later time, or none");
        return None;
    }
    Some(Some(Demand {
        name: name.replace('_', "-"),
        by: None,
        workspace,
        origin: app,
        at,
        lasts: deleted.map(|deleted| deleted.saturating_sub(began)),
        left: deleted,
        kind: whole.clone(),
        gpus,
        together: if gpus > 1 { gpus } else { 0 },
        standing: Treatment::ByShare,
        checkpoint: Checkpoint::Signal,
    }))
}

/// Assigns each application to its workspace.
fn pool(demands: &mut [Demand]) -> BTreeMap<WorkspaceName, WorkspaceClass> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for demand in demands.iter() {
        *counts.entry(demand.origin.clone()).or_default() += 1;
    }
    let mut order: Vec<_> = counts.into_iter().map(|(app, count)| (std::cmp::Reverse(count), app)).collect();
    order.sort();
    let own: HashSet<String> = order.into_iter().take(OWN).map(|(_, app)| app).collect();
    for demand in demands.iter_mut().filter(|demand| !own.contains(&demand.origin)) {
        let number = hashed(&demand.origin, SHARED) + 1;
        if let Some(shared) = workspace_name(&format!("tail-{number:02}")) {
            demand.workspace = shared;
        }
    }
    demands.iter().map(|demand| (demand.workspace.clone(), WorkspaceClass::Production)).collect()
}
