//! The size of source files, and of folders.

use std::{collections::BTreeMap, fs, path::Path};

const MAX_LINES: usize = 400;
const MAX_MODULES: usize = 15;

/// Folders that may have more modules: registries with one file for each entry.
const REGISTRIES: [(&str, &str); 9] = [
    ("api/src/http/resources", "one file for each resource of the HTTP API"),
    ("api/cli/src/commands", "one file for each command"),
    ("workflows/src/policy/sections", "one file for each section of the policy"),
    ("store/src/conformance", "one file for each subject of the conformance cases"),
    ("store/src/tests", "one file for each subject of the tests"),
    ("engine/src/tests", "one file for each subject of the tests"),
    ("tests/it", "one file for each subject of the tests"),
    ("tests/it/engine", "one file for each subject of the tests"),
    ("tests/e2e/it/kubernetes", "one file for each subject of the tests"),
];

/// Returns every Rust file below `root` with its number of lines, by relative path. Build output and hidden folders are
/// omitted.
fn rust_files(root: &Path) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                if name != "target" && !name.starts_with('.') {
                    open.push(path);
                }
            } else if name.ends_with(".rs") {
                let lines = fs::read_to_string(&path).unwrap().lines().count();
                found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), lines);
            }
        }
    }
    found
}

fn too_long(files: &BTreeMap<String, usize>) -> Vec<String> {
    let long = files.iter().filter(|(_, lines)| **lines > MAX_LINES);
    long.map(|(file, lines)| format!("{file} has {lines} lines; split it: at most {MAX_LINES}")).collect()
}

/// Returns the number of modules in each folder: its Rust files, except the file of the folder's own module.
fn modules_by_folder(files: &BTreeMap<String, usize>) -> BTreeMap<&str, usize> {
    let mut folders = BTreeMap::new();
    for (folder, name) in files.keys().map(|file| file.rsplit_once('/').unwrap_or(("", file))) {
        let modules = folders.entry(folder).or_default();
        *modules += usize::from(!["mod.rs", "lib.rs", "main.rs"].contains(&name));
    }
    folders
}

fn too_full(folders: &BTreeMap<&str, usize>) -> Vec<String> {
    let full = folders.iter().filter(|(folder, modules)| {
        **modules > MAX_MODULES && REGISTRIES.iter().all(|(registry, _)| registry != *folder)
    });
    full.map(|(folder, modules)| {
        format!("{folder} has {modules} modules; group them in folders: at most {MAX_MODULES}")
    })
    .collect()
}

fn of_this_repository() -> BTreeMap<String, usize> {
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap())
}

#[test]
fn no_source_file_has_more_than_400_lines() {
    let files = of_this_repository();

    assert!(files.len() > 1_000, "only {} files were found", files.len());
    let wrong = too_long(&files);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_folder_has_more_than_15_modules() {
    let files = of_this_repository();
    let folders = modules_by_folder(&files);

    assert!(folders.len() > 150, "only {} folders were found", folders.len());
    let wrong = too_full(&folders);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Both limits are exact, and a file or folder above its limit is named with its count.
#[test]
fn a_file_or_folder_above_its_limit_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for (folder, modules, lines) in [("at", 15, 400), ("above", 16, 401), ("target", 20, 500)] {
        fs::create_dir_all(dir.path().join(folder)).unwrap();
        for number in 0..modules {
            let path = dir.path().join(folder).join(format!("m{number}.rs"));
            fs::write(path, if number == 0 { "\n".repeat(lines) } else { String::new() }).unwrap();
        }
        fs::write(dir.path().join(folder).join("mod.rs"), "").unwrap();
    }

    let files = rust_files(dir.path());

    assert_eq!(too_long(&files), ["above/m0.rs has 401 lines; split it: at most 400"]);
    let full = too_full(&modules_by_folder(&files));
    assert_eq!(full, ["above has 16 modules; group them in folders: at most 15"]);
}
