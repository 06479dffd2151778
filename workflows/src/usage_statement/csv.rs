//! A statement as CSV (RFC 4180), safe to open in a spreadsheet.

use super::{CURRENCY, StatementLine, decimal};
use crate::foreign_text::csv_cell;

const COLUMNS: [&str; 13] = [
    "tenant",
    "workspace",
    "cluster",
    "region",
    "gpu",
    "class",
    "month",
    "from",
    "to",
    "gpu_seconds",
    "unit_price",
    "cost",
    "currency",
];

/// Returns the lines below a header row.
#[must_use]
pub fn csv(lines: &[StatementLine]) -> String {
    let rows = lines.iter().map(|line| {
        row(&[
            line.tenant.as_str(),
            line.workspace.as_str(),
            &line.cluster,
            &line.region,
            &line.gpu,
            line.class.as_str(),
            &line.month,
            &decimal::moment(line.from),
            &decimal::moment(line.to),
            &decimal::fixed(u128::from(line.gpu_millis), 3),
            &line.hourly.map(|cents| decimal::fixed(u128::from(cents.0), 2)).unwrap_or_default(),
            &line.cost_micros.map(|micros| decimal::fixed(micros, 6)).unwrap_or_default(),
            CURRENCY,
        ])
    });
    std::iter::once(row(&COLUMNS)).chain(rows).collect()
}

/// Returns one row.
pub(super) fn row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|text| csv_cell(text)).collect();
    format!("{}\r\n", cells.join(","))
}
