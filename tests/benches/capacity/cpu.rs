//! Processor time from `/proc`, in seconds.

use std::fs;
use tests::servers::postgres::Cluster;

/// Linux counts in hundredths of a second.
const TICK: f64 = 0.01;

/// Returns the fields of a process after its name, which may contain spaces.
fn fields(pid: &str) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

fn sum(fields: &[String], places: &[usize]) -> f64 {
    places.iter().filter_map(|place| fields.get(*place)?.parse::<f64>().ok()).sum::<f64>() * TICK
}

/// Returns the time used by this process so far.
pub(crate) fn own() -> f64 {
    fields("self").map_or(0.0, |fields| sum(&fields, &[11, 12]))
}

/// Returns the time used by the processes of a list so far, one a line.
pub(crate) fn of(pids: &str) -> f64 {
    pids.lines().filter_map(|pid| fields(pid.trim())).map(|fields| sum(&fields, &[11, 12])).sum()
}

/// Returns the time used by the server so far: its first process, ended processes, and current ones.
pub(crate) fn server(cluster: &Cluster) -> f64 {
    let said = cluster.sql("SELECT pg_read_file('postmaster.pid')").expect("the server answers");
    let first = said.lines().next().unwrap_or_default().trim().to_owned();
    let mut used = fields(&first).map_or(0.0, |fields| sum(&fields, &[11, 12, 13, 14]));
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if let Some(fields) = fields(&pid)
            && fields.get(1) == Some(&first)
        {
            used += sum(&fields, &[11, 12]);
        }
    }
    used
}
