//! The docs list all commands, exit codes, error codes and settings.

use crate::served::{Ran, Served, generated, page, tenure};
use std::fs;

/// The README's first ten minutes, with the files that it names.
#[tokio::test]
async fn the_documented_examples_work_as_the_readme_says() {
    let served = Served::start();
    let example = |name: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples").join(name);
        path.to_str().unwrap().to_owned()
    };
    let (nodes, acme) = (example("nodes.csv"), example("acme.yaml"));
    assert_eq!(served.run(&["fleet", "import", &nodes, "--cluster", "eu-1", "--region", "eu"]).exit, 0);
    assert_eq!(served.run(&["tenant", "onboard", "-f", &acme, "--dry-run"]).exit, 0);
    assert_eq!(served.run(&["tenant", "onboard", "-f", &acme, "--wait"]).exit, 10);
    let olga = served.run(&["user", "add", "olga", "--role", "platform_ops"]).out;
    let id = served.run(&["approvals", "list", "-o", "json"]).json()[0]["id"].as_str().unwrap().to_owned();
    let approved =
        served.run(&["--token", olga.trim(), "approvals", "approve", &id, "--reason", "capacity is there"]);
    assert_eq!(approved.exit, 0, "{approved:?}");
    let execution = id.split('.').next().unwrap();
    assert_eq!(served.run(&["executions", "wait", execution, "--timeout", "20s"]).exit, 0);
}

/// Run with `BLESS=1` to write the list of commands into the page.
#[test]
fn the_documented_commands_match_the_program() {
    let line = |(command, about): (String, String)| format!("| `{command}` | {about} |\n");
    let table: String = cli::commands().into_iter().map(line).collect();
    generated("cli.md", "commands", &format!("| command | what it does |\n|---|---|\n{table}"));
}

#[test]
fn every_exit_code_is_documented() {
    let page = page("cli.md");
    for code in program::exit::exits() {
        assert!(page.contains(&format!("| {code} |")), "docs/cli.md lacks exit code {code}");
    }
}

/// Run with `BLESS=1` to write the tables into the page.
#[test]
fn the_codes_of_ledger_and_platform_are_in_the_documentation_of_operations() {
    let table = |all: &[(&str, &str)]| {
        let rows: String = all.iter().map(|(code, remedy)| format!("| `{code}` | {remedy} |\n")).collect();
        format!("| code | what to do |\n|---|---|\n{rows}")
    };
    generated("operations.md", "ledger-codes", &table(workflows::ledger::codes::ALL));
    generated("operations.md", "platform-codes", &table(workflows::platform::codes::ALL));
    generated("operations.md", "destruction-codes", &table(workflows::destruction::codes::ALL));
}

#[test]
fn every_parking_reason_is_in_the_documentation_of_operations() {
    let page = page("operations.md");
    for reason in <engine::Reason as strum::VariantArray>::VARIANTS {
        let name: &str = reason.into();
        assert!(page.contains(&format!("| `{name}` |")), "docs/operations.md lacks the reason {name}");
    }
}

/// Finds every error code in the sources, wherever it is made.
#[test]
fn every_error_code_is_in_the_documentation_of_operations() {
    let page = page("operations.md");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    let crates = [
        "engine",
        "workflows",
        "workflows/backends",
        "workflows/simulator",
        "api/program",
        "api/agent",
        "api",
        "api/cli",
    ];
    for source in crates.iter().flat_map(|name| sources(&root.join(name).join("src"))) {
        let text = fs::read_to_string(&source).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        for maker in [
            "ActionError::permanent(",
            "ActionError::transient(",
            "ActionError::unknown(",
            "ActionError::pending(",
            "no_answer(",
        ] {
            for made in text.split(maker).skip(1) {
                let Some(literal) = made.trim_start().strip_prefix('"') else { continue };
                let code = literal.split('"').next().unwrap();
                assert!(
                    page.contains(&format!("`{code}`")),
                    "{}: {code} is not in docs/operations.md",
                    source.display()
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "sources were read: {seen}");
}

fn sources(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("testing") && !path.ends_with("tests") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_setting_is_in_the_documentation_of_operations() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Ran::of(tenure(dir.path()).args(["config", "check", "-o", "json"])).json();
    let page = page("operations.md");
    for (section, value) in settings.as_object().unwrap() {
        let keys = match value.as_object() {
            Some(inner) => inner.keys().map(|key| format!("{section}.{key}")).collect(),
            None => vec![section.clone()],
        };
        for key in keys {
            let variable = format!("TENURE_{}", key.replace('.', "_").to_uppercase());
            assert!(page.contains(&format!("| `{key}` | `{variable}` |")), "docs/operations.md lacks {key}");
        }
    }
}
