//! Who may know what: read from the sources.

use std::{fs, path::Path};

/// Every Rust file below `dir`, with its code; comments and tests left out.
pub(crate) fn sources(dir: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(dir)];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            // What is tested with is not what is shipped.
            if path.ends_with("tests") {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]").next().unwrap();
                let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
                found.push((path.display().to_string(), code.join("\n")));
            }
        }
    }
    assert!(found.len() > 5, "{dir} has sources");
    found
}

/// What an actuator is given is resolved already (S-71): it reads neither policy nor the books, and starts nothing.
#[test]
fn no_actuator_reads_policy_or_the_books() {
    for dir in ["workflows/src/platform", "workflows/backends/src"] {
        for (path, code) in sources(dir) {
            for forbidden in ["policy::", "admission::", "View", "LedgerAction", "PlatformPolicy", "Cohort::"]
            {
                let word = |at: usize| code[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
                let used = code.match_indices(forbidden).any(|(at, _)| word(at));
                assert!(!used, "{path} knows of {forbidden}");
            }
        }
    }
}

/// What is sold and promised is decided above them (S-99): the engine and the store know tenants as labels alone.
#[test]
fn the_engine_and_the_store_know_nothing_of_tiers_quotas_or_gpus() {
    for dir in ["engine/src", "store/src"] {
        for (path, code) in sources(dir) {
            let code = code.to_lowercase();
            for forbidden in ["residency", "entitlement", "quota", "gpu", "tier", "privacy"] {
                let alone = |at: usize| {
                    let before = code[..at].chars().next_back();
                    let after = code[at + forbidden.len()..].chars().next();
                    [before, after].iter().all(|c| c.is_none_or(|c| !c.is_alphanumeric()))
                };
                let used = code.match_indices(forbidden).any(|(at, _)| alone(at));
                assert!(!used, "{path} knows of {forbidden}");
            }
        }
    }
}
