//! Instances of the Alibaba GPU trace of 2025: services that hold one GPU each, by application.
//!
//! The recipe is that of domain 7.3: the applications with the most GPU instances are workspaces of their own, the others
//! share twelve, by a hash of their name. A blank time is before the trace begins or after it ends.

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
/// Applications with a workspace of their own.
const OWN: usize = 20;
/// Workspaces that the other applications share.
const SHARED: u64 = 12;

/// The trace in `text`.
///
/// # Errors
/// Everything that is wrong with it, by line and column.
pub(crate) fn read(text: &str, tenant: TenantId, whole: &GpuKind) -> Result<Trace, Invalid> {
    let mut findings = Findings::default();
    let (mut demands, mut without, mut ends) = (Vec::new(), 0_u64, Duration::ZERO);
    let mut names = HashSet::new();
    CsvTable::open(text, &COLUMNS)?.each(&mut findings, |row| {
        match instance(row, whole) {
            Some(Some(demand)) if names.insert(demand.name.clone()) => {
                // The moments of instances without a GPU do not count: halves are halves of GPU demand.
                for column in ["creation_time", "scheduled_time", "deletion_time"] {
                    ends = ends.max(row.seconds(column).flatten().unwrap_or_default());
                }
                demands.push(demand);
            }
            Some(Some(_)) => row.note("instance_sn", "the instance stands twice".into(), "keep one of them"),
            Some(None) => without += 1,
            None => {}
        }
    });
    let workspaces = pool(&mut demands);
    let notes = vec![
        format!("{without} instances without a GPU are left out"),
        format!("the {OWN} applications with the most GPU instances are workspaces, the rest share {SHARED}"),
    ];
    let trace = Trace { kind: Kind::Dlrm, tenant, workspaces, demands, ends, notes };
    findings.or(trace.settled())
}

/// An instance; `Some(None)` when it holds no GPU, `None` when the row is wrong.
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
        row.note("app_name", format!("{app:?} gives no name"), "use letters and digits, 27 at most");
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

/// Puts each application into its workspace.
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
