//! Mutation tests of the simulation: reads `mutations.txt`, applies each mutation to a copy of the sources, builds it,
//! and runs seeds until one fails.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// A mutation of the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutation {
    /// Its name.
    pub name: String,
    /// The program that must detect it.
    pub with: String,
    /// File, replaced text, and its replacement.
    pub hunks: Vec<(String, String, String)>,
}

/// Reads the list of mutations.
///
/// # Errors
/// The invalid line.
pub fn parse(text: &str) -> Result<Vec<Mutation>, String> {
    let mut all: Vec<Mutation> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("== ") {
            all.push(Mutation { name: name.into(), ..Mutation::default() });
            continue;
        }
        let last =
            all.last_mut().ok_or_else(|| format!("line {number}: a mutation begins with `== name`"))?;
        if let Some(program) = line.strip_prefix("with ") {
            last.with = program.into();
        } else if let Some(path) = line.strip_prefix("@ ") {
            last.hunks.push((path.into(), String::new(), String::new()));
        } else {
            let (_, old, new) = last.hunks.last_mut().ok_or_else(|| format!("line {number}: no file yet"))?;
            let (side, text) = line.split_at(1);
            let side = match side {
                "-" => old,
                "+" => new,
                _ => return Err(format!("line {number}: begins with `{side}`, not with `-` or `+`")),
            };
            if !side.is_empty() {
                side.push('\n');
            }
            side.push_str(text);
        }
    }
    Ok(all)
}

impl Mutation {
    /// Applies the mutation to the sources in `root`.
    ///
    /// # Errors
    /// If the replaced text does not occur exactly once: the list is older than the code.
    pub fn apply(&self, root: &Path) -> Result<(), String> {
        for (file, old, new) in &self.hunks {
            let path = root.join(file);
            let text = fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
            let found = text.matches(old.as_str()).count();
            if found != 1 {
                return Err(format!("{}: {file} has what is to be replaced {found} times", self.name));
            }
            fs::write(&path, text.replacen(old.as_str(), new, 1))
                .map_err(|error| format!("{file}: {error}"))?;
        }
        Ok(())
    }
}

/// The result of a mutation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// The first seed that detected it, and its message; `None` if none did.
    pub caught: Option<(u64, String)>,
    /// The duration of the seeds.
    pub took: Duration,
}

/// Builds the changed sources in `root` and runs `seeds` seeds.
///
/// # Errors
/// If the changed code does not build.
pub fn try_one(mutation: &Mutation, root: &Path, target: &Path, seeds: u64) -> Result<Outcome, String> {
    let package = if mutation.with == "seeds" { "simulation" } else { "tests" };
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--locked", "-p", package, "--bin", &mutation.with])
        .current_dir(root)
        .env("CARGO_TARGET_DIR", target)
        .stderr(std::process::Stdio::null())
        .status();
    if !built.map_err(|error| error.to_string())?.success() {
        return Err(format!("{}: the broken code does not build", mutation.name));
    }
    let began = Instant::now();
    let program = target.join("debug").join(&mutation.with);
    let played = Command::new(program).args(["--first", "1", "--seeds", &seeds.to_string()]).output();
    let played = played.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&played.stdout).into_owned();
    let line = said.lines().find_map(|line| line.strip_prefix("seed "));
    let caught = line.and_then(|line| {
        let (seed, law) = line.split_once(' ')?;
        Some((seed.parse().ok()?, law.trim_start_matches("breaks a law: ").to_owned()))
    });
    let noticed =
        if played.status.success() { None } else { caught.or(Some((0, "it did not end well".into()))) };
    Ok(Outcome { name: mutation.name.clone(), caught: noticed, took: began.elapsed() })
}
