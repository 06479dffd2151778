//! Parses pods of the Alibaba GPU trace of 2023, and maps fractions of a GPU to slices.
//!
//! Pods of class LS and Guaranteed belong to eight production workspaces, Burstable to one with mixed work, and BE to
//! four research workspaces without quota, which borrow.

use crate::trace::{
    BATCH, Demand, Kind, Trace, Treatment,
    csv_rows::{CsvTable, Findings, Row},
    hashed, workspace_name,
};
use std::{collections::HashSet, time::Duration};
use workflows::{
    policy::Invalid,
    tenancy::{Checkpoint, GpuKind, TenantId, WorkloadClass, WorkspaceClass, WorkspaceName},
};

/// The columns that are read.
pub(crate) const COLUMNS: [&str; 9] = [
    "name",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
];

/// The longest interval without a demand that is replayed unchanged.
const QUIET: Duration = Duration::from_secs(3_600);

/// Slices of a GPU, smallest first (NVIDIA MIG: seven compute slices).
const SLICES: [u64; 5] = [1, 2, 3, 4, 7];

/// Returns the smallest slice with at least `milli` thousandths of a GPU, or `None` for a whole GPU.
#[must_use]
pub fn slice(milli: u64) -> Option<&'static str> {
    if milli >= 1_000 {
        return None;
    }
    let sevenths = milli.saturating_mul(7).div_ceil(1_000);
    let fits = SLICES.into_iter().find(|slice| *slice >= sevenths).unwrap_or(7);
    Some(match fits {
        1 => "1g",
        2 => "2g",
        3 => "3g",
        4 => "4g",
        _ => "7g",
    })
}

/// Returns the number of slices with this profile per GPU.
#[must_use]
pub fn per_gpu(profile: &str) -> u16 {
    match profile.as_bytes().first() {
        Some(b'1') => 7,
        Some(b'2') => 3,
        Some(b'3') => 2,
        Some(_) | None => 1,
    }
}

#[derive(Default)]
struct Left {
    out: u64,
    pending: u64,
    fractions: u64,
    unspecified: u64,
}

/// Parses the trace.
///
/// # Errors
///
/// All errors, with line and column.
pub(crate) fn read(text: &str, tenant: TenantId, whole: &GpuKind) -> Result<Trace, Invalid> {
    let mut findings = Findings::default();
    let (mut demands, mut left, mut names) = (Vec::new(), Left::default(), HashSet::new());
    let mut workspaces = std::collections::BTreeMap::new();
    CsvTable::open(text, &COLUMNS)?.each(&mut findings, |row| match pod(row, whole, &mut left) {
        Some(Some((demand, class))) => {
            if !names.insert(demand.name.clone()) {
                row.note("name", "the pod occurs twice".into(), "remove one of them");
            }
            workspaces.insert(demand.workspace.clone(), class);
            demands.push(demand);
        }
        Some(None) => left.out += 1,
        None => {}
    });
    let notes = vec![
        format!("{} pods without a GPU are ignored", left.out),
        format!(
            "{} pods never ran in the recording; their waiting time is used as their duration",
            left.pending
        ),
        format!(
            "{} pods request a part of a GPU, and get a slice of the required number of sevenths",
            left.fractions
        ),
        format!("{} pods name no GPU model; their workspace is derived from their name", left.unspecified),
        "hours without requests are skipped: the recording is a sample of a cluster".to_owned(),
    ];
    compress(&mut demands);
    let trace = Trace { kind: Kind::Openb, tenant, workspaces, demands, ends: Duration::ZERO, notes };
    findings.or(trace.settled())
}

