//! Lists of every name that a client, a script, a dashboard or a stored execution relies on, each compared with a file.
//!
//! The files are in `golden/lists/`. `TENURE_BLESS=1 cargo test -p tests --test it golden_lists` writes them again; review the
//! diff.

use crate::served::{NODES, Ran, Served, seen, shared, small, tenure};
use backends::simulated::{LocalWorld, simulated_platform};
use engine::{Diagram, Engine, SystemClock};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf, sync::Arc};
use store::Memory;
use workflows::{destruction, ledger, platform, scheduling::admission};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/lists").join(name)
}

/// Returns the first line in which two texts differ, with both versions.
fn first_difference(golden: &str, actual: &str) -> Option<String> {
    let (mut golden, mut actual) = (golden.lines(), actual.lines());
    for number in 1.. {
        match (golden.next(), actual.next()) {
            (None, None) => return None,
            (golden, actual) if golden == actual => {}
            (golden, actual) => {
                let shown = |line: Option<&str>| line.unwrap_or("(end of the list)").to_owned();
                return Some(format!(
                    "line {number}\n  golden: {}\n  actual: {}",
                    shown(golden),
                    shown(actual)
                ));
            }
        }
    }
    None
}

/// Fails unless the golden file `name` is `actual`; with `TENURE_BLESS=1` it is written.
fn compare(name: &str, actual: &str) {
    let path = file(name);
    if std::env::var_os("TENURE_BLESS").is_some() {
        return fs::write(path, actual).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if let Some(difference) = first_difference(&golden, actual) {
        panic!(
            "golden/lists/{name} differs at {difference}\nIf the change is intended, run the test with TENURE_BLESS=1."
        );
    }
}

/// The value with the fields of every object in alphabetical order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(Map::from_iter(fields))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        plain => plain,
    }
}

#[test]
fn the_first_difference_is_shown_with_its_line() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    let changed = first_difference("a\nb\n", "a\nc\n").unwrap();
    assert_eq!(changed, "line 2\n  golden: b\n  actual: c");
    let shorter = first_difference("a\nb\n", "a\n").unwrap();
    assert_eq!(shorter, "line 2\n  golden: b\n  actual: (end of the list)");
}

#[test]
fn the_openapi_document_matches_the_golden_file() {
    let document = serde_json::to_string_pretty(&sorted(api::openapi())).unwrap();
    compare("openapi.json", &(document + "\n"));
}

/// Codes of problems with their status, codes of failures as executions keep them, and exit codes of the program.
#[test]
fn the_codes_match_the_golden_list() {
    let mut list = String::new();
    for (code, status, ..) in api::codes() {
        writeln!(list, "problem {code} {status}").unwrap();
    }
    let failures = [
        ("actuators", platform::codes::ALL),
        ("admission", admission::codes::ALL),
        ("destruction", destruction::codes::ALL),
        ("ledger", ledger::codes::ALL),
    ];
    for (area, codes) in failures {
        for (code, _) in codes {
            writeln!(list, "failure {area} {code}").unwrap();
        }
    }
    for code in program::exit::exits() {
        writeln!(list, "exit {code}").unwrap();
    }
    compare("codes.txt", &list);
}

/// Every command with its own options, and below them the options that every command takes.
#[test]
fn the_commands_and_their_options_match_the_golden_list() {
    let mut list: String = cli::commands().into_iter().map(|(usage, _)| usage + "\n").collect();
    let dir = tempfile::tempdir().unwrap();
    let help = Ran::of(tenure(dir.path()).arg("--help"));
    assert_eq!(help.exit, 0, "{help:?}");
    let options: BTreeSet<_> = help.out.lines().filter_map(option).collect();
    assert!(options.len() > 5, "{help:?}");
    for option in options {
        writeln!(list, "every command: {option}").unwrap();
    }
    compare("commands.txt", &list);
}

