//! `tenure store`: checks, migrates, exports and imports a store that no server has open, and holds the store of a server.

use crate::{
    commands::maintenance,
    common::{Common, Format},
    dry_run::DryRun,
    output, settings,
};
use ::store::{
    Embedded, Hold, Store as _,
    postgres::{Postgres, PostgresOptions},
    transfer::{self, Source},
};
use api::config::store_dir;
use clap::Subcommand;
use program::exit::{Exit, Failure, store_failure};
use serde_json::json;
use std::{
    fs,
    io::{self, BufWriter, Read, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Store commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Check the whole store without repairs.
    Check,
    /// Migrate the database schema of `store.url`.
    Migrate {
        /// Only list missing migrations; exit 1 if there are any.
        #[arg(long)]
        check: bool,
    },
    /// Export the store to a file.
    Export {
        /// File; `-` writes to standard output.
        file: PathBuf,
        /// Move the store: hold this one, and do not hold the import.
        #[arg(long = "move")]
        moves: bool,
    },
    /// Show the hold and its work; exit 10 if held.
    Held,
    /// Hold a server's store and stop all work.
    Hold {
        /// Reason for the audit.
        #[arg(long)]
        reason: String,
    },
    /// Release a held store and continue its work.
    Release {
        /// Start of the hold, as shown by `held`.
        #[arg(long, value_name = "TIME")]
        since: String,
        /// Reason for the audit.
        #[arg(long)]
        reason: String,
    },
    /// Confirm a server's clock after a jump.
    ConfirmClock {
        /// Reason for the log.
        #[arg(long)]
        reason: String,
    },
    /// Import an export into an empty store.
    ///
    /// The imported store is held, unless the export was made with --move.
    Import {
        /// File; `-` reads standard input.
        file: PathBuf,
        #[command(flatten)]
        dry_run: DryRun,
    },
}

pub(crate) async fn run(common: &Common, command: Store) -> Result<Exit, Failure> {
    let config = settings::settings(common)?;
    let dir = store_dir(&config.data);
    let database = config.store.options();
    match command {
        Store::Check => match database {
            Some(_) => {
                let why = "store.url: check a database with its own tools, pg_amcheck and page checksums";
                Err(Failure::new(Exit::Usage, why))
            }
            None => check(common, &dir),
        },
        Store::Migrate { check } => migrate(common, database, check).await,
        Store::Export { file, moves } => {
            let source = if moves { Source::Replaced } else { Source::KeepsRunning };
            export(common, &dir, database, &file, source).await
        }
        Store::Held => maintenance::show(common).await,
        Store::Hold { reason } => maintenance::hold(common, &reason).await,
        Store::Release { since, reason } => maintenance::release(common, &since, &reason).await,
        Store::ConfirmClock { reason } => maintenance::confirm_clock(common, &reason).await,
        Store::Import { file, dry_run } if dry_run.is_wanted() => {
            let counts = transfer::verify(reading(&file)?)?;
            told(common, "nothing was imported; the export has", &counts)?;
            Ok(dry_run.exit(true))
        }
        Store::Import { file, .. } => import(common, &dir, database, &file).await,
    }
}

/// Opens the file of an export.
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

/// Migrates the database schema, or lists the missing migrations.
async fn migrate(common: &Common, database: Option<PostgresOptions>, check: bool) -> Result<Exit, Failure> {
    let named = "store.url is not set: set it to the database; the embedded store needs no migration";
    let options = database.ok_or_else(|| Failure::new(Exit::Usage, named))?;
    if !check {
        let store = Postgres::open(options.clone()).await.map_err(store_failure)?;
        store.close().await?;
    }
    let schema = Postgres::schema(&options).await.map_err(store_failure)?;
    let listed = |numbers: &[i64]| match numbers {
        [] => "none".to_owned(),
        some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    match common.output {
        Format::Table => output::say(&format!(
            "schema {}: migrations applied: {}; missing: {}\n",
            options.schema,
            listed(&schema.has),
            listed(&schema.lacks)
        ))?,
        format @ (Format::Json | Format::Yaml) => output::one(format, &json!(schema))?,
    }
    Ok(if schema.lacks.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Checks the store without repairs.
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
                "whole": report.is_intact(),
            }),
        )?,
    }
    Ok(if report.is_intact() { Exit::Done } else { Exit::Failed })
}

/// Exports the store to `file`, which appears only when it is complete.
async fn export(
    common: &Common,
    dir: &Path,
    database: Option<PostgresOptions>,
    file: &Path,
    source: Source,
) -> Result<Exit, Failure> {
    if database.is_none() && !dir.is_dir() {
        return Err(Failure::new(Exit::NotFound, format!("no store exists in {}", dir.display())));
    }
    if file == Path::new("-") {
        exported(dir, database, io::stdout(), source).await?;
        return Ok(Exit::Done);
    }
    let part = PathBuf::from(format!("{}.part", file.display()));
    let named = |error: io::Error| Failure::other(format!("{}: {error}", file.display()));
    // The export has confidential data, so only its owner may read the file.
    let out = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part);
    let out = out.map_err(named)?;
    let handle = out.try_clone().map_err(named)?;
    let counts = exported(dir, database, BufWriter::new(out), source).await?;
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
    source: Source,
) -> Result<transfer::Counts, Failure> {
    let Some(options) = database else { return Ok(transfer::export_folder(dir, out, source).await?) };
    let store = Postgres::open(options).await.map_err(store_failure)?;
    let counts = store.export(out, source).await;
    store.close().await?;
    Ok(counts?)
}

/// Imports an export into an empty store.
async fn import(
    common: &Common,
    dir: &Path,
    database: Option<PostgresOptions>,
    file: &Path,
) -> Result<Exit, Failure> {
    let from = reading(file)?;
    let Some(options) = database else {
        let counts = transfer::import(from, dir)?;
        return imported(common, &dir.display().to_string(), &counts, Embedded::hold_in(dir)?.as_ref());
    };
    let what = format!("schema {}", options.schema);
    let store = Postgres::open(options).await.map_err(store_failure)?;
    let counts = store.import(from).await;
    let held = store.current_hold().await;
    store.close().await?;
    imported(common, &what, &counts?, held?.as_ref())
}

fn imported(
    common: &Common,
    what: &str,
    counts: &transfer::Counts,
    held: Option<&Hold>,
) -> Result<Exit, Failure> {
    told(common, what, counts)?;
    if let Some(hold) = held {
        output::note(&format!(
            "held: {}. No work is performed until the store is released: start the server, then run `tenure store held`",
            hold.why
        ));
    }
    Ok(Exit::Done)
}
