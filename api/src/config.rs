//! Settings: one file, the environment over it, flags over both. Every key has a unit and a default.

mod access;
mod duration;
mod http;
mod notify;
mod oidc;
mod storage;
mod suggest;
mod tls;
mod traces;

pub(crate) use crate::config::duration::{Kept, Span};
pub(crate) use crate::config::storage::Keep;
pub(crate) use access::Access;
pub(crate) use http::Http;
pub(crate) use notify::{Channel, MailTls, Means, Notify, Routed};
#[cfg(test)]
pub(crate) use oidc::Granted;
pub(crate) use oidc::Oidc;
pub(crate) use tls::Tls;
pub(crate) use traces::Traces;

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// All settings of `tenure serve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The folder that holds everything. Default `./tenure-data`.
    pub(crate) data: PathBuf,
    /// Where everything is kept.
    pub(crate) store: Keep,
    /// Where HTTP is served; port 0 takes a free one. Default `127.0.0.1:7878`.
    pub(crate) listen: SocketAddr,
    /// The simulated world to act on: `local` keeps one in the data folder, a URL names another process. Default `local`.
    pub(crate) platform: String,
    /// The file that says which backend serves what. Default none: everything is simulated.
    pub(crate) targets: String,
    /// What is logged and how.
    pub(crate) log: Log,
    /// How executions are worked on.
    pub(crate) engine: Work,
    /// What the HTTP server accepts.
    pub(crate) http: Http,
    /// With which certificate it speaks TLS, if it does.
    pub(crate) tls: Tls,
    /// How the simulated world behaves.
    pub(crate) simulated: Simulated,
    /// How those who wait for capacity are woken.
    pub(crate) waitlist: Waitlist,
    /// When the audit is signed.
    pub(crate) audit: Audit,
    /// How long finished executions are kept.
    pub(crate) retention: Retention,
    /// Who is told when somebody has to look.
    pub(crate) notify: Notify,
    /// Whether records are sealed.
    pub(crate) seal: Seal,
    /// Through whom people sign in.
    pub(crate) oidc: Oidc,
    /// Where traces are sent.
    pub(crate) traces: Traces,
    /// Who may do what, beside what is shipped.
    pub(crate) access: Access,
}

/// What is logged and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    /// `text` or `json`. Default `text`.
    pub(crate) format: LogFormat,
    /// Which lines, as tracing filters are written. Default `info`.
    pub(crate) filter: String,
}

/// How a log line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

/// How executions are worked on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Work {
    /// Tasks worked on at once. Default 64.
    pub(crate) concurrency: usize,
    /// How long a lease lasts unless renewed. Default `30s`.
    pub(crate) lease: Span,
    /// A task handed out more often than this without a result is poison. Default 8.
    pub(crate) poison_after: u32,
    /// How long a stop waits for work in flight. Default `10s`.
    pub(crate) drain: Span,
    /// The commands that take effect only when a second person agrees, with commas between: `edit`, `mark_done`,
    /// `mark_not_done`, `skip`, `undo_with`, `cancel`, `retry`, `pause`, `resume`, `terminate`. Default `mark_done,skip,undo_with`.
    pub(crate) second_person: String,
}

/// What [`Work::second_person`] may name.
const COMMANDS: &[&str] = &[
    "edit",
    "mark_done",
    "mark_not_done",
    "skip",
    "undo_with",
    "cancel",
    "retry",
    "pause",
    "resume",
    "terminate",
];

impl Work {
    /// The commands that need a second person.
    pub(crate) fn second_person(&self) -> impl Iterator<Item = &str> {
        self.second_person.split(',').map(str::trim).filter(|name| !name.is_empty())
    }
}

/// How the simulated world behaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Simulated {
    /// How long a change in the local world takes, in milliseconds; to watch an execution at work. Default 0.
    pub(crate) delay_ms: u64,
    /// Whether the server itself sees what is on simulated clusters; if not, facts are pushed as for real ones. Default true.
    pub(crate) observe: bool,
}

