//! Nodes as CSV.

use crate::{
    fleet::{delimiter::delimiter_of, folded_names::folded},
    policy::{Finding, Invalid, Spot},
    tenancy::{GpuModel, Gpus, Name, NameKind, NodeId, canonical_gpu_name},
};
use std::collections::HashMap;

/// The columns, in any order.
const COLUMNS: [&str; 5] = ["sn", "cpu_milli", "memory_mib", "gpu", "model"];
/// The most nodes of one file.
const MOST_NODES: usize = 200_000;
/// The most notes on one file.
const MOST_NOTES: usize = 8;
/// The most GPUs that a node can have.
const MOST_GPUS: u64 = 1_024;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// The line of the file.
    pub line: u64,
    /// The serial number.
    pub node: NodeId,
    /// Thousandths of CPU cores.
    pub cpu_milli: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The GPUs.
    pub gpus: Gpus,
    /// Their model.
    pub model: GpuModel,
}

/// The content of a file of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Nodes with GPUs.
    pub rows: Vec<NodeRow>,
    /// The number of skipped nodes without GPUs, which offer nothing to tenants.
    pub without_gpus: u32,
    /// Notes that an operator should check.
    pub notes: Vec<String>,
}

/// Parses the nodes with GPUs of a file with the header `sn,cpu_milli,memory_mib,gpu,model`.
///
/// # Errors
/// Every problem of the file, by line and column.
pub fn parse_nodes(text: &str) -> Result<Vec<NodeRow>, Invalid> {
    Ok(parse_inventory(text)?.rows)
}

/// Same as [`parse_nodes`], with the skipped nodes and notes. Columns are separated by commas, semicolons or tabs, as in the header.
///
/// # Errors
/// Every problem of the file, by line and column.
pub fn parse_inventory(text: &str) -> Result<Inventory, Invalid> {
    let mut builder = csv::ReaderBuilder::new();
    let mut reader = builder.flexible(true).delimiter(delimiter_of(text)).from_reader(text.as_bytes());
    let places = columns(reader.headers())?;
    let (mut rows, mut findings) = (Vec::new(), Vec::new());
    let (mut without_gpus, mut notes) = (0_u32, Vec::new());
    for record in reader.records() {
        // More findings would not be shown.
        if findings.len() > Invalid::MOST {
            break;
        }
        if rows.len() >= MOST_NODES {
            let problem = format!("the file has more than {MOST_NODES} nodes");
            findings.push(finding(1, 1, "", problem, "split the file"));
            break;
        }
        match record {
            Ok(record) if has_no_gpus(&record, &places) => without_gpus = without_gpus.saturating_add(1),
            Ok(record) => {
                notes.extend(slices_note(&record, &places));
                rows.extend(row(&record, &places, &mut findings));
            }
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                let problem = format!("the row cannot be read: {error}");
                findings.push(finding(
                    line,
                    1,
                    "",
                    problem,
                    "write it as UTF-8, values separated as in the header",
                ));
            }
        }
    }
    if rows.is_empty() && findings.is_empty() {
        let what = if without_gpus > 0 { "node with GPUs" } else { "node" };
        findings.push(finding(2, 1, "", format!("the file has no {what}"), "add one row per node"));
    }
    twice(&rows, &mut findings);
    notes.truncate(MOST_NOTES);
    if findings.is_empty() {
        Ok(Inventory { rows, without_gpus, notes })
    } else {
        Err(Invalid::of(findings, 0))
    }
}

fn has_no_gpus(record: &csv::StringRecord, places: &[usize; 5]) -> bool {
    let [_, _, _, gpu, _] = *places;
    record.len() == COLUMNS.len() && record.get(gpu).is_some_and(|gpus| gpus.trim() == "0")
}

/// Notes a MIG device in the place of a card, which is easily counted wrong.
fn slices_note(record: &csv::StringRecord, places: &[usize; 5]) -> Option<String> {
    let [_, _, _, _, model] = *places;
    let profile = canonical_gpu_name(record.get(model)?).1?;
    let line = record.position().map_or(0, csv::Position::line);
    let note = "the model is a slice; `gpu` is read as the number of whole GPUs";
    Some(format!("line {line}: {note}, with or without slices of {profile}"))
}

fn finding(line: u64, column: u64, field: &str, problem: String, remedy: &str) -> Finding {
    Finding::new(Some(Spot { line, column }), field, problem, remedy.into())
}

