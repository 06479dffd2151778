//! Checks in the sources that workflows call the functions that `policy explain` and policy examples evaluate.

use std::{collections::BTreeSet, fs, path::Path};

/// Public functions that need no caller in a workflow, each with the reason.
const WITHOUT_A_CALLER: [(&str, &str); 1] =
    [("changes", "compares settings with those that were seen; it decides nothing")];

/// Returns the Rust files below `dir` by relative path, without comments and tests.
fn sources(dir: &Path) -> Vec<(String, String)> {
    let (mut found, mut open) = (Vec::new(), vec![dir.to_path_buf()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]").next().unwrap();
                let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
                let name = path.strip_prefix(dir).unwrap().display().to_string();
                found.push((name, code.join("\n")));
            }
        }
    }
    found
}

/// Returns the public free functions of `code`.
fn public_functions(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| line.strip_prefix("pub fn ")?.split(['(', '<']).next())
}

/// Returns the names that `code` uses from `policy::decisions`.
fn from_decisions(code: &str) -> BTreeSet<&str> {
    let after = code.split("decisions::").skip(1);
    let lists = after.map(|rest| match rest.strip_prefix('{') {
        Some(list) => list.split('}').next().unwrap(),
        None => rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap(),
    });
    lists.flat_map(|list| list.split(',').map(str::trim)).collect()
}

/// Returns true if `code` calls `name` as a function.
fn calls(code: &str, name: &str) -> bool {
    let call = format!("{name}(");
    code.match_indices(&call).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !['_', '.'].contains(&c))
            && !code[..at].ends_with("fn ")
    })
}

/// S-66, S-69.
#[test]
fn every_decision_of_policy_is_called_by_a_workflow() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let decisions: BTreeSet<String> = sources(&src.join("policy/decisions"))
        .iter()
        .flat_map(|(_, code)| public_functions(code).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let workflows: Vec<_> = sources(&src)
        .into_iter()
        .filter(|(path, _)| !path.starts_with("policy/") && !path.starts_with("tests/"))
        .collect();
    assert!(decisions.len() > 15 && workflows.len() > 100, "{decisions:?}, {} files", workflows.len());

    let is_called = |name: &str| {
        workflows.iter().any(|(_, code)| from_decisions(code).contains(name) && calls(code, name))
    };
    let uncalled: BTreeSet<&str> =
        decisions.iter().map(String::as_str).filter(|name| !is_called(name)).collect();

    assert_eq!(
        uncalled,
        WITHOUT_A_CALLER.map(|(name, _)| name).into(),
        "decisions that no workflow asks for"
    );
}

#[test]
fn a_decision_that_is_only_declared_imported_or_mentioned_does_not_count_as_called() {
    let caller =
        "use crate::policy::decisions::{Borrower, isolation};\nlet apart = isolation(&facts, policy);";
    assert!(from_decisions(caller).contains("isolation") && calls(caller, "isolation"));
    assert!(!from_decisions("fn isolation() {}").contains("isolation"));
    for other in [
        "use policy::decisions::isolation;",
        "fn isolation(of: u8) {}",
        "keys.isolation(1)",
        "my_isolation(1)",
    ] {
        assert!(!calls(other, "isolation"), "{other}");
    }
    let declared: Vec<_> =
        public_functions("pub fn a(x: u8)\n    pub fn b(&self)\nfn c()\npub fn d<T>()").collect();
    assert_eq!(declared, ["a", "d"]);
}
