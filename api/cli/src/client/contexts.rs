//! The contexts file: named servers, each with its token.
//!
//! Invariant: a token is read only from a file with no access for others, is sent only to the server of its context, and is never
//! printed.

use crate::common::{Common, Source};
use api::config::{Config, admin_file};
use program::exit::{Exit, Failure};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    env, fmt, fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// A server and the credentials for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    /// The URL of the server.
    pub(crate) server: String,
    /// The token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// A file with the token. It is read at each use, so another program can renew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// A file with certificate authorities, trusted in addition to those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// Written by hand so that no token appears in a message.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        f.debug_struct("Context")
            .field("server", &self.server)
            .field("token", &token)
            .field("token_file", &self.token_file)
            .field("ca_file", &self.ca_file)
            .finish()
    }
}

/// The content of the contexts file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Contexts {
    /// The context to use if none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// The contexts by name.
    pub(crate) contexts: BTreeMap<String, Context>,
}

/// Returns the path of the contexts file: `$XDG_CONFIG_HOME/tenure/contexts.toml`, or below `~/.config` if the variable is not set.
pub(crate) fn file() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CONFIG_HOME").filter(|base| base.is_absolute());
    let base = base.or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(base.join("tenure").join("contexts.toml"))
}

fn usage(file: &Path, why: impl fmt::Display) -> Failure {
    Failure::new(Exit::Usage, format!("{}: {why}", file.display()))
}

impl Contexts {
    /// Reads the file. A missing file has no contexts.
    ///
    /// # Errors
    /// The file has access for others, or cannot be parsed.
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(usage(file, error)),
        };
        check_owner_only(file)?;
        // The parser's full message quotes the line, which may contain a token.
        let read = toml::from_str::<Self>(&text).map_err(|error| {
            let line = error.span().map_or(0, |at| text.get(..at.start).unwrap_or("").lines().count());
            usage(file, format!("line {}: {}", line.max(1), error.message()))
        })?;
        Ok(read)
    }

    /// Replaces the file atomically, with mode 0600.
    pub(crate) fn write(&self, file: &Path) -> Result<(), Failure> {
        let text = toml::to_string(self).map_err(Failure::other)?;
        let failed = |error: io::Error| Failure::other(format!("{}: {error}", file.display()));
        if let Some(folder) = file.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        let part = file.with_extension(format!("part-{}", std::process::id()));
        let mut out = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&part)
            .map_err(failed)?;
        let written = out.write_all(text.as_bytes()).and_then(|()| out.sync_all());
        written.and_then(|()| fs::rename(&part, file)).map_err(failed)
    }

    /// Returns the context `name`.
    pub(crate) fn named(&self, name: &str) -> Result<&Context, Failure> {
        self.contexts.get(name).ok_or_else(|| self.missing(name))
    }

    /// Returns the error for a name that does not exist.
    pub(crate) fn missing(&self, name: &str) -> Failure {
        let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
        let meant = match engine::nearest(name, known.iter().copied()) {
            Some(near) => format!("; did you mean {near}?"),
            None if known.is_empty() => "; `tenure context set NAME --server URL` creates one".into(),
            None => format!("; known contexts: {}", known.join(", ")),
        };
        Failure::new(Exit::NotFound, format!("context {name} does not exist{meant}"))
    }
}

/// The context that the first start of a server creates.
const LOCAL: &str = "local";

/// Creates the context [`LOCAL`], which reads its token from a file, and selects it if no context is in use. Keeps a context of that name
/// that an operator created. Returns the file, or `None` if nothing was written.
pub(crate) fn keep_local(server: &str, token_file: PathBuf) -> Result<Option<PathBuf>, Failure> {
    let Some(file) = file() else { return Ok(None) };
    let mut contexts = Contexts::read(&file)?;
    if !contexts.take_local(server, token_file) {
        return Ok(None);
    }
    contexts.write(&file)?;
    Ok(Some(file))
}

