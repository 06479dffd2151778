//! `tenure reclaim`: who has to give GPUs back.

use super::{
    args::{Common, Format},
    files, output,
};
use crate::exit::{Exit, Failure};
use clap::Subcommand;
use serde_json::json;
use std::path::{Path, PathBuf};
use workflows::reclaim::cases;

/// What is done about reclaims.
#[derive(Debug, Subcommand)]
pub(crate) enum Reclaim {
    /// Plan published cases and compare who gives way; needs no server.
    Cases {
        /// The cases, JSON in the format of docs/examples/reclaim-cases.json; `-` is standard input.
        file: PathBuf,
    },
}

pub(super) fn run(common: &Common, command: Reclaim) -> Result<Exit, Failure> {
    match command {
        Reclaim::Cases { file } => compare(common, &file),
    }
}

fn compare(common: &Common, file: &Path) -> Result<Exit, Failure> {
    let text = files::read(file)?;
    let cases = cases::read(&text).map_err(|error| Failure::other(format!("{}: {error}", file.display())))?;
    let (mut passed, mut failed, mut items) = (0_u64, 0_u64, Vec::new());
    for case in &cases {
        let checked = case.check();
        if checked.is_ok() {
            passed += 1
        } else {
            failed += 1
        }
        match (common.output, checked) {
            (Format::Table, Ok(())) => output::say(&format!("{} ok\n", case.id))?,
            (Format::Table, Err((expected, got))) => {
                output::say(&format!("{} WRONG expected {expected} got {got}\n", case.id))?;
            }
            (Format::Json, Ok(())) => items.push(json!({ "id": case.id, "ok": true })),
            (Format::Json, Err((expected, got))) => items
                .push(json!({ "id": case.id, "ok": false, "expected": expected, "got": got.to_string() })),
        }
    }
    match common.output {
        Format::Table => output::say(&format!("{passed} passed, {failed} failed\n"))?,
        Format::Json => {
            let whole = json!({ "cases": items, "passed": passed, "failed": failed });
            output::one(Format::Json, &whole)?;
        }
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}
