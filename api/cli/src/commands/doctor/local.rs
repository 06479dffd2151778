//! Checks of this machine: settings, data folder, store, clock.

use crate::{
    commands::{
        doctor::{
            finding::{Findings, State},
            server::RENEW_DAYS,
        },
        workflow,
    },
    common::Common,
    output::{self, timestamps},
};
use ::store::{
    postgres::{Postgres, PostgresOptions},
    transfer,
};
use api::{
    auth::policy::PolicyStore,
    config::{Config, admin_file, store_dir, unknown_variables},
    tls::{CertificateFiles, CertificatePair},
};
use std::{
    fs::{self, TryLockError},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use workflows::signing::KeyFile;

/// The free space in bytes below which the check warns: it may not suffice for the next journal files.
const LITTLE_ROOM: u64 = 1 << 30;
/// The free space in bytes below which the check fails: the store rejects commits.
const NO_ROOM: u64 = 64 << 20;
/// The largest store that the check reads completely, in bytes.
const READ_WHOLE: u64 = 256 << 20;

/// Checks and returns the settings.
pub(super) fn configuration(common: &Common, found: &mut Findings) -> Option<Config> {
    let read = Config::load(common.config.as_deref(), |name| std::env::var(name).ok());
    let mut config = match read {
        Ok(config) => config,
        Err(why) => {
            found.failed(
                "configuration",
                why,
                "correct the file or the variable; see Configuration in the manual, page operations",
            );
            return None;
        }
    };
    if let Some(data) = &common.data {
        config.data.clone_from(data);
    }
    let known: Vec<String> =
        workflow::diagrams().unwrap_or_default().into_iter().map(|drawn| drawn.workflow).collect();
    match config.retention.check(&known) {
        Ok(()) => {
            let file = common.config.as_ref().map_or("defaults".into(), |file| file.display().to_string());
            found.ok("configuration", format!("{file} and the environment are valid"));
        }
        Err(why) => {
            found.failed("configuration", why, "name an existing workflow; `tenure workflow list` shows them")
        }
    }
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for strange in unknown_variables(names) {
        found.warning("configuration", strange, "rename the variable, or remove it from the environment");
    }
    let files = [
        ("seal.key_file".to_owned(), config.seal.key_file.clone()),
        ("seal.earlier_key_file".to_owned(), config.seal.earlier_key_file.clone()),
        ("tls.key_file".to_owned(), config.tls.key_file.clone()),
        ("oidc.client_secret_file".to_owned(), config.oidc.client_secret_file.clone()),
    ];
    for (key, file) in config.notify.secrets().into_iter().chain(files).filter(|(_, file)| !file.is_empty()) {
        secret(&format!("{key}: {file}"), Path::new(&file), "configuration", found);
    }
    if !config.oidc.ca_file.is_empty()
        && let Err(error) = fs::read(&config.oidc.ca_file)
    {
        let says = format!("oidc.ca_file: {}: {error}", config.oidc.ca_file);
        found.failed("configuration", says, "name a file that the server can read");
    }
    certificate(&config, found);
    if let Err(why) = PolicyStore::open(&config.access.policies) {
        found.failed("access", why, "correct the file; `tenure access check FILE` checks it");
    }
    Some(config)
}

/// Checks that the server's certificate can be read, matches its key, and is valid.
fn certificate(config: &Config, found: &mut Findings) {
    if !config.tls.is_on() {
        if !config.listen.ip().to_canonical().is_loopback() {
            let says =
                format!("{} is served without TLS, so tokens can be read on the network", config.listen);
            let remedy = "set `tls.certificate_file` and `tls.key_file`, or allow connections only from a proxy with TLS";
            found.warning("tls", says, remedy);
        }
        return;
    }
    let remedy = "see TLS in the manual, page operations, for the content of both files";
    match CertificateFiles::read(&config.tls).and_then(|files| CertificatePair::of(&files, &config.tls)) {
        Err(why) => found.failed("tls", why, remedy),
        Ok(pair) => {
            let left = (pair.ends - timestamps::now()).num_days();
            let file = &config.tls.certificate_file;
            let says =
                format!("{file} matches its key and is valid until {} ({left} days)", pair.ends.to_rfc3339());
            if pair.ends <= timestamps::now() {
                found.failed(
                    "tls",
                    format!("{file} was valid until {}", pair.ends.to_rfc3339()),
                    "renew it; a running server reloads it",
                );
            } else if left < RENEW_DAYS {
                found.warning("tls", says, "renew it before then; a running server reloads it");
            } else {
                found.ok("tls", says);
            }
        }
    }
}

/// Checks that a file with a secret can be read, and only by its owner.
fn secret(what: &str, file: &Path, check: &'static str, found: &mut Findings) {
    let read = fs::File::open(file).and_then(|open| open.metadata());
    match read {
        Err(error) => {
            found.failed(check, format!("{what}: {error}"), "name a file that the server can read");
        }
        Ok(facts) if facts.permissions().mode() & 0o077 != 0 => {
            let says = format!(
                "{what} can be read by other users: its mode is {:o}",
                facts.permissions().mode() & 0o777
            );
            found.warning(check, says, format!("run `chmod 600 {}`, and replace the secret", file.display()));
        }
        Ok(_) => {}
    }
}

/// Checks the data folder. Returns the id of the process that has the store open, if there is one.
pub(super) fn data(config: &Config, found: &mut Findings) -> Option<String> {
    let dir = std::path::absolute(&config.data).unwrap_or_else(|_| config.data.clone());
    let shown = dir.display();
    if !dir.exists() {
        let says = format!("{shown} does not exist yet; `tenure serve` creates it");
        found.ok("data", says);
        let above = dir.ancestors().skip(1).find(|above| above.exists()).map(Path::to_path_buf);
        room(&above.unwrap_or(dir), found);
        return None;
    }
    let probe = dir.join(format!(".doctor-{}", std::process::id()));
    match fs::OpenOptions::new().write(true).create_new(true).open(&probe) {
        Ok(_) => {
            let _ = fs::remove_file(&probe);
            found.ok("data", format!("{shown} can be written"));
        }
        Err(error) => {
            let remedy = "change its owner to the user of the server, or name another folder with --data";
            found.failed("data", format!("{shown} cannot be written: {error}"), remedy);
        }
    }
    for file in [admin_file(&dir), dir.join(KeyFile::NAME)].into_iter().filter(|file| file.exists()) {
        secret(&file.display().to_string(), &file, "data", found);
    }
    room(&dir, found);
    let holder = holder(&store_dir(&dir).join("LOCK"));
    if let Some(holder) = &holder {
        found.ok("data", format!("its store is in use by process {holder}"));
    }
    holder
}

fn room(dir: &Path, found: &mut Findings) {
    let Ok(facts) = rustix::fs::statvfs(dir) else { return };
    let (free, whole) =
        (facts.f_bavail.saturating_mul(facts.f_frsize), facts.f_blocks.saturating_mul(facts.f_frsize));
    let (state, says) = room_of(free, whole);
    let remedy =
        "free disk space, or move the folder to a larger disk; no data is lost, and work continues by itself";
    match state {
        State::Ok => found.ok("data", says),
        State::Warning => found.warning("data", says, remedy),
        State::Failed => found.failed("data", says, remedy),
    }
}

fn room_of(free: u64, whole: u64) -> (State, String) {
    let gib = |bytes: u64| format!("{}.{} GiB", bytes >> 30, ((bytes % (1 << 30)) * 10) >> 30);
    let says = format!("{} of {} are free", gib(free), gib(whole));
    let state = if free < NO_ROOM {
        State::Failed
    } else if free < LITTLE_ROOM {
        State::Warning
    } else {
        State::Ok
    };
    (state, says)
}

/// Returns the process that holds the lock. Takes the lock for a moment, shared with other readers.
fn holder(lock: &Path) -> Option<String> {
    let file = fs::File::open(lock).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(lock).unwrap_or_default().trim().to_owned();
            Some(if pid.is_empty() { "unknown".into() } else { output::sanitize(&pid) })
        }
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

/// Checks the database of the store.
async fn database(options: PostgresOptions, found: &mut Findings) {
    let schema = tokio::time::timeout(options.retry_timeout, Postgres::schema(&options));
    match schema.await {
        Ok(Ok(schema)) if schema.lacks.is_empty() => {
            found.ok("store", format!("the database answers; its schema {} is up to date", options.schema));
        }
        Ok(Ok(_)) => {
            let says = format!("the schema {} of the database is not up to date", options.schema);
            found.warning(
                "store",
                says,
                "`tenure store migrate --check` lists the missing migrations; the server applies them at its start",
            );
        }
        Ok(Err(error)) => {
            found.failed(
                "store",
                error.to_string(),
                "check store.url, PGPASSWORD, and that the database runs",
            );
        }
        Err(_) => found.failed(
            "store",
            "the database does not answer",
            "check that it runs; --timeout sets a longer wait",
        ),
    }
}

/// Checks the store, unless a server has it open.
pub(super) async fn store(
    config: &Config,
    holder: Option<String>,
    served: bool,
    patience: Duration,
    found: &mut Findings,
) {
    if let Some(options) = config.store.options() {
        return database(PostgresOptions { retry_timeout: patience, ..options }, found).await;
    }
    let dir = store_dir(&config.data);
    if let Some(holder) = holder {
        // A server that answered has reported on its own store, which may be another one.
        if !served {
            let says = format!("process {holder} has it open, and no server was checked");
            found.warning("store", says, "name the server of that process with --server");
        }
        return;
    }
    if !dir.join("journal").is_dir() {
        return found.ok("store", "does not exist yet");
    }
    let bytes = size(&dir);
    if bytes > READ_WHOLE {
        let says = format!("{} MiB, too large for this check", bytes >> 20);
        return found.ok("store", format!("{says}; `tenure store check` reads all of it"));
    }
    match tokio::task::spawn_blocking(move || transfer::check(&dir)).await {
        Ok(Ok(report)) if report.is_intact() => {
            found.ok("store", format!("intact up to commit {}; no server has it open", report.journal_to.0));
        }
        Ok(Ok(report)) => {
            let says = report.problems.join("\n");
            found.failed("store", says, "copy the folder first, then see the manual, page store");
        }
        Ok(Err(error)) => found.failed("store", error.to_string(), "see the manual, page store"),
        Err(error) => found.failed("store", error.to_string(), "run `tenure store check`"),
    }
}

fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let of = |path: PathBuf| {
        if path.is_dir() { size(&path) } else { fs::metadata(&path).map_or(0, |facts| facts.len()) }
    };
    entries.map(|entry| of(entry.path())).sum()
}