impl Default for Simulated {
    fn default() -> Self {
        Self { delay_ms: 0, observe: true }
    }
}

/// How those who wait for capacity are woken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Waitlist {
    /// How often it is looked whether someone can be served, beside whenever an execution moves. Default `30s`.
    pub(crate) every: Span,
}

/// When the audit is signed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Audit {
    /// After so many entries a checkpoint is signed. Default 1000.
    pub(crate) checkpoint_entries: u64,
    /// After so long a checkpoint is signed, if anything was sealed. Default `1m`.
    pub(crate) checkpoint_every: Span,
}

impl Default for Audit {
    fn default() -> Self {
        Self { checkpoint_entries: 1_000, checkpoint_every: Span(Duration::from_secs(60)) }
    }
}

/// How long finished executions are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Retention {
    /// From the end of an execution on; a span, or `never` to forget none. Default `never`.
    pub(crate) after: Kept,
    /// The same for executions of a workflow, by its name; only in the file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) workflows: BTreeMap<String, Kept>,
}

/// Whether records are sealed, with what, and where the keys are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Seal {
    /// A file with the platform's key, of 64 hexadecimal digits: it wraps the record keys. Default none: records are not sealed.
    pub(crate) key_file: String,
    /// The key that wrapped them before, to be wrapped anew by the other. Default none.
    pub(crate) earlier_key_file: String,
    /// The folder of the record keys. Default `record-keys` in the data folder.
    pub(crate) keys: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: "./tenure-data".into(),
            store: Keep::default(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7878)),
            platform: Self::LOCAL.into(),
            targets: String::new(),
            log: Log::default(),
            engine: Work::default(),
            http: Http::default(),
            tls: Tls::default(),
            simulated: Simulated::default(),
            waitlist: Waitlist { every: Span(Duration::from_secs(30)) },
            audit: Audit::default(),
            retention: Retention::default(),
            notify: Notify::default(),
            seal: Seal::default(),
            oidc: Oidc::default(),
            traces: Traces::default(),
            access: Access::default(),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".into() }
    }
}

impl Default for Work {
    fn default() -> Self {
        Self {
            concurrency: 64,
            lease: Span(Duration::from_secs(30)),
            poison_after: 8,
            drain: Span(Duration::from_secs(10)),
            second_person: "mark_done,skip,undo_with".into(),
        }
    }
}

impl Default for Waitlist {
    fn default() -> Self {
        Config::default().waitlist
    }
}

/// Every key that the environment can set, as `TENURE_` and the key in capitals with `_` for `.`.
const KEYS: &[&str] = &[
    "data",
    "store.url",
    "store.schema",
    "store.name",
    "store.connections",
    "store.notice_copies",
    "store.patience",
    "listen",
    "platform",
    "targets",
    "log.format",
    "log.filter",
    "engine.concurrency",
    "engine.lease",
    "engine.poison_after",
    "engine.drain",
    "engine.second_person",
    "http.body_limit_bytes",
    "http.grace",
    "http.streams",
    "http.streams_per_token",
    "http.guesses",
    "http.open_metrics",
    "http.read_timeout",
    "http.idle_timeout",
    "http.connections",
    "http.rate",
    "http.rate_burst",
    "tls.certificate_file",
    "tls.key_file",
    "simulated.delay_ms",
    "simulated.observe",
    "waitlist.every",
    "audit.checkpoint_entries",
    "audit.checkpoint_every",
    "notify.url",
    "notify.secret_file",
    "notify.earlier_secret_file",
    "notify.templates",
    "retention.after",
    "seal.key_file",
    "seal.earlier_key_file",
    "seal.keys",
    "oidc.issuer",
    "oidc.client_id",
    "oidc.device_client_id",
    "oidc.client_secret_file",
    "oidc.ca_file",
    "oidc.url",
    "oidc.scopes",
    "oidc.name_claim",
    "oidc.groups_claim",
    "oidc.session",
    "traces.url",
    "access.policies",
];

