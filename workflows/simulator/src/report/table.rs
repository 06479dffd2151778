//! The report as a table for terminals.

use super::Report;
use crate::replay::measures::{Measures, Waits};
use std::fmt::Write as _;

/// A row: title and format.
type Row = (&'static str, fn(&Measures) -> String);

const ROWS: [Row; 24] = [
    ("demands inside / above a reservation", |m| format!("{} / {}", count(m.inside), count(m.above))),
    ("ran, finished, waiting still", |m| {
        format!("{}, {}, {}", count(m.ran), count(m.finished), count(m.waiting))
    }),
    ("rejected", |m| count(m.rejected)),
    ("GPU-hours owned", |m| hours(m.gpu_hours_owned)),
    ("GPU-hours used", |m| hours(m.gpu_hours_used)),
    ("GPU-hours lent", |m| hours(m.gpu_hours_lent)),
    ("utilisation", |m| format!("{:.1} %", m.utilisation * 100.0)),
    ("owners who did not wait", |m| share(&m.owner_wait)),
    ("owner wait p50", |m| time(m.owner_wait.p50_s)),
    ("owner wait p99", |m| time(m.owner_wait.p99_s)),
    ("owner wait longest", |m| time(m.owner_wait.longest_s)),
    ("deadlines missed, of them untold", |m| format!("{}, {}", count(m.missed), count(m.unflagged))),
    ("any wait p50", |m| time(m.any_wait.p50_s)),
    ("any wait p99", |m| time(m.any_wait.p99_s)),
    ("reclaims", |m| count(m.reclaims)),
    ("reclaims that found nobody", |m| count(m.infeasible)),
    ("plans that people were asked about", |m| count(m.asked)),
    ("victims", |m| count(m.victims)),
    ("victims per reclaim", |m| format!("{:.2}", m.victims_per_reclaim)),
    ("victim GPUs per requested GPU", |m| format!("{:.2}", m.victim_gpus_per_gpu)),
    ("GPU-hours of work lost", |m| format!("{:.1}", m.lost_gpu_seconds / 3_600.0)),
    ("evicted again within the hour", |m| count(m.thrash)),
    ("workflows, steps a second", |m| format!("{}, {:.0}", count(m.executions), m.steps_per_second)),
    ("wall time", |m| time(m.wall_s)),
];

/// Returns the report as text.
#[must_use]
pub fn table(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{}: {:.1} days, {} workspaces, {} GPUs on {} nodes, {:.1} of them promised (policy {})",
        report.scene,
        report.days,
        report.workspaces,
        report.gpus,
        report.nodes,
        report.promised,
        report.policy
    );
    for note in &report.notes {
        let _ = writeln!(text, "  - {note}");
    }
    for (by, counted) in &report.counts {
        let _ = writeln!(
            text,
            "counted by {by}: {} groups, {} reserved (p95 of the first half); in the second half {} demands inside a \
             reservation, {} above",
            counted.groups,
            count(counted.reserved),
            count(counted.inside),
            count(counted.above)
        );
    }
    text.push('\n');
    let measures: Vec<&Measures> = report.outcomes.iter().map(|outcome| &outcome.measures).collect();
    let mut rows =
        vec![("".to_owned(), measures.iter().map(|m| m.baseline.title().to_owned()).collect::<Vec<_>>())];
    rows.extend(
        ROWS.iter().map(|(title, show)| ((*title).to_owned(), measures.iter().map(|m| show(m)).collect())),
    );
    rows.push(("violations".into(), measures.iter().map(|m| count(m.violations)).collect()));
    let first = rows.iter().map(|(title, _)| title.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..measures.len())
        .map(|place| {
            rows.iter().filter_map(|(_, cells)| cells.get(place)).map(|cell| cell.chars().count()).max()
        })
        .map(Option::unwrap_or_default)
        .collect();
    for (title, cells) in rows {
        let cells: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        let _ = writeln!(text, "{title:first$}  {}", cells.join("  "));
    }
    text
}

/// Returns the rows of the table for other formats: title, and a cell for each replay.
pub(super) fn cells(report: &Report) -> Vec<(&'static str, Vec<String>)> {
    let cell = |show: fn(&Measures) -> String| {
        report.outcomes.iter().map(|outcome| show(&outcome.measures)).collect()
    };
    let mut rows: Vec<_> = ROWS.iter().map(|(title, show)| (*title, cell(*show))).collect();
    rows.push(("violations", cell(|m| count(m.violations))));
    rows
}

/// Formats a number, such as `12,345`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn hours(hours: f64) -> String {
    count(hours.round() as u64)
}

/// Formats a duration with a suitable unit.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 0.5 => "0 s".into(),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.1} d", s / 86_400.0),
    }
}

fn share(waits: &Waits) -> String {
    let percent = if waits.count == 0 { 100.0 } else { waits.at_once as f64 * 100.0 / waits.count as f64 };
    format!("{percent:.1} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_shown_in_readable_units() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0.0, 59.6, 150.0, 7_300.0, 200_000.0].map(time),
            ["0 s", "60 s", "2.5 min", "2.0 h", "2.3 d"]
        );
    }
}