/// The option that a line of a help text begins with, without its description.
fn option(line: &str) -> Option<String> {
    let words: Vec<_> = line.split_whitespace().collect();
    let named = words.iter().position(|word| word.starts_with("--"))?;
    if named > 1 || (named == 1 && !words[0].starts_with('-')) {
        return None;
    }
    let value = words.get(named + 1).filter(|word| word.starts_with('<') || word.starts_with("[<"));
    let shown = words[..=named].iter().chain(value);
    Some(shown.copied().collect::<Vec<_>>().join(" "))
}

/// A server with data for every metric without TLS: an onboarding, a loan, a queued execution, and a channel.
async fn busy() -> Served {
    let served = Served::start_with(&[
        ("TENURE_SIMULATED_OBSERVE", "false"),
        ("TENURE_NOTIFY_URL", "http://127.0.0.1:9/"),
    ]);
    let imported = served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    assert_eq!(imported.status, 200, "{}", imported.body);
    let id = served.onboard(&shared("acme")).await;
    assert_eq!(served.ended(&id).await["reason"], "completed");
    seen(&served, "acme").await;
    let workload = json!({
        "tenant": "acme", "workspace": "research", "name": "sweep", "requests": { "gpu/H100": 8 },
    });
    let admitted = served.json_as(&served.admin, "/v1/workloads", workload).await;
    assert_eq!(admitted.body["answer"], "admit", "{}", admitted.body);
    for name in ["beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"] {
        let id = served.onboard(&small(name)).await;
        assert_eq!(served.ended(&id).await["reason"], "completed");
    }
    let queued = served.onboard(&small("iota")).await;
    served.until(&queued, |item| item["state"] == "Waitlisted").await;
    served
}

/// The names, types and labels of all metrics, as a server that has been used shows them.
fn metrics(text: &str) -> String {
    let mut list = BTreeSet::new();
    let mut family = String::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            typed.clone_into(&mut family);
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let series = line.split(" # ").next().unwrap();
        let labels =
            series.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(l, _)| l);
        let mut names: Vec<_> = labels.split("\",").filter_map(|label| label.split_once('=')).collect();
        names.retain(|(name, _)| *name != "le");
        names.sort_unstable();
        names.dedup_by_key(|(name, _)| *name);
        let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
        list.insert(format!("{family} {{{}}}\n", names.join(",")));
    }
    list.into_iter().collect()
}

#[tokio::test]
async fn the_metrics_match_the_golden_list() {
    let served = busy().await;
    let text = served.send(served.ask(reqwest::Method::GET, "/metrics")).await.body;
    compare("metrics.txt", &metrics(text.as_str().unwrap()));
}

fn table(workflow: &Diagram) -> String {
    let mut list = String::new();
    let name = &workflow.workflow;
    writeln!(list, "{name} schema {} begins {}", workflow.schema, workflow.initial).unwrap();
    for state in &workflow.states {
        let back = if state.forward_only { " forward-only" } else { "" };
        writeln!(list, "{name} state {} {}{back}", state.name, state.kind).unwrap();
        for action in &state.actions {
            writeln!(list, "{name} action {} {action}", state.name).unwrap();
        }
        for undo in &state.undos {
            writeln!(list, "{name} undo {} {undo}", state.name).unwrap();
        }
        for edge in workflow.edges.iter().filter(|edge| edge.from == state.name) {
            writeln!(list, "{name} edge {} {} -> {}", edge.from, edge.label, edge.to).unwrap();
        }
    }
    list
}

#[test]
fn the_states_actions_undos_and_edges_of_all_workflows_match_the_golden_list() {
    let platform = simulated_platform(Arc::new(LocalWorld::new()));
    let engine = Engine::new(Arc::new(Memory::new()), Arc::new(SystemClock), platform);
    let engine = workflows::registered(engine).unwrap();
    let list: Vec<_> = engine.diagrams().iter().map(table).collect();
    compare("workflows.txt", &list.join("\n"));
}