/// Shortens intervals between demands to [`QUIET`]. Most of the recording is idle, so uncompressed shares would be
/// zero.
fn compress(demands: &mut [Demand]) {
    demands.sort_by_key(|demand| demand.at);
    // The start of each interval, in original and in compressed time.
    let mut stretches: Vec<(Duration, Duration)> = vec![(Duration::ZERO, Duration::ZERO)];
    for demand in demands.iter() {
        let Some((from, to)) = stretches.last().copied() else { continue };
        let passed = demand.at.saturating_sub(from);
        if !passed.is_zero() {
            stretches.push((demand.at, to + passed.min(QUIET)));
        }
    }
    let shown = |moment: Duration| {
        let after = stretches.partition_point(|(from, _)| *from <= moment);
        let (from, to) = stretches.get(after.saturating_sub(1)).copied().unwrap_or_default();
        let passed = moment.saturating_sub(from);
        let Some((next, _)) = stretches.get(after).filter(|(next, _)| *next - from > QUIET) else {
            return to + passed;
        };
        let share = passed.as_secs_f64() / (*next - from).as_secs_f64();
        Duration::from_millis((to.as_secs_f64() * 1e3 + QUIET.as_secs_f64() * 1e3 * share).round() as u64)
    };
    for demand in demands.iter_mut() {
        let began = demand.left.zip(demand.lasts).map(|(left, lasts)| left.saturating_sub(lasts));
        let left = demand.left.map(&shown);
        demand.lasts = left.zip(began).map(|(left, began)| left.saturating_sub(shown(began)));
        demand.at = shown(demand.at);
        demand.left = left;
    }
}

/// Returns the demand of a pod; `Some(None)` if it requests no GPU, and `None` if the row is invalid.
fn pod(row: &mut Row<'_>, whole: &GpuKind, left: &mut Left) -> Option<Option<(Demand, WorkspaceClass)>> {
    let (count, milli) = (row.whole("num_gpu", 0, 1_024), row.whole("gpu_milli", 0, 1_000));
    let name = row.must("name");
    let (created, deleted) = (row.seconds("creation_time"), row.seconds("deletion_time"));
    let scheduled = row.seconds("scheduled_time");
    let (count, milli, name, deleted, scheduled) = (count?, milli?, name?, deleted?, scheduled?);
    if count == 0 {
        return Some(None);
    }
    let Some(at) = created? else {
        row.note("creation_time", "the value is missing".into(), "add the time of its request");
        return None;
    };
    let began = scheduled.unwrap_or(at);
    if deleted.is_some_and(|deleted| deleted < began) {
        row.note("deletion_time", "it ends before it begins".into(), "give a later time, or none");
        return None;
    }
    left.pending += u64::from(scheduled.is_none());
    let profile = if count == 1 { slice(milli) } else { None };
    left.fractions += u64::from(profile.is_some());
    let spec = row.text("gpu_spec").to_owned();
    left.unspecified += u64::from(spec.is_empty());
    let told = if spec.is_empty() { &name } else { &spec };
    let (workspace, class, standing) = place(row, told)?;
    let kind =
        GpuKind { model: whole.model.clone(), profile: profile.and_then(|profile| profile.parse().ok()) };
    let demand = Demand {
        origin: workspace.to_string(),
        name,
        by: None,
        workspace,
        at,
        lasts: deleted.map(|deleted| deleted.saturating_sub(began)),
        left: deleted,
        kind,
        gpus: count,
        together: if count > 1 { count } else { 0 },
        standing,
        checkpoint: Checkpoint::Signal,
    };
    Some(Some((demand, class)))
}

/// Returns the workspace of a pod by its service class and a hash.
fn place(row: &mut Row<'_>, told: &str) -> Option<(WorkspaceName, WorkspaceClass, Treatment)> {
    let batch = Treatment::Given { class: WorkloadClass::Batch, preemptible: true, priority: BATCH };
    let (name, class, standing) = match row.text("qos") {
        "LS" | "Guaranteed" => {
            let name = format!("production-{}", hashed(told, 8) + 1);
            (name, WorkspaceClass::Production, Treatment::ByShare)
        }
        "Burstable" => ("mixed".into(), WorkspaceClass::Batch, Treatment::ByShare),
        "BE" => (format!("research-{}", hashed(told, 4) + 1), WorkspaceClass::Research, batch),
        other => {
            let problem = format!("{other:?} is not a class of service");
            row.note("qos", problem, "use one of LS, Guaranteed, Burstable, BE");
            return None;
        }
    };
    Some((workspace_name(&name)?, class, standing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_becomes_the_smallest_slice_that_holds_it() {
        let cases =
            [(50, "1g"), (142, "1g"), (143, "2g"), (320, "3g"), (470, "4g"), (590, "7g"), (810, "7g")];
        for (milli, wanted) in cases {
            assert_eq!(slice(milli), Some(wanted), "{milli}");
        }
        assert_eq!(slice(1_000), None);
    }
}
