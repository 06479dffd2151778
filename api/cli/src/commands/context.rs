//! `tenure context`: named servers with their tokens.

use crate::{
    client::contexts::{self, Context, Contexts},
    common::{Common, Format, Source},
    output::{self, Column},
};
use clap::{Args, Subcommand};
use program::{
    exit::{Exit, Failure},
    files,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Context commands.
#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// List contexts.
    List,
    /// Select the default context.
    Use {
        /// Context name.
        name: String,
    },
    /// Create or change a context.
    ///
    /// The context gets the values of --server, --token and --ca-file.
    Set(Set),
    /// Remove a context and its token.
    Remove {
        /// Context name.
        name: String,
    },
    /// Show the effective server and its source.
    Show,
}

/// The context to create or change.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Context name.
    name: String,
    /// Token file, read at each use; `-` stores a token from standard input.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Store no token.
    #[arg(long, conflicts_with = "token_file")]
    no_token: bool,
    /// Select the context as default.
    #[arg(long = "use")]
    used: bool,
}

const COLUMNS: [Column; 4] =
    [("name", "/name"), ("default", "/used"), ("server", "/server"), ("token", "/token")];

pub(crate) fn run(common: &Common, command: ContextCommand) -> Result<Exit, Failure> {
    let Some(file) = contexts::file() else {
        return Err(Failure::new(
            Exit::Usage,
            "the folder of the contexts file is unknown: set HOME or XDG_CONFIG_HOME",
        ));
    };
    if matches!(command, ContextCommand::Show) {
        return show(common, &file);
    }
    let mut all = Contexts::read(&file)?;
    match command {
        ContextCommand::Show => {}
        ContextCommand::List => {
            let items = all.contexts.iter().map(|(name, context)| row(&all, name, context)).collect();
            output::list(common.output, items, &COLUMNS)?;
        }
        ContextCommand::Use { name } => {
            all.named(&name)?;
            all.current = Some(name.clone());
            all.write(&file)?;
            output::done(common.output, "used", &name)?;
        }
        ContextCommand::Remove { name } => {
            all.contexts.remove(&name).ok_or_else(|| all.missing(&name))?;
            all.current = all.current.filter(|current| *current != name);
            all.write(&file)?;
            output::done(common.output, "removed", &name)?;
        }
        ContextCommand::Set(set) => {
            let name = set.name.clone();
            apply(common, &mut all, set)?;
            all.write(&file)?;
            output::done(common.output, "set", &name)?;
        }
    }
    Ok(Exit::Done)
}

fn row(all: &Contexts, name: &str, context: &Context) -> Value {
    let token = match (&context.token, &context.token_file) {
        (_, Some(file)) => json!(format!("in {}", file.display())),
        (Some(_), None) => json!("stored"),
        (None, None) => Value::Null,
    };
    let used = if all.current.as_deref() == Some(name) { json!("*") } else { Value::Null };
    json!({ "name": name, "used": used, "server": context.server, "token": token })
}

fn apply(common: &Common, all: &mut Contexts, set: Set) -> Result<(), Failure> {
    let usage = |why: String| Failure::new(Exit::Usage, why);
    if set.name.is_empty() || set.name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(usage(format!("NAME: {:?} is not a valid name; use a name without spaces", set.name)));
    }
    // Only options of this command line are stored, not values of the environment.
    let server = common.server.clone().filter(|_| common.said.server == Source::Flag);
    let before = all.contexts.get(&set.name).cloned();
    let server = match (server, &before) {
        (Some(server), _) => url(&server).map_err(usage)?,
        (None, Some(before)) => before.server.clone(),
        (None, None) => {
            return Err(usage(
                "--server: name the server of the context, such as https://tenure.example".into(),
            ));
        }
    };
    let same = |before: &&Context| before.server == server;
    let trusted = before.as_ref().filter(same).and_then(|before| before.ca_file.clone());
    let moved = before.as_ref().is_some_and(|before| before.server != server);
    let mut context = Context { server, token: None, token_file: None, ca_file: None };
    // A token is for one server, so a new server drops it.
    if let Some(before) = before.filter(|_| !moved && !set.no_token) {
        (context.token, context.token_file) = (before.token, before.token_file);
    }
    context.ca_file = match common.ca_file.as_ref().filter(|_| common.said.ca_file == Source::Flag) {
        Some(file) => Some(std::path::absolute(file).map_err(|error| files::unreadable(file, &error))?),
        None => trusted,
    };
    let flag = common.token.clone().filter(|_| common.said.token == Source::Flag);
    match (flag, set.token_file) {
        (Some(_), Some(_)) => {
            return Err(usage("--token-file: cannot be used with --token; give one of them".into()));
        }
        (Some(token), None) => (context.token, context.token_file) = (Some(secret(&token)?), None),
        (None, Some(file)) if file == Path::new("-") => {
            (context.token, context.token_file) = (Some(secret(&files::read(&file)?)?), None);
        }
        (None, Some(file)) => {
            let whole = std::path::absolute(&file).map_err(|error| files::unreadable(&file, &error))?;
            (context.token, context.token_file) = (None, Some(whole));
        }
        (None, None) => {}
    }
    if set.used || all.contexts.is_empty() {
        all.current = Some(set.name.clone());
    }
    all.contexts.insert(set.name, context);
    Ok(())
}

fn secret(text: &str) -> Result<String, Failure> {
    let token = text.trim();
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err(Failure::new(Exit::Usage, "the token is empty or has more than one word"));
    }
    Ok(token.to_owned())
}

/// Returns the server's URL if it is valid.
fn url(server: &str) -> Result<String, String> {
    let base = contexts::base(server);
    let wrong = || {
        format!("--server: {server:?} is not the URL of a server; write a URL such as https://tenure.example")
    };
    let url = reqwest::Url::parse(&base).map_err(|_| wrong())?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
        return Err(wrong());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("--server: remove the user name and password; use a token instead".into());
    }
    Ok(base)
}

fn show(common: &Common, file: &Path) -> Result<Exit, Failure> {
    let target = contexts::target(common)?;
    let by = |found: &contexts::Sourced<String>| json!({ "is": found.value, "by": found.by });
    let item = json!({
        "context": target.context.as_ref().map(by),
        "server": by(&target.server),
        "token": target.token.as_ref().map(|token| json!({ "by": token.by })),
        "ca_file": target.ca_file.as_ref().map(|found| json!({ "is": found.value, "by": found.by })),
        "file": file,
    });
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, &item)?,
        Format::Table => {
            let told = |found: Option<&contexts::Sourced<String>>| {
                found.map_or("none".to_owned(), |found| {
                    format!("{} (from {})", output::sanitize(&found.value), found.by)
                })
            };
            let token =
                target.token.as_ref().map_or("none".to_owned(), |token| format!("given (from {})", token.by));
            let trusts = target.ca_file.as_ref().map_or(String::new(), |found| {
                format!(
                    "trusts:  {} (from {})\n",
                    output::sanitize(&found.value.display().to_string()),
                    found.by
                )
            });
            output::say(&format!(
                "context: {}\nserver:  {}\ntoken:   {token}\n{trusts}file:    {}\n",
                told(target.context.as_ref()),
                told(Some(&target.server)),
                file.display()
            ))?;
        }
    }
    Ok(Exit::Done)
}