/// Returns the index of each column in a row.
fn columns(headers: Result<&csv::StringRecord, csv::Error>) -> Result<[usize; 5], Invalid> {
    let wanted = "begin the file with the line sn,cpu_milli,memory_mib,gpu,model, its columns separated by commas, \
                  semicolons or tabs";
    let bad = |problem: String| Invalid::from(finding(1, 1, "", problem, wanted));
    let headers = headers.map_err(|e| bad(format!("the header cannot be read: {e}")))?;
    let mut places = [0; 5];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        let found = headers.iter().position(|header| header.trim() == column);
        *place = found.ok_or_else(|| bad(format!("the header has no column {column}")))?;
    }
    match headers.iter().find(|header| !COLUMNS.contains(&header.trim())) {
        Some(other) => Err(bad(format!("the header has an unknown column {other:?}"))),
        None => Ok(places),
    }
}

fn row(record: &csv::StringRecord, places: &[usize; 5], findings: &mut Vec<Finding>) -> Option<NodeRow> {
    let line = record.position().map_or(0, csv::Position::line);
    if record.len() != COLUMNS.len() {
        let problem = format!("the row has {} values instead of {}", record.len(), COLUMNS.len());
        findings.push(finding(line, 1, "", problem, "give one value for each column"));
        return None;
    }
    let mut cells = Cells { record, line, findings };
    let [sn, cpu, memory, gpu, model] = *places;
    let node = cells.name(sn, "sn");
    let cpu_milli = cells.number(cpu, "cpu_milli", 1, 1 << 40);
    let memory_mib = cells.number(memory, "memory_mib", 1, 1 << 40);
    let gpus = cells.number(gpu, "gpu", 1, MOST_GPUS).and_then(|gpus| u32::try_from(gpus).ok());
    let model = cells.name(model, "model");
    Some(NodeRow {
        line,
        node: node?,
        cpu_milli: cpu_milli?,
        memory_mib: memory_mib?,
        gpus: Gpus(gpus?),
        model: model?,
    })
}

struct Cells<'a> {
    record: &'a csv::StringRecord,
    line: u64,
    findings: &'a mut Vec<Finding>,
}

impl Cells<'_> {
    fn text(&self, place: usize) -> &str {
        self.record.get(place).unwrap_or_default().trim()
    }

    /// Returns the column in characters at which a value begins. Ignores quotes and spaces around values.
    fn column(&self, place: usize) -> u64 {
        let before: usize = self.record.iter().take(place).map(|value| value.chars().count() + 1).sum();
        u64::try_from(before + 1).unwrap_or(u64::MAX)
    }

    fn note(&mut self, place: usize, field: &str, problem: String, remedy: &str) {
        let found = finding(self.line, self.column(place), field, problem, remedy);
        self.findings.push(found);
    }

    fn name<K: NameKind>(&mut self, place: usize, field: &str) -> Option<Name<K>> {
        let text = self.text(place).to_owned();
        let name = text.parse().ok();
        if name.is_none() {
            self.note(
                place,
                field,
                format!("{text:?} is not a valid name of a {}", K::WORD),
                &Name::<K>::rule(),
            );
        }
        name
    }

    fn number(&mut self, place: usize, field: &str, least: u64, most: u64) -> Option<u64> {
        let text = self.text(place).to_owned();
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        if number.is_none() {
            let remedy = format!("write a whole number from {least} to {most}");
            self.note(place, field, format!("{text:?} is not a valid number here"), &remedy);
        }
        number
    }
}

fn twice(rows: &[NodeRow], findings: &mut Vec<Finding>) {
    let mut seen: HashMap<String, &NodeRow> = HashMap::new();
    for row in rows {
        let first = *seen.entry(folded(&row.node)).or_insert(row);
        if first.line == row.line {
            continue;
        }
        let (here, there) = (row.line, first.line);
        if first.node == row.node {
            let problem = format!("node {} occurs on lines {there} and {here}", row.node);
            findings.push(finding(here, 1, "sn", problem, "remove one of the rows"));
        } else {
            let problem = format!(
                "the name of node {} differs from {} on line {there} only in upper and lower case",
                row.node, first.node
            );
            findings.push(finding(here, 1, "sn", problem, "give each node its own name"));
        }
    }
}
