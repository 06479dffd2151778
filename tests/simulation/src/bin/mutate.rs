//! Breaks the engine in every way that `mutations.txt` lists and prints how soon the simulation detects it: `cargo run
//! -p simulation --bin mutate [-- --only NAME] [--seeds 200]`.
//!
//! The sources are copied to `target/mutants` first; the originals are not changed.

use simulation::mutate::{parse, try_one};
use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1).cloned()
    };
    let seeds = value("--seeds")
        .map_or(Ok(200), |text| text.parse().map_err(|_| format!("--seeds {text}: not a number")))?;
    let only = value("--only");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list =
        std::fs::read_to_string(root.join("tests/simulation/mutations.txt")).map_err(|e| e.to_string())?;
    let copy = root.join("target/mutants/source");
    let target = root.join("target/mutants/build");
    let mut all = true;
    println!("{:<30} {:>10}  {:>7}  what broke", "mutation", "seed", "seconds");
    for mutation in parse(&list)? {
        if only.as_ref().is_some_and(|only| *only != mutation.name) {
            continue;
        }
        refresh(&root, &copy)?;
        mutation.apply(&copy)?;
        let outcome = try_one(&mutation, &copy, &target, seeds)?;
        let (seed, law) = match &outcome.caught {
            Some((seed, law)) => (seed.to_string(), law.as_str()),
            None => ("NOT CAUGHT".into(), "-"),
        };
        all &= outcome.caught.is_some();
        println!("{:<30} {seed:>10}  {:>7.1}  {law}", outcome.name, outcome.took.as_secs_f64());
    }
    Ok(all)
}

/// Copies the files that git knows in `root`, with their content in the work tree, to `copy`.
fn refresh(root: &Path, copy: &PathBuf) -> Result<(), String> {
    std::fs::create_dir_all(copy).map_err(|error| error.to_string())?;
    let script = "git ls-files -z | tar --null -T - -cf - | tar -xf - -C \"$1\"";
    let done = Command::new("sh").args(["-c", script, "sh"]).arg(copy).current_dir(root).status();
    match done {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the sources could not be copied: {status}")),
        Err(error) => Err(error.to_string()),
    }
}