/// Checks whether this machine's clock is synchronised, if `timedatectl` exists.
pub(super) async fn clock(patience: Duration, found: &mut Findings) {
    let now = timestamps::now().format("%Y-%m-%dT%H:%M:%SZ");
    let mut ask = tokio::process::Command::new("timedatectl");
    ask.args(["show", "--property=NTPSynchronized", "--value"]).kill_on_drop(true);
    ask.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let told = match ask.spawn() {
        Ok(child) => backends::outbound::output(child, 1 << 10, patience).await.ok().flatten(),
        Err(_) => None,
    };
    let told = told.map(|(_, stdout, _)| String::from_utf8_lossy(&stdout).trim().to_owned());
    match told.as_deref() {
        Some("yes") => found.ok("clock", format!("{now}, synchronised by NTP")),
        Some("no") => {
            let remedy = "enable NTP, for example with `timedatectl set-ntp true`";
            found.warning("clock", format!("{now}, not synchronised by NTP"), remedy);
        }
        _ => found.ok("clock", format!("{now}; the NTP state is unknown on this machine")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_disk_space_is_a_warning_and_too_little_a_failure() {
        assert_eq!(room_of(3 << 30, 8 << 30), (State::Ok, "3.0 GiB of 8.0 GiB are free".into()));
        assert_eq!(room_of(LITTLE_ROOM - 1, 8 << 30).0, State::Warning);
        assert_eq!(room_of(NO_ROOM - 1, 8 << 30).0, State::Failed);
    }
}
