//! `tenure get` and `tenure describe`: two commands for every kind of resource.

use crate::{
    client::Client,
    commands::{
        access,
        approvals::{self, ApprovalId, Approvals},
        audit,
        batch::BATCHES,
        executions, policy,
        schedules::{self, Schedules},
    },
    common::{Common, Format},
    output,
    resources::{
        self,
        kinds::{self, Kind},
        nested::{self, NestedKind},
        watch_list::{self, WatchArgs},
    },
};
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _},
};
use program::exit::{Exit, Failure};
use serde_json::Value;

/// Arguments of `get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Kind.
    #[arg(value_parser = kind_parser())]
    kind: &'static NamedKind,
    /// Id, as shown in the list.
    #[arg(conflicts_with_all = ["filter", "filters"])]
    id: Option<String>,
    /// Filter for executions and stuck executions (see docs/search.md).
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// Filter by a field, such as `state=active` (repeatable).
    #[arg(long = "where", value_name = "FIELD=VALUE")]
    filters: Vec<String>,
    #[command(flatten)]
    watching: WatchArgs,
}

/// Arguments of `describe`.
#[derive(Debug, Args)]
pub(crate) struct Describe {
    /// Kind.
    #[arg(value_parser = kind_parser())]
    kind: &'static NamedKind,
    /// Id, as shown in the list.
    id: String,
}

/// A kind with its names.
#[derive(Clone, Copy)]
struct NamedKind {
    plural: &'static str,
    singular: &'static str,
    kind: &'static Kind,
    /// True if the server has an address for each item. Otherwise the list has all fields.
    shown: bool,
    /// The parent kind, if each parent has a list of its own.
    within: Option<&'static NestedKind>,
}

impl std::fmt::Debug for NamedKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.plural)
    }
}

const fn known(plural: &'static str, singular: &'static str, kind: &'static Kind) -> NamedKind {
    NamedKind { plural, singular, kind, shown: true, within: None }
}

const fn listed(plural: &'static str, singular: &'static str, kind: &'static Kind) -> NamedKind {
    NamedKind { shown: false, ..known(plural, singular, kind) }
}

const fn inside(plural: &'static str, singular: &'static str, within: &'static NestedKind) -> NamedKind {
    NamedKind { within: Some(within), ..listed(plural, singular, within.kind) }
}

const ACCESS_POLICIES: Kind = Kind { path: "/v1/access-policies", columns: &access::HISTORY };
const AUDIT: Kind = Kind { path: "/v1/audit", columns: audit::ENTRIES };
const POLICIES: Kind = Kind { path: "/v1/policies", columns: &policy::HISTORY };
const WORKFLOWS: Kind = Kind {
    path: "/v1/workflows",
    columns: &[("name", "/name"), ("schema", "/schema"), ("initial", "/initial"), ("states", "/states")],
};

/// Every kind.
static ALL: [NamedKind; 35] = [
    known("access-policies", "access-policy", &ACCESS_POLICIES),
    listed("agents", "agent", &kinds::AGENTS),
    known("approvals", "approval", &kinds::APPROVALS),
    listed("audit", "audit-entry", &AUDIT),
    known("batches", "batch", &BATCHES),
    known("certificates", "certificate", &kinds::CERTIFICATES),
    listed("channels", "channel", &kinds::CHANNELS),
    known("closed-tenants", "closed-tenant", &kinds::CLOSED_TENANTS),
    known("clusters", "cluster", &kinds::CLUSTERS),
    known("decisions", "decision", &kinds::DECISIONS),
    known("delegations", "delegation", &kinds::DELEGATIONS),
    inside("deliveries", "delivery", &nested::DELIVERIES),
    listed("engines", "engine", &kinds::ENGINES),
    known("executions", "execution", &kinds::EXECUTIONS),
    known("groups", "group", &kinds::GROUPS),
    known("holds", "hold", &kinds::HOLDS),
    known("limits", "limit", &kinds::LIMITS),
    known("loans", "loan", &kinds::LOANS),
    known("nodes", "node", &kinds::NODES),
    inside("occurrences", "occurrence", &nested::OCCURRENCES),
    known("policies", "policy", &POLICIES),
    known("proposals", "proposal", &kinds::PROPOSALS),
    known("quotas", "quota", &kinds::QUOTAS),
    known("regions", "region", &kinds::REGIONS),
    known("reservations", "reservation", &kinds::RESERVATIONS),
    listed("reviews", "review", &kinds::REVIEWS),
    known("schedules", "schedule", &kinds::SCHEDULES),
    listed("stuck", "stuck", &kinds::STUCK),
    listed("sweeps", "sweep", &kinds::SWEEPS),
    known("tenants", "tenant", &kinds::TENANTS),
    known("usage", "usage", &kinds::USAGE),
    known("users", "user", &kinds::USERS),
    listed("workflows", "workflow", &WORKFLOWS),
    known("workloads", "workload", &kinds::WORKLOADS),
    known("workspaces", "workspace", &kinds::WORKSPACES),
];

/// Parses a kind. Clap suggests the nearest kind for an unknown word, and shells complete kinds.
fn kind_parser() -> impl clap::builder::TypedValueParser<Value = &'static NamedKind> {
    let values = ALL.iter().map(|known| PossibleValue::new(known.plural).alias(known.singular));
    let named = |word: String| {
        let found = ALL.iter().find(|known| known.plural == word || known.singular == word);
        found.ok_or_else(|| format!("kind {word} does not exist"))
    };
    PossibleValuesParser::new(values).try_map(named)
}

