//! `tenure access`: access policies. `check`, `shipped` and `schema` need no server.

use crate::{
    client::{Client, escape},
    common::{Common, Format},
    output,
};
use api::{Role, auth::policy};
use clap::{Args, Subcommand};
use program::exit::{Exit, Failure};
use serde_json::{Value, json};
use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

/// Access commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Access {
    /// Explain whether an action is allowed.
    Explain(Explain),
    /// Show the policies of a version.
    Show {
        /// Version [default: the one in force].
        #[arg(default_value = "current")]
        version: String,
    },
    /// List the versions of the operator's policies.
    History,
    /// Check a policy file offline.
    Check {
        /// Policy file (Cedar).
        file: PathBuf,
    },
    /// Print the shipped policies.
    Shipped,
    /// Print the Cedar schema for policies.
    Schema,
}

/// The action to explain and the caller.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Action, such as `hold_store`.
    action: String,
    /// User name of the caller.
    #[arg(long, required_unless_present = "roles", conflicts_with = "roles")]
    user: Option<String>,
    /// Role of the caller (repeatable).
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<Role>,
    /// Tenant of the caller.
    #[arg(long, requires = "roles")]
    tenant: Option<String>,
    /// Network address of the caller.
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// Explain a preview of the action.
    #[arg(long)]
    plans: bool,
}

pub(crate) const HISTORY: [output::Column; 4] =
    [("version", "/id"), ("since", "/since"), ("in force", "/in_force"), ("file", "/file")];

pub(crate) async fn run(common: &Common, command: Access) -> Result<Exit, Failure> {
    match command {
        Access::Explain(asked) => explain(common, &asked).await,
        Access::Show { version } => show(common, &version).await,
        Access::History => {
            let items = Client::of(common)?.all("/v1/access-policies", "").await?;
            output::list(common.output, items, &HISTORY)?;
            Ok(Exit::Done)
        }
        Access::Check { file } => check(common, &file),
        Access::Shipped => said(policy::SHIPPED),
        Access::Schema => said(&policy::schema()),
    }
}

fn said(text: &str) -> Result<Exit, Failure> {
    output::say(text)?;
    Ok(Exit::Done)
}

async fn explain(common: &Common, asked: &Explain) -> Result<Exit, Failure> {
    let roles: Vec<_> = asked.roles.iter().map(|role| role.name()).collect();
    let from = asked.from.map(|from| from.to_string());
    let parts = [
        ("action", Some(asked.action.clone())),
        ("user", asked.user.clone()),
        ("roles", (!roles.is_empty()).then(|| roles.join(","))),
        ("tenant", asked.tenant.clone()),
        ("from", from),
        ("plans", asked.plans.then(|| "true".to_owned())),
    ];
    let query =
        parts.iter().filter_map(|(name, value)| Some(format!("{name}={}", escape(value.as_deref()?))));
    let query = query.collect::<Vec<_>>().join("&");
    let answer = Client::of(common)?.get(&format!("/v1/access?{query}")).await?.value()?;
    output::one(common.output, &answer)?;
    let allows = answer.get("allows").and_then(Value::as_bool).unwrap_or_default();
    Ok(if allows { Exit::Done } else { Exit::Failed })
}

async fn show(common: &Common, version: &str) -> Result<Exit, Failure> {
    let found =
        Client::of(common)?.get(&format!("/v1/access-policies/{}", escape(version))).await?.exact()?;
    if let format @ (Format::Json | Format::Yaml) = common.output {
        output::one(format, &found)?;
        return Ok(Exit::Done);
    }
    let text = |name: &str| found.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut page = format!("// version {}\n", text("id"));
    for (title, part) in [("shipped", "shipped"), (text("file"), "text")] {
        if !text(part).is_empty() {
            page.push_str(&format!("\n// ---- {title}\n{}\n", text(part).trim_end()));
        }
    }
    said(&page)
}

fn check(common: &Common, file: &Path) -> Result<Exit, Failure> {
    let text = policy::read(file).map_err(Failure::other)?;
    let found = policy::AccessPolicy::of(Some((&file.display().to_string(), &text)));
    let faults = found.as_ref().err().cloned().unwrap_or_default();
    match (common.output, &found) {
        (format @ (Format::Json | Format::Yaml), _) => {
            let version = found.as_ref().ok().map(|law| law.version());
            output::one(
                format,
                &json!({ "valid": faults.is_empty(), "version": version, "faults": faults }),
            )?;
        }
        (Format::Table, Ok(law)) => {
            output::say(&format!("{}: valid, version {}\n", file.display(), law.version()))?;
        }
        (Format::Table, Err(faults)) => output::say(&format!("{}\n", faults.join("\n")))?,
    }
    Ok(if faults.is_empty() { Exit::Done } else { Exit::Failed })
}
