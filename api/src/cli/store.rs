//! `tenure store`: looks after the store in the data folder. The server must not be running.

use super::{
    args::{Common, Store},
    offline, output,
};
use crate::{
    exit::{Exit, Failure},
    server,
};
use ::store::{Embedded, Store as _};
use serde_json::json;

pub(super) async fn run(common: &Common, command: Store) -> Result<Exit, Failure> {
    match command {
        Store::Check => check(common).await,
        Store::Export { file } | Store::Import { file } => Err(Failure::other(file.display())),
    }
}

/// Opens the store as the server would, and says what was found.
async fn check(common: &Common) -> Result<Exit, Failure> {
    let data = offline::settings(common)?.data;
    let dir = server::store_dir(&data);
    if !dir.is_dir() {
        let message = format!("there is no store in {}; name another folder with --data", data.display());
        return Err(Failure::new(Exit::NotFound, message));
    }
    let opened = Embedded::open(&dir, ::store::Options::default())?;
    let (report, unreadable) = (opened.report, opened.store.unreadable().await?);
    let health = opened.store.health().await;
    opened.store.close().await?;
    let fine = report.repaired.is_empty() && unreadable.is_empty();
    let item = json!({
        "store": dir.display().to_string(),
        "commits": report.sequence.0,
        "replayed": report.replayed,
        "index_rebuilt": report.rebuilt_index,
        "cut_tail_bytes": report.cut_tail_bytes,
        "repaired": report.repaired,
        "unreadable": unreadable.iter().map(|(id, why)| format!("{id}: {why}")).collect::<Vec<_>>(),
        "live_bytes": health.live_bytes,
        "disk_bytes": health.disk_bytes,
        "writable": health.writable,
        "problem": health.problem,
        "fine": fine,
    });
    output::one(common.output, &item)?;
    Ok(if fine { Exit::Done } else { Exit::Failed })
}
