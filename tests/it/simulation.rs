//! The whole engine under many seeds: see `tests/simulation`. `.ci/run` runs a thousand; the long run is `soak`.

use simulation::{
    Case, disk, mutate, play,
    report::{Wanted, command, parse, play_many, tell},
    trouble::Trouble,
};
use std::collections::BTreeSet;
use strum::VariantArray as _;

/// S01, S03, S05, S07, S08, S09, S10, S11, S23, S25, S28, S30, S38, S39, S40, S46, S47, S54: nodes die around commits and return
/// under old names and new ones, answers get lost, clocks jump. Every request becomes one execution, and each ends correctly.
#[test]
fn days_with_faults_violate_no_invariant() {
    let sum = play_many(1, 60, |_| vec![]);

    println!("{sum}");
    assert_eq!(sum.failed, None);
    assert!(sum.troubles > 500 && sum.events > 5_000, "{sum}");
}

#[test]
fn the_same_seed_gives_the_same_day() {
    for seed in [3, 14, 159] {
        let (one, other) = (play(&Case::of(seed)), play(&Case::of(seed)));

        assert_eq!(one.history, other.history, "seed {seed}");
        assert_ne!(one.history, play(&Case::of(seed + 1)).history);
    }
}

#[test]
fn a_day_without_faults_has_no_violation() {
    let without: BTreeSet<Trouble> = Trouble::VARIANTS.iter().copied().collect();

    let verdict = play(&Case { without, ..Case::of(7) });

    assert_eq!((verdict.troubles, verdict.broken), (0, vec![]));
}

#[test]
fn a_failing_day_prints_the_command_that_replays_it() {
    let mut verdict = play(&Case { upto: 9, ..Case::of(5) });
    verdict.broken.push("made up".into());

    let told = tell(verdict);

    let again = told.lines().last().unwrap().strip_prefix("play it again: ").unwrap();
    assert!(told.starts_with("seed 5 breaks a law: made up"), "{told}");
    let arguments = again.split(' ').skip_while(|word| *word != "--").skip(1).map(str::to_owned);
    let Ok(Wanted::One(case)) = parse(arguments) else { panic!("{again}") };
    assert_eq!(command(&case), again);
}

#[test]
fn an_invalid_argument_is_refused_with_the_valid_ones() {
    let wrong = |words: &[&str]| parse(words.iter().map(|word| (*word).to_owned())).unwrap_err();

    assert!(wrong(&["--seed", "1", "--without", "rain"]).contains("crash_before"));
    assert!(wrong(&["--sead", "1"]).contains("--seeds N"));
    assert_eq!(wrong(&["--seeds", "many"]), "--seeds: \"many\" is not a number");
}

/// An acknowledged commit is on disk: the power is cut right afterwards.
#[test]
fn acknowledged_commits_survive_a_power_cut() {
    for seed in 0..8 {
        assert_eq!(disk::cut_power(seed), Vec::<String>::new(), "seed {seed}");
    }
}

/// The list of mutations matches the code: each can still be applied and changes something.
#[test]
fn every_mutation_can_still_be_made() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let list = std::fs::read_to_string(root.join("tests/simulation/mutations.txt")).unwrap();
    let mutations = mutate::parse(&list).unwrap();
    assert!(mutations.len() >= 10, "{} mutations were read", mutations.len());
    for mutation in mutations {
        assert!(!mutation.hunks.is_empty(), "{} names no file", mutation.name);
        for (file, old, new) in &mutation.hunks {
            assert!(!old.is_empty() && old != new, "{}: {file} is not changed", mutation.name);
        }
        let copy = tempfile::tempdir().unwrap();
        for (file, ..) in &mutation.hunks {
            let to = copy.path().join(file);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(root.join(file), to).unwrap();
        }
        assert_eq!(mutation.apply(copy.path()), Ok(()));
    }
}