impl Config {
    /// The platform that is kept in the data folder.
    pub(crate) const LOCAL: &'static str = "local";

    /// The settings of `file`, if one is named, with the environment over them.
    ///
    /// # Errors
    /// What is wrong, in words: the file, line and key, or the variable.
    pub(crate) fn load(
        file: Option<&Path>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut table = toml::Table::new();
        if let Some(file) = file {
            let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
            // Read on its own first, so that a mistake is named with its line.
            toml::from_str::<Self>(&text)
                .map_err(|e| format!("{}: {}", file.display(), suggest::meant(&e.to_string())))?;
            table = toml::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        }
        for key in KEYS {
            let variable = variable(key);
            let Some(text) = environment(&variable) else { continue };
            set(&mut table, key, literal(&text));
            table.clone().try_into::<Self>().map_err(|e| format!("{variable}: {e}"))?;
        }
        let config: Self = table.try_into().map_err(|e: toml::de::Error| e.to_string())?;
        config.checked()
    }

    /// The settings, if each makes sense by itself.
    ///
    /// # Errors
    /// The key at fault, and what to write.
    pub(crate) fn checked(self) -> Result<Self, String> {
        let is_url = self.platform.starts_with("http://") || self.platform.starts_with("https://");
        if self.platform != Self::LOCAL && !is_url {
            return Err(format!("platform: {:?} is neither `local` nor a URL", self.platform));
        }
        self.notify.checked()?;
        self.store.checked()?;
        self.http.checked()?;
        self.tls.checked()?;
        self.oidc.checked()?;
        self.traces.checked()?;
        if self.seal.key_file.is_empty()
            && !(self.seal.earlier_key_file.is_empty() && self.seal.keys.is_empty())
        {
            return Err(
                "seal.key_file: name the file of the platform's key, or leave all of `seal` out".into()
            );
        }
        if self.engine.concurrency == 0 {
            return Err("engine.concurrency: 0 would do nothing; use at least 1".into());
        }
        if self.engine.lease.0 < Duration::from_secs(1) {
            return Err("engine.lease: use at least `1s`".into());
        }
        if let Some(unknown) = self.engine.second_person().find(|name| !COMMANDS.contains(name)) {
            let known = COMMANDS.join(", ");
            return Err(format!("engine.second_person: {unknown:?} is no command; these are: {known}"));
        }
        if self.waitlist.every.0 < Duration::from_secs(1) {
            return Err("waitlist.every: use at least `1s`".into());
        }
        if self.audit.checkpoint_entries == 0 {
            return Err("audit.checkpoint_entries: 0 would sign nothing; use at least 1".into());
        }
        if self.audit.checkpoint_every.0 < Duration::from_secs(1) {
            return Err("audit.checkpoint_every: use at least `1s`".into());
        }
        let kept = self.retention.workflows.iter().map(|(name, kept)| (format!("workflows.{name}"), *kept));
        for (key, kept) in kept.chain([("after".into(), self.retention.after)]) {
            if kept.0.is_some_and(|span| span < Duration::from_secs(1)) {
                return Err(format!("retention.{key}: use at least `1s`, or `never`"));
            }
        }
        Ok(self)
    }
}

/// Variables that other parts of the program read.
const OTHERS: [&str; 7] = [
    "TENURE_TOKEN",
    "TENURE_SERVER",
    "TENURE_CONTEXT",
    "TENURE_CA_FILE",
    "TENURE_CONFIG",
    "TENURE_LOG",
    "TENURE_CASES",
];
/// How those begin that Kubernetes sets in the pods beside a service named `tenure`.
const LINKS: [&str; 2] = ["TENURE_SERVICE_", "TENURE_PORT"];

