//! `tenure store`: looks after the store in the data folder, while no server has it open.

use super::{
    args::{Common, Format, Store},
    offline, output,
};
use crate::{
    exit::{Exit, Failure},
    server,
};
use ::store::transfer;
use serde_json::json;
use std::{
    fs,
    io::{self, BufWriter},
    path::{Path, PathBuf},
};

pub(super) async fn run(common: &Common, command: Store) -> Result<Exit, Failure> {
    let data = offline::settings(common)?.data;
    let dir = server::store_dir(&data);
    match command {
        Store::Check => check(common, &dir),
        Store::Export { file } => export(common, &dir, &file).await,
        Store::Import { file } => import(common, &dir, &file),
    }
}

/// Reads everything, repairs nothing.
fn check(common: &Common, dir: &Path) -> Result<Exit, Failure> {
    let report = transfer::check(dir)?;
    match common.output {
        Format::Table => output::say(&format!("{}\n{report}\n", dir.display()))?,
        format @ (Format::Json | Format::Yaml) => output::one(
            format,
            &json!({
                "store": dir.display().to_string(),
                "journal_to": report.journal_to.0,
                "frames": report.frames,
                "commits": report.commits,
                "snapshots": report.snapshots,
                "snapshot_rows": report.snapshot_rows,
                "index_rows": report.index_rows,
                "index_to": report.index_to.0,
                "problems": report.problems,
                "whole": report.is_whole(),
            }),
        )?,
    }
    Ok(if report.is_whole() { Exit::Done } else { Exit::Failed })
}

/// Writes everything to `file`, which appears only when it is complete.
async fn export(common: &Common, dir: &Path, file: &Path) -> Result<Exit, Failure> {
    if !dir.is_dir() {
        return Err(Failure::new(Exit::NotFound, format!("there is no store in {}", dir.display())));
    }
    if file == Path::new("-") {
        transfer::export_folder(dir, io::stdout()).await?;
        return Ok(Exit::Done);
    }
    let part = PathBuf::from(format!("{}.part", file.display()));
    let named = |error: io::Error| Failure::other(format!("{}: {error}", file.display()));
    let out = fs::File::create(&part).map_err(named)?;
    let handle = out.try_clone().map_err(named)?;
    let counts = transfer::export_folder(dir, BufWriter::new(out)).await?;
    handle.sync_all().map_err(named)?;
    fs::rename(&part, file).map_err(named)?;
    match common.output {
        Format::Table => output::say(&format!("{}: {counts}\n", file.display()))?,
        format @ (Format::Json | Format::Yaml) => {
            output::one(format, &json!({ "file": file, "counts": counts }))?
        }
    }
    Ok(Exit::Done)
}

/// Makes a store of an export, in a folder without one.
fn import(common: &Common, dir: &Path, file: &Path) -> Result<Exit, Failure> {
    let named = |error: io::Error| Failure::other(format!("{}: {error}", file.display()));
    let counts = if file == Path::new("-") {
        transfer::import(io::stdin().lock(), dir)?
    } else {
        transfer::import(fs::File::open(file).map_err(named)?, dir)?
    };
    match common.output {
        Format::Table => output::say(&format!("{}: {counts}\n", dir.display()))?,
        format @ (Format::Json | Format::Yaml) => {
            output::one(format, &json!({ "store": dir, "counts": counts }))?
        }
    }
    Ok(Exit::Done)
}