impl Contexts {
    /// Returns true if the context was created or changed.
    fn take_local(&mut self, server: &str, token_file: PathBuf) -> bool {
        // An earlier first start created this context, and its data folder was removed.
        let is_own = |there: &Context| {
            let is_stale = |file: &PathBuf| file.ends_with("admin.token") && !file.is_file();
            there.token.is_none()
                && is_loopback(&there.server)
                && there.token_file.as_ref().is_some_and(is_stale)
        };
        if self.contexts.get(LOCAL).is_some_and(|there| !is_own(there)) {
            return false;
        }
        let made =
            Context { server: server.to_owned(), token: None, token_file: Some(token_file), ca_file: None };
        self.contexts.insert(LOCAL.to_owned(), made);
        self.current.get_or_insert_with(|| LOCAL.to_owned());
        true
    }
}

/// Rejects a file with secrets if others may read it.
fn check_owner_only(file: &Path) -> Result<(), Failure> {
    let mode = fs::metadata(file).map_err(|error| usage(file, error))?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let why = format!(
        "its mode is {:o}, so other users may read the tokens; run `chmod 600 {}`, and replace the tokens",
        mode & 0o777,
        file.display()
    );
    Err(usage(file, why))
}

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    /// The source as shown to users: `--server`, `TENURE_SERVER`, `context eu`.
    pub(crate) by: String,
}

/// The server to call and the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) server: Sourced<String>,
    pub(crate) token: Option<Sourced<String>>,
    /// The context in use and how it was selected.
    pub(crate) context: Option<Sourced<String>>,
    /// The file from which a token is read if none is given: that of the data folder, or the contexts file.
    pub(crate) token_file: PathBuf,
    /// A file with certificate authorities, trusted in addition to those of the system.
    pub(crate) ca_file: Option<Sourced<PathBuf>>,
}

/// Determines the server and the token from the command line, the environment and the contexts, in this order.
///
/// A context that is named on the command line has priority over the environment. The token of a context is sent only to the server of
/// that context.
pub(crate) fn target(common: &Common) -> Result<Target, Failure> {
    let (name, context) = match chosen(common)? {
        Some((name, context)) => (Some(name), Some(context)),
        None => (None, None),
    };
    let by_flag = common.said.context == Source::Flag;
    let heeded = |place: Source| place == Source::Flag || (place == Source::Environment && !by_flag);
    let defaults = Config::default();
    let called = |option: &str, place: Source| match place {
        Source::Flag => format!("--{option}"),
        Source::Environment | Source::Nowhere => {
            format!("TENURE_{}", option.replace('-', "_").to_uppercase())
        }
    };
    let of_context = name.as_ref().map(|name| format!("context {}", name.value)).unwrap_or_default();
    let said = |option: &str, value: &Option<String>, place: Source| {
        let value = value.as_ref().filter(|value| !value.trim().is_empty() && heeded(place))?;
        Some(Sourced { value: value.trim().to_owned(), by: called(option, place) })
    };
    let server = match (said("server", &common.server, common.said.server), &context) {
        (Some(said), _) => Sourced { value: base(&said.value), ..said },
        (None, Some(context)) => Sourced { value: base(&context.server), by: of_context.clone() },
        (None, None) => Sourced { value: format!("http://{}", defaults.listen), by: "the default".into() },
    };
    let admin = admin_file(&common.data.clone().unwrap_or(defaults.data));
    // The context applies only to its own server.
    let own = context.as_ref().filter(|context| base(&context.server) == server.value);
    // The token of the data folder is for a server on this machine, unless a context names another token.
    let own_name = of_context.clone();
    let token_file =
        if own.is_some() && !is_loopback(&server.value) { file().unwrap_or(admin) } else { admin };
    let token = match (said("token", &common.token, common.said.token), own) {
        (Some(said), _) => Some(said),
        // A data folder that exists here has priority over the one of the first start.
        (None, Some(own))
            if is_local(name.as_ref())
                && own.token.is_none()
                && is_loopback(&server.value)
                && token_file.is_file() =>
        {
            kept(&token_file)
        }
        (None, Some(own)) => match own.secret()? {
            Some(value) => Some(Sourced { value, by: of_context }),
            None if is_loopback(&server.value) => kept(&token_file),
            None => None,
        },
        (None, None) => kept(&token_file),
    };
    let ca_file = match common.ca_file.clone().filter(|_| heeded(common.said.ca_file)) {
        Some(value) => Some(Sourced { value, by: called("ca-file", common.said.ca_file) }),
        None => own.and_then(|own| Some(Sourced { value: own.ca_file.clone()?, by: own_name })),
    };
    let context = name.filter(|_| own.is_some());
    Ok(Target { server, token, context, token_file, ca_file })
}