/// Lists all items of a kind, or shows the row of one.
pub(crate) async fn get(common: &Common, get: Get) -> Result<Exit, Failure> {
    let known = get.kind;
    if get.filter.is_some() && !["/v1/executions", "/v1/stuck"].contains(&known.kind.path) {
        let why = format!("--filter: not available for {}; use --where FIELD=VALUE", known.plural);
        return Err(Failure::new(Exit::Usage, why));
    }
    let Some(id) = get.id else {
        if let Some(within) = known.within {
            return nested::list(common, within, &get.filters, &get.watching).await;
        }
        let filter = get.filter.as_deref();
        return resources::search(common, known.kind, filter, &get.filters, &get.watching).await;
    };
    let client = Client::of(common)?;
    if common.output != Format::Table {
        output::one(common.output, &one(&client, known, &id).await?)?;
        return Ok(Exit::Done);
    }
    let columns = kinds::columns(known.kind);
    watch_list::show(common, &get.watching, &columns, async || Ok(vec![one(&client, known, &id).await?]))
        .await
}

/// Shows one item with related data, such as the journal of an execution.
pub(crate) async fn describe(common: &Common, describe: Describe) -> Result<Exit, Failure> {
    let (known, id) = (describe.kind, describe.id);
    match known.plural {
        "executions" => {
            let exit = executions::show(common, &id).await?;
            if common.output == Format::Table {
                output::say("\n")?;
                executions::journal(common, &id).await?;
            }
            Ok(exit)
        }
        "approvals" => approvals::run(common, Approvals::Show(ApprovalId { id })).await,
        "schedules" => schedules::run(common, Schedules::Show { name: id }).await,
        _ => {
            let item = one(&Client::of(common)?, known, &id).await?;
            output::one(common.output, &item)?;
            Ok(Exit::Done)
        }
    }
}

/// Returns the item with this id.
async fn one(client: &Client, known: &NamedKind, id: &str) -> Result<Value, Failure> {
    if let Some(within) = known.within {
        return within.one(client, known.singular, id).await;
    }
    if known.shown {
        return resources::read(client, known.kind, id).await;
    }
    let place = known.kind.columns.first().map_or("/id", |(_, place)| *place);
    let items = client.all(known.kind.path, "").await?;
    let is_meant = |item: &&Value| item.pointer(place).and_then(Value::as_str) == Some(id);
    if let Some(item) = items.iter().find(is_meant) {
        return Ok(item.clone());
    }
    let missing = Failure::new(Exit::NotFound, format!("{} {id} does not exist", known.singular));
    Err(resources::suggest_id(client, known.kind, id, missing).await)
}

#[cfg(test)]
mod tests {
    use super::ALL;
    use crate::{common::Format, output};
    use serde_json::{Value, json};
    use workflows::foreign_text::is_unsafe;

    /// Text that an attacker may store to change the display of other users.
    const FOREIGN: &str = "fine\u{1b}[1A\u{1b}[2K\u{9b}2K\u{202e}evil\u{2066}\r\nforged\tline\u{200b}";

    /// Returns an item in which each of the paths has the value `value`.
    fn item(paths: impl Iterator<Item = &'static str>, value: &Value) -> Value {
        let mut item = json!({});
        for path in paths {
            let mut place = &mut item;
            for name in path.trim_start_matches('/').split('/') {
                if !place.is_object() {
                    *place = json!({});
                }
                place = &mut place[name];
            }
            *place = value.clone();
        }
        item
    }

    #[test]
    fn no_list_shows_stored_control_or_bidi_characters() {
        for value in [
            json!(FOREIGN),
            json!([FOREIGN, [FOREIGN]]),
            json!({ FOREIGN: FOREIGN, "inner": { FOREIGN: [FOREIGN] } }),
        ] {
            for known in &ALL {
                let columns = known.kind.columns;
                let items = [item(columns.iter().map(|(_, path)| *path), &value)];
                let table = output::listing(Format::Table, &items, columns).unwrap();
                assert_eq!(table.lines().count(), 2, "{}: {table}", known.plural);
                let outline = output::outline(&items[0]);
                for text in [&table, &outline] {
                    assert!(!text.replace('\n', "").contains(is_unsafe), "{}: {text:?}", known.plural);
                }
                assert!(!outline.lines().any(|line| line.trim().starts_with("forged")), "{outline}");
            }
        }
    }

    #[test]
    fn json_and_yaml_escape_unsafe_characters_and_keep_the_value() {
        let items = [json!({ "reason": FOREIGN, FOREIGN: [FOREIGN] })];
        for format in [Format::Json, Format::Yaml] {
            let text = output::listing(format, &items, &[]).unwrap();
            assert!(!text.replace('\n', "").contains(is_unsafe), "{text:?}");
            assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), json!(items), "{text}");
        }
    }

    #[test]
    fn every_name_and_text_of_an_answer_is_sanitised() {
        let value = output::harmless_value(json!({ FOREIGN: [{ "reason": FOREIGN }, 1, null] }));
        assert!(!value.to_string().contains(is_unsafe), "{value}");
        assert!(value.to_string().contains("\\\\u{202e}evil"), "{value}");
    }

    #[test]
    fn kinds_have_different_names() {
        let mut names: Vec<&str> = ALL.iter().flat_map(|known| [known.plural, known.singular]).collect();
        names.sort_unstable();
        names.dedup();
        // `stuck` and `usage` have the same singular and plural.
        assert_eq!(names.len(), ALL.len() * 2 - 2);
    }
}
