//! `tenure store`: looks after the store in the data folder, while no server has it open.

use super::{
    args::{Common, Format, Store},
    offline, output,
};
use crate::{
    exit::{Exit, Failure},
    server,
    storage::refused,
};
use ::store::{
    postgres::{Postgres, PostgresOptions},
    transfer,
};
use serde_json::json;
use std::{
    fs,
    io::{self, BufWriter, Read, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

pub(super) async fn run(common: &Common, command: Store) -> Result<Exit, Failure> {
    let config = offline::settings(common)?;
    let dir = server::store_dir(&config.data);
    let database = config.store.options();
    match command {
        Store::Check => match database {
            Some(_) => {
                let why = "store.url: a database is checked by its own tools: pg_amcheck, and checksums of its pages";
                Err(Failure::new(Exit::Usage, why))
            }
            None => check(common, &dir),
        },
        Store::Migrate { check } => migrate(common, database, check).await,
        Store::Export { file } => export(common, &dir, database, &file).await,
        Store::Import { file, dry_run: true } => {
            let counts = transfer::verify(reading(&file)?)?;
            told(common, "nothing was imported; the export holds", &counts)
        }
        Store::Import { file, dry_run: false } => import(common, &dir, database, &file).await,
    }
}

/// What an export is read from.
fn reading(file: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let unread = |error: io::Error| Failure::new(Exit::Usage, format!("{}: {error}", file.display()));
    Ok(Box::new(fs::File::open(file).map_err(unread)?))
}

fn told(common: &Common, what: &str, counts: &transfer::Counts) -> Result<Exit, Failure> {
    match common.output {
        Format::Table => output::say(&format!("{what}: {counts}\n"))?,
        format @ (Format::Json | Format::Yaml) => {
            output::one(format, &json!({ "store": what, "counts": counts }))?
        }
    }
    Ok(Exit::Done)
}

/// Brings the schema of the database up to date, or says what it lacks.
async fn migrate(common: &Common, database: Option<PostgresOptions>, check: bool) -> Result<Exit, Failure> {
    let named = "store.url: name the database; the embedded store brings itself up to date";
    let options = database.ok_or_else(|| Failure::new(Exit::Usage, named))?;
    if !check {
        let store = Postgres::open(options.clone()).await.map_err(refused)?;
        store.close().await?;
    }
    let schema = Postgres::schema(&options).await.map_err(refused)?;
    let listed = |numbers: &[i64]| match numbers {
        [] => "nothing".to_owned(),
        some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    match common.output {
        Format::Table => output::say(&format!(
            "schema {}: has {}; lacks {}\n",
            options.schema,
            listed(&schema.has),
            listed(&schema.lacks)
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
async fn export(
    common: &Common,
    dir: &Path,
    database: Option<PostgresOptions>,
    file: &Path,
) -> Result<Exit, Failure> {
    if database.is_none() && !dir.is_dir() {
        return Err(Failure::new(Exit::NotFound, format!("there is no store in {}", dir.display())));
    }
    if file == Path::new("-") {
        exported(dir, database, io::stdout()).await?;
        return Ok(Exit::Done);
    }
    let part = PathBuf::from(format!("{}.part", file.display()));
    let named = |error: io::Error| Failure::other(format!("{}: {error}", file.display()));
    // What executions hold is for nobody else.
    let out = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part);
    let out = out.map_err(named)?;
    let handle = out.try_clone().map_err(named)?;
    let counts = exported(dir, database, BufWriter::new(out)).await?;
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

async fn exported(
    dir: &Path,
    database: Option<PostgresOptions>,
    out: impl Write + Send + 'static,
) -> Result<transfer::Counts, Failure> {
    let Some(options) = database else { return Ok(transfer::export_folder(dir, out).await?) };
    let store = Postgres::open(options).await.map_err(refused)?;
    let counts = store.export(out).await;
    store.close().await?;
    Ok(counts?)
}

/// Makes a store of an export, where there is none.
async fn import(
    common: &Common,
    dir: &Path,
    database: Option<PostgresOptions>,
    file: &Path,
) -> Result<Exit, Failure> {
    let from = reading(file)?;
    let Some(options) = database else {
        let counts = transfer::import(from, dir)?;
        return told(common, &dir.display().to_string(), &counts);
    };
    let what = format!("schema {}", options.schema);
    let store = Postgres::open(options).await.map_err(refused)?;
    let counts = store.import(from).await;
    store.close().await?;
    told(common, &what, &counts?)
}
