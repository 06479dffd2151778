//! Loads settings from the file and the environment. Lists the keys that variables can set, and warns of unknown variables.

use super::{Config, suggest};
use std::path::Path;

/// The keys that the environment can set, as `TENURE_` and the key in capitals with `_` for `.`.
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
    "trial",
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
    /// Loads the settings of `file`, if given, with the environment on top.
    ///
    /// # Errors
    /// The fault, with file, line and key, or with the variable.
    pub fn load(file: Option<&Path>, environment: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut table = toml::Table::new();
        if let Some(file) = file {
            let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
            // Parsed separately first, so that an error names its line.
            toml::from_str::<Self>(&text)
                .map_err(|e| format!("{}: {}", file.display(), suggest::with_suggestion(&e.to_string())))?;
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
}

/// Variables of other parts of the program.
const OTHER_VARIABLES: [&str; 7] = [
    "TENURE_TOKEN",
    "TENURE_SERVER",
    "TENURE_CONTEXT",
    "TENURE_CA_FILE",
    "TENURE_CONFIG",
    "TENURE_LOG",
    "TENURE_CASES",
];
/// Prefixes of the variables that Kubernetes sets in pods next to a service named `tenure`.
const SERVICE_LINK_PREFIXES: [&str; 2] = ["TENURE_SERVICE_", "TENURE_PORT"];

/// Returns warnings about variables that look like settings but are not. They are no errors, because other tools may set variables.
pub fn unknown_variables(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let known: Vec<String> = KEYS.iter().map(|key| variable(key)).collect();
    let is_known = |name: &String| known.contains(name) || OTHER_VARIABLES.contains(&name.as_str());
    let is_linked = |name: &String| SERVICE_LINK_PREFIXES.iter().any(|link| name.starts_with(link));
    let strange = names.into_iter().filter(|name| name.starts_with("TENURE_"));
    let mut strange: Vec<String> = strange.filter(|name| !is_known(name) && !is_linked(name)).collect();
    strange.sort();
    let told = |name: String| {
        let near = engine::nearest(&name, known.iter().map(String::as_str).chain(OTHER_VARIABLES));
        let meant = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("{name} has no effect: there is no such setting{meant}")
    };
    strange.into_iter().map(told).collect()
}

/// Returns the variable of `key`.
fn variable(key: &str) -> String {
    format!("TENURE_{}", key.replace('.', "_").to_uppercase())
}

/// Parses the text of a variable as TOML: a number or boolean if possible, otherwise text.
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
    use std::time::Duration;

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
    fn the_environment_overrides_the_file_and_can_set_every_key() {
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
    fn an_unknown_variable_is_reported_and_those_of_other_parts_are_not() {
        let names = ["TENURE_ENGINE_LEASSE", "TENURE_TOKEN", "TENURE_DATA", "TENURE_PORT_7878_TCP", "HOME"];
        let told = unknown_variables(names.map(str::to_owned));
        let wanted =
            "TENURE_ENGINE_LEASSE has no effect: there is no such setting; did you mean TENURE_ENGINE_LEASE?";
        assert_eq!(told, [wanted]);
    }

    #[test]
    fn an_error_of_a_value_names_its_variable() {
        let told = |name: &str| (name == "TENURE_ENGINE_LEASE").then(|| "soon".into());
        let error = Config::load(None, told).unwrap_err();
        assert!(error.contains("TENURE_ENGINE_LEASE") && error.contains("soon"), "{error}");
    }
}
