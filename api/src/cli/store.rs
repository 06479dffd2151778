//! `tenure store`: looks after the store in the data folder, while no server has it open.

use super::{
    args::{Common, Format, Store},
    offline, output,
};
use crate::{
    config::Config,
    exit::{Exit, Failure},
    server,
    storage::refused,
};
use ::store::{postgres::Postgres, transfer};
use serde_json::json;
use std::{
    fs,
    io::{self, BufWriter},
    path::{Path, PathBuf},
};

pub(super) async fn run(common: &Common, command: Store) -> Result<Exit, Failure> {
    let config = offline::settings(common)?;
    if let Store::Migrate { check } = command {
        return migrate(common, &config, check).await;
    }
    if !config.store.url.is_empty() {
        let why =
            "store.url: a database is checked, exported and backed up by its own tools; see docs/store.md";
        return Err(Failure::new(Exit::Usage, why));
    }
    let dir = server::store_dir(&config.data);
    match command {
        Store::Migrate { .. } => Ok(Exit::Done),
        Store::Check => check(common, &dir),
        Store::Export { file } => export(common, &dir, &file).await,
        Store::Import { file } => import(common, &dir, &file),
    }
}

/// Brings the schema of the database up to date, or says what it lacks.
async fn migrate(common: &Common, config: &Config, check: bool) -> Result<Exit, Failure> {
    let named = "store.url: name the database; the embedded store brings itself up to date";
    let options = config.store.options().ok_or_else(|| Failure::new(Exit::Usage, named))?;
    if !check {
        let store = Postgres::open(options.clone()).await.map_err(refused)?;
        store.close().await?;
    }
    let schema = Postgres::schema(&options).await.map_err(refused)?;
    let told = |numbers: &[i64]| match numbers {
        [] => "nothing".to_owned(),
        some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    match common.output {
        Format::Table => output::say(&format!(
            "schema {}: has {}; lacks {}\n",
            options.schema,
            told(&schema.has),
            told(&schema.lacks)
        ))?,
        format @ (Format::Json | Format::Yaml) => output::one(format, &json!(schema))?,
    }
    Ok(if schema.lacks.is_empty() { Exit::Done } else { Exit::Failed })
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
