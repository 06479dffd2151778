//! The page of requirements: no row is missing, and every named test exists.

use std::{
    fs,
    path::{Path, PathBuf},
};

const ROWS: usize = 140;

fn read(path: &str) -> Option<String> {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)).ok()
}

fn page() -> String {
    read("../docs/evidence/requirements.md").unwrap()
}

/// Returns row and answer of each line of the table.
fn rows(page: &str) -> Vec<(&str, &str)> {
    let lines = page.lines().filter(|line| line.starts_with("| S-"));
    let cells = lines.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 3, "{line}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{line}");
        (cells[0], cells[2])
    });
    cells.collect()
}

/// Returns the tests that an answer names.
fn named(answer: &str) -> Vec<&str> {
    answer.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect()
}

/// A module is a file, or the `mod.rs` of a folder, here or in the end-to-end tests.
fn exists(test: &str) -> bool {
    let (module, name) = test.rsplit_once("::").unwrap();
    let module = module.replace("::", "/");
    let files =
        ["it", "e2e/it"].map(|tests| [format!("{tests}/{module}.rs"), format!("{tests}/{module}/mod.rs")]);
    let function = format!("fn {name}(");
    files.as_flattened().iter().filter_map(|file| read(file)).any(|source| source.contains(&function))
}

#[test]
fn every_row_of_the_requirements_is_listed_once() {
    let page = page();

    let answered: Vec<_> = rows(&page).into_iter().map(|(row, _)| row.to_owned()).collect();

    let expected: Vec<_> = (1..=ROWS).map(|number| format!("S-{number}")).collect();
    assert_eq!(answered, expected);
}

#[test]
fn every_named_test_exists() {
    let page = page();
    let rows = rows(&page);
    assert_eq!(rows.len(), ROWS);
    let mut seen = 0;
    for (row, answer) in rows {
        let tests = named(answer);
        seen += tests.len();
        assert_eq!(
            tests.is_empty(),
            answer.starts_with("not yet: "),
            "{row} names a test, or why there is none"
        );
        for test in tests {
            assert!(exists(test), "{row} names {test}, which does not exist");
        }
    }
    assert!(seen > ROWS, "only {seen} tests are named");
    let misnamed = "tenancy::histories::no_test_has_this_name";
    assert!(!exists(misnamed) && !exists("no_such_module::every_row_of_the_requirements_is_listed_once"));
}

#[test]
fn the_counts_match_the_rows() {
    let page = page();
    let rows = rows(&page);
    let beginning = |word: &str| rows.iter().filter(|(_, answer)| answer.starts_with(word)).count();
    let (part, open) = (beginning("in part: "), beginning("not yet: "));

    let met = rows.len() - part - open;

    let count = format!("Of {ROWS} rows {met} are met, {part} in part, {open} not yet.");
    assert!(page.ends_with(&format!("\n{count}\n")), "{count}");
}

/// Every scenario has an existing test with its id in a comment.
#[test]
fn every_scenario_in_the_docs_has_a_test_that_carries_its_id() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/evidence/reliability.md")).unwrap();
    let rows: Vec<Vec<&str>> =
        page.lines().filter(|line| line.starts_with("| S")).map(|line| line.split(" | ").collect()).collect();
    assert_eq!(rows.len(), 48);
    for row in rows {
        let id = row[0].trim_start_matches("| ");
        for test in row[2].trim_end_matches(" |").split("<br>") {
            let [file, name] = test.split(' ').map(|word| word.trim_matches('`')).collect::<Vec<_>>()[..]
            else {
                panic!("{id}: {test}")
            };
            let text =
                fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{id}: {file}: {error}"));
            let before = text.split(&format!("fn {name}(")).next().unwrap();
            assert!(before.len() < text.len(), "{id}: {file} has no test {name}");
            let comment = before.rsplit("\n\n").next().unwrap();
            assert!(comment.contains(id), "{id}: the comment of {name} lacks it");
        }
    }
}