/// Returns true if the first start of a server created the context.
fn is_local(name: Option<&Sourced<String>>) -> bool {
    name.is_some_and(|name| name.value == LOCAL)
}

/// Returns true if the server's URL is one of this machine.
pub(crate) fn is_loopback(server: &str) -> bool {
    let host = reqwest::Url::parse(server).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.is_some_and(|host| ["127.0.0.1", "localhost", "[::1]"].contains(&host.as_str()))
}

fn kept(file: &Path) -> Option<Sourced<String>> {
    let text = fs::read_to_string(file).ok()?;
    Some(Sourced { value: text.trim().to_owned(), by: file.display().to_string() })
}

/// Returns the context in use. The file is not read if server and token are both given and no context is named.
fn chosen(common: &Common) -> Result<Option<(Sourced<String>, Context)>, Failure> {
    let named = common.context.as_deref().map(str::trim).filter(|name| !name.is_empty());
    let both = |value: &Option<String>| value.as_ref().is_some_and(|value| !value.trim().is_empty());
    if named.is_none() && both(&common.server) && both(&common.token) {
        return Ok(None);
    }
    let Some(file) = file() else { return Ok(None) };
    let contexts = Contexts::read(&file)?;
    let (name, by) = match (named, &contexts.current, common.said.context) {
        (Some(name), _, Source::Flag) => (name.to_owned(), "--context".to_owned()),
        (Some(name), _, _) => (name.to_owned(), "TENURE_CONTEXT".to_owned()),
        (None, Some(current), _) => (current.clone(), file.display().to_string()),
        (None, None, _) => return Ok(None),
    };
    let context = contexts.named(&name)?.clone();
    Ok(Some((Sourced { value: name, by }, context)))
}

impl Context {
    /// Returns the token, if there is one.
    fn secret(&self) -> Result<Option<String>, Failure> {
        let Some(file) = &self.token_file else { return Ok(self.token.clone()) };
        let text = fs::read_to_string(file).map_err(|error| usage(file, error))?;
        check_owner_only(file)?;
        Ok(Some(text.trim().to_owned()))
    }
}

/// Returns a server's URL with a scheme and without a slash at the end.
pub(crate) fn base(server: &str) -> String {
    let server = server.trim().trim_end_matches('/');
    if server.contains("://") { server.to_owned() } else { format!("http://{server}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_start_of_a_server_creates_a_context_and_keeps_those_of_operators() {
        let mut contexts = Contexts::default();
        assert!(contexts.take_local("http://127.0.0.1:7878", "/srv/a/admin.token".into()));
        assert_eq!(contexts.current.as_deref(), Some(LOCAL));
        assert!(contexts.take_local("http://127.0.0.1:7879", "/srv/b/admin.token".into()), "another folder");
        assert_eq!(contexts.contexts[LOCAL].server, "http://127.0.0.1:7879");

        let theirs =
            Context { server: "https://eu.example".into(), token: None, token_file: None, ca_file: None };
        contexts.contexts.insert(LOCAL.into(), theirs.clone());
        contexts.current = Some("eu".into());
        assert!(!contexts.take_local("http://127.0.0.1:7878", "/srv/a/admin.token".into()));
        assert_eq!((&contexts.contexts[LOCAL], contexts.current.as_deref()), (&theirs, Some("eu")));
    }
}
