//! `tenure policy`: policy documents. `check`, `diff`, `test` and `explain FILE` need no server.

use crate::{
    client::{Body, Client, escape},
    common::{Common, Format},
    dry_run::DryRun,
    output::{self, preview, timestamps},
};
use clap::Subcommand;
use program::{
    exit::{Exit, Failure},
    files,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use workflows::policy::{self, Finding, Invalid, OnboardingRequest, PlatformPolicy, Spot, Subject};

/// Policy commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Check a document and list errors by line.
    Check {
        /// Document (YAML): a platform policy, or a tenant's request.
        file: PathBuf,
        /// Also check a request against the server's fleet, names and policy in force.
        #[arg(long)]
        on_server: bool,
    },
    /// Compare two documents, key by key.
    Diff {
        /// Old document.
        old: PathBuf,
        /// New document.
        new: PathBuf,
    },
    /// Run the examples in a platform policy.
    Test {
        /// Policy (YAML).
        file: PathBuf,
    },
    /// Show a tenant's rules with their source.
    Explain {
        /// Tenant name, or file with a request (YAML), which needs no server.
        subject: String,
        /// Policy to use for a file [default: built-in].
        #[arg(short, long)]
        file: Option<PathBuf>,
    },
    /// Publish a platform policy.
    Publish {
        /// Policy (YAML).
        file: PathBuf,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// List published policies with author and time.
    History,
    /// Show a platform policy.
    Show {
        /// Version [default: the one in force].
        #[arg(default_value = "current")]
        version: String,
    },
}

pub(crate) async fn run(common: &Common, command: Policy) -> Result<Exit, Failure> {
    match command {
        Policy::Check { file, on_server } => check(common, &file, on_server).await,
        Policy::Diff { old, new } => {
            let changes = policy::diff(&files::read(&old)?, &files::read(&new)?).map_err(Failure::other)?;
            let items = changes.iter().map(|change| json!(change)).collect();
            output::list(common.output, items, &DIFFERENCE)?;
            Ok(Exit::Done)
        }
        Policy::Test { file } => test(common, &file),
        Policy::Explain { subject, file } => explain(common, &subject, file.as_deref()).await,
        Policy::Publish { file, dry_run } => publish(common, &file, dry_run).await,
        Policy::History => {
            let items = Client::of(common)?.all("/v1/policies", "").await?;
            output::list(common.output, items, &HISTORY)?;
            Ok(Exit::Done)
        }
        Policy::Show { version } => {
            let item =
                Client::of(common)?.get(&format!("/v1/policies/{}", escape(&version))).await?.exact()?;
            match common.output {
                format @ (Format::Json | Format::Yaml) => output::one(format, &item)?,
                Format::Table => output::say(item.get("text").and_then(Value::as_str).unwrap_or_default())?,
            }
            Ok(Exit::Done)
        }
    }
}

const DIFFERENCE: [output::Column; 4] =
    [("key", "/key"), ("old", "/old"), ("new", "/new"), ("meaning", "/meaning")];
pub(crate) const HISTORY: [output::Column; 5] = [
    ("id", "/id"),
    ("version", "/version"),
    ("before", "/before"),
    ("author", "/author"),
    ("effective from", "/effective_from"),
];
const RULES: [output::Column; 6] = [
    ("topic", "/topic"),
    ("rule", "/rule"),
    ("value", "/says"),
    ("document", "/by/document"),
    ("version", "/by/version"),
    ("line", "/by/line"),
];

async fn check(common: &Common, file: &Path, on_server: bool) -> Result<Exit, Failure> {
    let text = files::read(file)?;
    let today = timestamps::now().format("%Y-%m-%d").to_string();
    let (mut findings, warnings) = (policy::check_on(&text, &today), policy::warnings(&text));
    if on_server && findings.is_empty() {
        findings = planned(common, text).await?;
    }
    match common.output {
        format @ (Format::Json | Format::Yaml) => {
            output::one(format, &json!(findings))?;
            for warning in &warnings {
                output::note(&format!("{}: warning: {warning}", file.display()));
            }
        }
        Format::Table if findings.is_empty() => {
            let lines = warnings.iter().map(|warning| format!("{}: warning: {warning}\n", file.display()));
            output::say(&format!("{}: valid\n{}", file.display(), lines.collect::<String>()))?;
        }
        Format::Table => {
            let lines = findings.iter().map(|finding| format!("{}: {finding}\n", file.display()));
            output::say(&lines.collect::<String>())?;
        }
    }
    Ok(if findings.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Returns the reasons for which the server would reject an onboarding with this request. Other documents have none.
async fn planned(common: &Common, text: String) -> Result<Vec<Finding>, Failure> {
    if OnboardingRequest::from_yaml(&text).is_err() {
        return Ok(Vec::new());
    }
    let body = Body { media: "application/yaml", text, key: None, labels: Vec::new() };
    let plan = Client::of(common)?.plan("/v1/tenants", "", body).await?.value()?;
    let reasons = plan.pointer("/decision/reasons").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |reason: &Value, name: &str| {
        output::sanitize(reason.get(name).and_then(Value::as_str).unwrap_or_default())
    };
    let failed = reasons.iter().filter(|reason| text(reason, "verdict") == "failed");
    let finding = |reason: &Value| {
        let line = reason.get("line").and_then(Value::as_u64);
        let at = line.map(|line| Spot { line, column: 1 });
        let remedy = format!("change the request; the rule {} rejects the onboarding", text(reason, "rule"));
        Finding::new(at, "", text(reason, "detail"), remedy)
    };
    Ok(failed.map(finding).collect())
}

/// Returns the errors of a document, each with the file's name.
fn wrong(file: &Path, invalid: &Invalid) -> Failure {
    let lines: Vec<String> =
        invalid.findings.iter().map(|finding| format!("{}: {finding}", file.display())).collect();
    Failure::other(lines.join("\n"))
}

fn test(common: &Common, file: &Path) -> Result<Exit, Failure> {
    let outcomes = policy::test(&files::read(file)?).map_err(|invalid| wrong(file, &invalid))?;
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    let passed = outcomes.len().saturating_sub(failed);
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, &json!(outcomes))?,
        Format::Table => {
            let line = |outcome: &policy::Outcome| {
                if outcome.passed {
                    return format!("{} ok\n", outcome.name);
                }
                format!("{} WRONG expected {} got {}\n", outcome.name, outcome.expected, outcome.got)
            };
            let lines: String = outcomes.iter().map(line).collect();
            output::say(&format!("{lines}{passed} passed, {failed} failed\n"))?;
        }
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

async fn explain(common: &Common, subject: &str, by: Option<&Path>) -> Result<Exit, Failure> {
    let file = Path::new(subject);
    let rules = if subject == "-" || file.is_file() {
        let request =
            OnboardingRequest::from_yaml(&files::read(file)?).map_err(|invalid| wrong(file, &invalid))?;
        let policy = match by {
            Some(by) => {
                PlatformPolicy::from_yaml(&files::read(by)?).map_err(|invalid| wrong(by, &invalid))?
            }
            None => PlatformPolicy::built_in().map_err(Failure::other)?,
        };
        json!(policy::explain(&Subject::from_request(request), &policy))
    } else if by.is_some() {
        let message = format!(
            "file {subject} does not exist; --file is for the file of a request, a tenant is explained with the policy in force"
        );
        return Err(Failure::new(Exit::Usage, message));
    } else {
        let path = format!("/v1/tenants/{}/policy", escape(subject));
        let answer = Client::of(common)?.get(&path).await?.value()?;
        answer.get("rules").cloned().unwrap_or_default()
    };
    let items = rules.as_array().cloned().unwrap_or_default();
    output::list(common.output, items, &RULES)?;
    Ok(Exit::Done)
}

async fn publish(common: &Common, file: &Path, dry_run: DryRun) -> Result<Exit, Failure> {
    let text = files::read(file)?;
    let (client, path) = (Client::of(common)?, "/v1/policies");
    let body = Body { media: "application/yaml", text, key: None, labels: Vec::new() };
    let answer = match dry_run.is_wanted() {
        true => client.plan(path, "", body).await?.value()?,
        false => client.post(path, body).await?.value()?,
    };
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, &answer)?,
        Format::Table => output::say(&page(&answer))?,
    }
    let changes = answer.get("changes").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    Ok(dry_run.exit(changes))
}

fn page(answer: &Value) -> String {
    let list = |name: &str| answer.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let number = |path: &str| answer.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    let text = |item: &Value, name: &str| item.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
    let mut page = format!(
        "version {} replaces {}; {} examples passed\n",
        number("/reference/version"),
        number("/before/version"),
        number("/examples")
    );
    for change in list("changes") {
        let part = |name: &str| change.get(name).cloned().unwrap_or_default();
        page.push_str(&format!("  # {}\n", output::sanitize(&text(&change, "meaning"))));
        page.push_str(&preview::drawn(&preview::change(&text(&change, "key"), &part("old"), &part("new"))));
    }
    let open = list("untouched");
    page.push_str(&format!("{} open executions keep the terms of their decision\n", open.len()));
    for execution in &open {
        let (id, workflow) = (text(execution, "id"), text(execution, "workflow"));
        page.push_str(&format!("  {id} {workflow} {}\n", text(execution, "state")));
    }
    let published = answer.get("published").and_then(Value::as_bool) == Some(true);
    page.push_str(if published { "published\n" } else { "nothing was changed\n" });
    page
}
