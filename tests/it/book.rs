//! The pages: all of them are in the book, every link resolves, and every command exists.

use crate::typed::{blocks, choices, commands, named};
use cli::Reading;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every page below `dir`, as a path from the repository's top.
fn pages(dir: &str) -> BTreeSet<PathBuf> {
    let (mut found, mut open) = (BTreeSet::new(), vec![PathBuf::from(dir)]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(root().join(&dir)).unwrap() {
            let path = dir.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.insert(path);
            }
        }
    }
    found
}

/// Returns the lines of a page outside code blocks.
fn text(page: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Returns the link targets of a page, as written; code is ignored.
fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text(page) {
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
        let mut rest = plain.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let (target, after) = after.split_once(')').unwrap_or_else(|| panic!("{line}"));
            found.push(target.to_owned());
            rest = after;
        }
    }
    found
}

/// Returns the anchor of a heading, as Git hosts and mdBook derive it.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the text of a heading, without the addresses of its links.
fn read_aloud(heading: &str) -> String {
    let mut said = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        said.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    said + rest
}

/// Returns the anchors of a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let (mut found, mut times) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    for line in text(page) {
        if let Some(heading) = line.strip_prefix('#') {
            let name = slug(read_aloud(heading.trim_start_matches('#')).trim());
            let time = times.entry(name.clone()).or_default();
            found.insert(if *time == 0 { name } else { format!("{name}-{time}") });
            *time += 1;
        }
        for part in line.split("<a id=\"").skip(1) {
            found.insert(part.split('"').next().unwrap().to_owned());
        }
    }
    found
}

/// Returns `path` without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(plain.pop(), "{} leads out", path.display()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let summary = read(Path::new("docs/SUMMARY.md"));
    let listed: Vec<_> = links(&summary).iter().map(|link| Path::new("docs").join(link)).collect();

    let all: BTreeSet<_> = pages("docs")
        .into_iter()
        .filter(|page| !page.starts_with("docs/examples") && !page.ends_with("SUMMARY.md"))
        .collect();

    let once: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice");
    assert_eq!(once, all);
}

#[test]
fn every_link_in_the_documentation_resolves() {
    let mut all = pages("docs");
    all.insert("README.md".into());
    let (mut followed, mut broken) = (0, Vec::new());

    for page in &all {
        for link in links(&read(page)) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(f, a)| (f, Some(a)));
            let target = if file.is_empty() { page.clone() } else { plain(&page.with_file_name(file)) };
            let there = root().join(&target).exists();
            let named = || anchor.is_none_or(|anchor| anchors(&read(&target)).contains(anchor));
            if !there || !named() {
                broken.push(format!("{}: {link}", page.display()));
            }
            followed += 1;
        }
    }

    assert!(followed > 250, "{followed}");
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Placeholder words, with an example value; every other word is taken literally.
const MEANT: [(&str, &str); 6] = [
    ("KIND", "executions"),
    ("N", "1"),
    ("N/s", "1/s"),
    ("ROLE", "admin"),
    ("SHELL", "bash"),
    ("SPAN", "5s"),
];

/// Text that looks like a command and is not, with its meaning.
const OTHERS: [(&str, &str); 5] = [
    ("tenure audit checkpoint 1", "what is signed begins with it"),
    ("tenure audit entry 1", "what is hashed begins with it"),
    ("tenure audit head 1", "what is hashed begins with it"),
    ("tenure sweep schedules", "what an earlier version had"),
    ("tenure workload|workspaces|quotas|loans|reservations", "commands that begin so, of an earlier version"),
];

fn meant(words: &[String]) -> Vec<String> {
    let is = |word: &String| MEANT.iter().find(|(named, _)| named == word).map(|(_, is)| (*is).to_owned());
    words.iter().map(|word| is(word).unwrap_or_else(|| word.clone())).collect()
}

#[test]
fn every_command_in_the_documentation_is_valid() {
    let mut all = pages("docs");
    all.insert("README.md".into());
    let (mut tried, mut wrong) = (0, Vec::new());
    for page in &all {
        let text = read(page);
        let mut judge = |line: usize, said: &str, words: &[String], whole: bool| {
            tried += 1;
            let why = match cli::reads(&meant(words)) {
                Reading::Whole => return,
                Reading::Lacks(_) if !whole => return,
                Reading::Lacks(why) | Reading::Wrong(why) => why,
            };
            wrong.push(format!("{}:{line}: {said}: {why}", page.display()));
        };
        for (_, typed) in blocks(&text) {
            for words in commands(&typed.text) {
                judge(typed.line, &typed.text, &words, true);
            }
        }
        // A sentence may name only the beginning of a command.
        for typed in named(&text).iter().filter(|typed| !OTHERS.iter().any(|(other, _)| *other == typed.text))
        {
            for words in choices(&typed.text) {
                judge(typed.line, &typed.text, &words, false);
            }
        }
    }
    assert!(tried > 300, "{tried}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
