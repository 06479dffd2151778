//! Which module may use which, read from the sources.

mod circles;
mod composite_keys;
mod modules;
mod sizes;

use circles::circles;
use modules::Modules;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Returns every Rust file below `dir` with its code, without comments and tests.
pub(crate) fn sources(dir: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(dir)];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            // Test code is not shipped.
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

/// The input of an actuator is already resolved (S-71): it reads neither policy nor the account, and starts nothing.
#[test]
fn no_backend_reads_policy_or_the_ledger() {
    for dir in ["workflows/src/platform", "workflows/backends/src"] {
        for (path, code) in sources(dir) {
            for forbidden in ["policy::", "admission::", "View", "LedgerAction", "PlatformPolicy", "Cohort::"]
            {
                let word = |at: usize| {
                    code[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_')
                };
                let used = code.match_indices(forbidden).any(|(at, _)| word(at));
                assert!(!used, "{path} names {forbidden}");
            }
        }
    }
}

/// Planned GPUs never become observed ones: only code that reads a cluster's answer or facts creates observations.
#[test]
fn only_code_that_reads_observations_creates_observed_gpus() {
    const LOOKS: [&str; 5] = [
        "workflows/backends/src/kubernetes/workloads/observed.rs",
        "workflows/backends/src/simulated/capabilities/workloads.rs",
        "workflows/backends/src/slurm/jobs.rs",
        // Facts from a cluster, and an example for diagrams.
        "workflows/src/reclaim/planning.rs",
        "workflows/src/reclaim/eviction/examples.rs",
    ];
    let mut makers: BTreeSet<&&str> = BTreeSet::new();
    for dir in
        ["workflows/src", "workflows/backends/src", "workflows/simulator/src", "api/src", "api/cli/src"]
    {
        for (path, code) in sources(dir) {
            let maker = LOOKS.iter().find(|allowed| path.ends_with(*allowed));
            makers.extend(maker.filter(|_| code.contains("ObservedGpus::reported(")));
            let outside = maker.is_none() && code.contains("ObservedGpus::reported(");
            assert!(!outside, "{path} creates observed GPUs: only a backend's answer or a fact may");
            let both = code.contains("ObservedGpus::reported(") && code.contains(".as_set()");
            assert!(!both, "{path} reads planned GPUs and creates observed ones");
        }
    }
    assert_eq!(makers.len(), LOOKS.len(), "{makers:?}");
}

/// Sales and promises are decided in higher layers (S-99): the engine and the store see tenants only as labels.
#[test]
fn engine_and_store_contain_no_tiers_quotas_or_gpus() {
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
                assert!(!used, "{path} names {forbidden}");
            }
        }
    }
}

/// The crates, from the lowest to the highest, with the size limit of their file cycles.
const CRATES: [(&str, usize); 9] = [
    ("store", 8),
    ("engine", 12),
    ("workflows", 8),
    ("workflows/backends", 8),
    ("workflows/simulator", 8),
    ("api/program", 8),
    ("api/agent", 8),
    ("api", 8),
    ("api/cli", 8),
];

/// Returns the folder that a file belongs to: that of its own name if it exists, else its parent. A file at the top of
/// a crate is its own folder.
fn folder<'a>(file: &'a str, files: &BTreeSet<String>) -> &'a str {
    let stem = file.strip_suffix(".rs").unwrap();
    if files.iter().any(|other| other.strip_prefix(stem).is_some_and(|rest| rest.starts_with('/'))) {
        return stem;
    }
    file.rsplit_once('/').map_or(file, |(folder, _)| folder)
}

/// Returns the two sibling folders between which a dependency leads.
fn side_by_side<'a>(from: &'a str, to: &'a str) -> Option<(&'a str, &'a str)> {
    let cut =
        |path: &'a str, at: usize| path.match_indices('/').nth(at).map_or(path, |(end, _)| &path[..end]);
    let common = from.split('/').zip(to.split('/')).take_while(|(a, b)| a == b).count();
    let inside = common == from.split('/').count() || common == to.split('/').count();
    (!inside).then(|| (cut(from, common), cut(to, common)))
}

/// Folders depend on each other in one direction only, and few files of a crate are in a cycle.
#[test]
fn no_folders_and_few_files_import_each_other_in_cycles() {
    let mut wrong = Vec::new();
    for (name, most) in CRATES {
        let modules = Modules::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name));
        let (files, dependencies) = (modules.files(), modules.dependencies());
        assert!(files.len() > 3, "{name} has files");
        let mut by_file: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut by_folder: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut ties: BTreeMap<(&str, &str), String> = BTreeMap::new();
        for (from, used) in &dependencies {
            for (to, path) in used {
                by_file.entry(from).or_default().insert(to);
                if let Some((a, b)) = side_by_side(folder(from, &files), folder(to, &files)) {
                    by_folder.entry(a).or_default().insert(b);
                    ties.entry((a, b)).or_insert_with(|| format!("{from} uses {path}"));
                }
            }
        }
        let circles_of_files = circles(&by_file);
        println!(
            "{name}: circles of {:?} files",
            circles_of_files.iter().map(BTreeSet::len).collect::<Vec<_>>()
        );
        wrong.extend(
            circles_of_files.iter().filter(|c| c.len() > most).map(|c| format!("{name}: files {c:?}")),
        );
        for circle in circles(&by_folder) {
            let inside = ties.iter().filter(|((a, b), _)| circle.contains(a) && circle.contains(b));
            wrong.push(format!(
                "{name}: folders {circle:?}: {:#?}",
                inside.map(|(_, tie)| tie).collect::<Vec<_>>()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