/// What is to be said of variables that look like settings and are none. They are warned of, not refused: the environment is
/// not always one's own.
pub(crate) fn unknown_variables(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let known: Vec<String> = KEYS.iter().map(|key| variable(key)).collect();
    let is_known = |name: &String| known.contains(name) || OTHERS.contains(&name.as_str());
    let is_linked = |name: &String| LINKS.iter().any(|link| name.starts_with(link));
    let strange = names.into_iter().filter(|name| name.starts_with("TENURE_"));
    let mut strange: Vec<String> = strange.filter(|name| !is_known(name) && !is_linked(name)).collect();
    strange.sort();
    let told = |name: String| {
        let near = engine::nearest(&name, known.iter().map(String::as_str).chain(OTHERS));
        let meant = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("{name} sets nothing: there is no such setting{meant}")
    };
    strange.into_iter().map(told).collect()
}

/// The variable that sets `key`.
fn variable(key: &str) -> String {
    format!("TENURE_{}", key.replace('.', "_").to_uppercase())
}

/// A variable's text as TOML: a number or truth value where it is one, else text.
fn literal(text: &str) -> toml::Value {
    match (text.parse::<i64>(), text) {
        (Ok(number), _) => toml::Value::Integer(number),
        (Err(_), "true" | "false") => toml::Value::Boolean(text == "true"),
        (Err(_), _) => toml::Value::String(text.into()),
    }
}

fn set(table: &mut toml::Table, key: &str, value: toml::Value) {
    match key.split_once('.') {
        None => _ = table.insert(key.into(), value),
        Some((section, rest)) => {
            let inner = table.entry(section).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            if let Some(inner) = inner.as_table_mut() {
                set(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let dir = std::env::temp_dir().join(format!("tenure-config-{}", std::process::id()));
        std::fs::write(&dir, "listen = \"127.0.0.1:1\"\n[engine]\nleese = \"3s\"\n").unwrap();
        let error = Config::load(Some(&dir), nothing).unwrap_err();
        std::fs::remove_file(&dir).unwrap();
        assert!(error.contains("leese") && error.contains("line 3"), "{error}");
    }

    #[test]
    fn the_environment_goes_over_the_file_and_can_set_every_key() {
        let told = |name: &str| match name {
            "TENURE_ENGINE_LEASE" => Some("1m30s".into()),
            "TENURE_ENGINE_CONCURRENCY" => Some("3".into()),
            _ => None,
        };
        let config = Config::load(None, told).unwrap();
        assert_eq!(config.engine.lease.0, Duration::from_secs(90));
        assert_eq!(config.engine.concurrency, 3);
        let table = toml::Table::try_from(Config::default()).unwrap();
        let leaves = table.iter().flat_map(|(name, value)| match value.as_table() {
            Some(inner) => inner.keys().map(|key| format!("{name}.{key}")).collect(),
            None => vec![name.clone()],
        });
        let mut leaves: Vec<String> = leaves.collect();
        let mut keys: Vec<String> = KEYS.iter().map(|key| (*key).to_owned()).collect();
        leaves.sort();
        keys.sort();
        assert_eq!(leaves, keys);
    }

    #[test]
    fn a_variable_that_sets_nothing_is_named_and_those_of_other_parts_pass() {
        let names = ["TENURE_ENGINE_LEASSE", "TENURE_TOKEN", "TENURE_DATA", "TENURE_PORT_7878_TCP", "HOME"];
        let told = unknown_variables(names.map(str::to_owned));
        let wanted =
            "TENURE_ENGINE_LEASSE sets nothing: there is no such setting; did you mean TENURE_ENGINE_LEASE?";
        assert_eq!(told, [wanted]);
    }

    #[test]
    fn a_wrong_value_is_told_with_its_variable() {
        let told = |name: &str| (name == "TENURE_ENGINE_LEASE").then(|| "soon".into());
        let error = Config::load(None, told).unwrap_err();
        assert!(error.contains("TENURE_ENGINE_LEASE") && error.contains("soon"), "{error}");
    }
}
