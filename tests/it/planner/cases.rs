//! Cases from files: Kueue's, and our own for what Kueue's leave open.

use super::{chosen, kueue, place};
use crate::served::tenure;
use serde_json::{Value, json};
use simulator::reclaim_cases;
use std::{fs, path::Path};
use tests::preemption::{Mistake, Place, Running, State, choose, name};
use workflows::scheduling::planner::*;

/// Returns the published cases, if the file exists.
fn published() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let file =
        root.ancestors().map(|at| at.join("shared/data/kueue-preemption-cases.json")).find(|at| at.exists());
    if file.is_none() {
        println!("skipped: ../shared/data/kueue-preemption-cases.json is not there");
    }
    fs::read_to_string(file?).ok()
}

#[test]
fn every_published_case_is_answered_as_kueue_does() {
    let Some(text) = published() else { return };

    let wrong: Vec<String> = reclaim_cases::read(&text)
        .unwrap()
        .iter()
        .filter_map(|case| {
            let (expected, got) = case.check().err()?;
            Some(format!("{}: expected {expected} got {got}", case.id))
        })
        .collect();

    assert_eq!(wrong, Vec::<String>::new());
}

fn running(id: &str, at: usize, usage: &[Option<u64>], reserved_at: i64) -> Running {
    let usage = usage.to_vec();
    Running { id: id.to_owned(), at, usage, priority: 0, queued_at: 0, reserved_at, evicted: false }
}

fn asking(places: Vec<Place>, running: Vec<Running>, asks: usize, requests: &[u64]) -> State {
    State { places, running, asks, requests: requests.to_vec(), priority: 0, queued_at: 0 }
}

fn anybody(mut place: Place) -> Place {
    place.preemption.reclaim_within_cohort = PreemptPolicy::Any;
    place
}

/// A workspace that lends nothing: no loan comes from it, and its use of its own quota never counts against the cohort.
fn keeps_its_own() -> State {
    let mut keeper = place(Some(0), false, 4);
    keeper.quotas[0].as_mut().unwrap().lending_limit = Some(0);
    let places =
        vec![place(None, true, 2), anybody(place(Some(0), false, 4)), keeper, place(Some(0), false, 0)];
    // Four of six lendable GPUs are borrowed by p3. A planner that also counts the keeper's four would find room.
    let running = vec![running("b1", 3, &[Some(2)], 1), running("b2", 3, &[Some(2)], 2)];
    asking(places, running, 1, &[4])
}

/// A borrower at its limit gets no more by preemption, however much is free.
fn is_at_its_limit() -> State {
    let mut asks = anybody(place(Some(0), false, 2));
    asks.quotas[0].as_mut().unwrap().borrowing_limit = Some(2);
    asks.preemption.within_workspace = PreemptPolicy::LowerPriority;
    let places = vec![place(None, true, 0), asks, place(Some(0), false, 8)];
    let mut own = running("own", 1, &[Some(3)], 1);
    own.priority = -1;
    asking(places, vec![own], 1, &[2])
}

/// Without borrowing, two small workloads of others are victims. With borrowing only the demand's own workload could
/// be, and that is tried last.
fn stays_within_its_own_first() -> State {
    let mut asks = anybody(place(Some(0), false, 3));
    asks.preemption.within_workspace = PreemptPolicy::LowerPriority;
    let places = vec![place(None, true, 0), asks, place(Some(0), false, 1)];
    let mut own = running("own", 1, &[Some(1)], 1);
    own.priority = -1;
    asking(places, vec![own, running("other", 2, &[Some(3)], 2)], 1, &[1])
}

/// A borrower's workload without the requested resource is spared, although it is the most recent.
fn frees_only_what_is_asked_for() -> State {
    let two = |nominal, cohort: bool, parent| {
        let mut place = place(parent, cohort, nominal);
        place.quotas.push(place.quotas[0]);
        place
    };
    let places = vec![two(0, true, None), anybody(two(2, false, Some(0))), two(1, false, Some(0))];
    let of_one = running("gpus", 2, &[Some(3), None], 1);
    let of_other = running("cpus", 2, &[None, Some(1)], 2);
    asking(places, vec![of_one, of_other], 1, &[2, 0])
}

/// A second level: the demand's division owns what another division's workspaces use.
fn goes_up_the_tree() -> State {
    let places = vec![
        place(None, true, 0),
        place(Some(0), true, 4),
        place(Some(0), true, 2),
        anybody(place(Some(1), false, 0)),
        place(Some(2), false, 0),
        place(Some(2), false, 2),
    ];
    let running = vec![
        running("within", 5, &[Some(2)], 3),
        running("old", 4, &[Some(2)], 1),
        running("new", 4, &[Some(2)], 2),
    ];
    asking(places, running, 3, &[2])
}

fn takes_from_who_has_most() -> State {
    let mut heavy = place(Some(0), false, 1);
    heavy.weight = 3_000_000_000;
    let places =
        vec![place(None, true, 6), anybody(place(Some(0), false, 1)), heavy, place(Some(0), false, 1)];
    let mut all: Vec<Running> = (0..4).map(|n| running(&format!("heavy-{n}"), 2, &[Some(1)], n)).collect();
    all.extend((0..5).map(|n| running(&format!("light-{n}"), 3, &[Some(1)], n)));
    asking(places, all, 1, &[2])
}

type Own = (&'static str, Mistake, fn() -> State, bool);

/// Our own cases, and the mistake that each detects.
const OWN: [Own; 6] = [
    ("a lending limit keeps quota from being lent", Mistake::NoLendingLimit, keeps_its_own, false),
    ("a borrowing limit holds for preemption too", Mistake::NoBorrowingLimit, is_at_its_limit, false),
    (
        "staying within its own is tried before borrowing",
        Mistake::SwappedAttempts,
        stays_within_its_own_first,
        false,
    ),
    ("only what uses a contested kind gives way", Mistake::AnyKind, frees_only_what_is_asked_for, false),
    ("what a cohort owns is taken back from another", Mistake::None, goes_up_the_tree, false),
    ("whoever has most for its weight gives way", Mistake::None, takes_from_who_has_most, true),
];

fn algorithm(fair: bool) -> Algorithm {
    if fair { Algorithm::fair() } else { Algorithm::Classical }
}

/// Covers what Kueue's own cases leave open: lending limit, borrowing limit, order of attempts, contested kinds.
#[test]
fn our_own_cases_have_the_plans_of_the_reference_planner() {
    for (title, _, state, fair) in OWN {
        let (state, settings) = (state(), kueue(algorithm(fair)));
        let right = choose(&state, &settings, Mistake::None);

        let ours = chosen(&state, &settings);

        let expected: Vec<_> = right.iter().map(|(id, why)| (id.clone(), (*why).to_owned())).collect();
        assert_eq!(ours, expected, "{title}");
    }
}

fn quotas(state: &State, at: usize) -> Value {
    let kinds = tests::preemption::kinds(state.requests.len());
    let quotas = kinds.iter().zip(&state.places[at].quotas);
    quotas.filter_map(|(kind, quota)| quota.map(|quota| (kind.to_string(), json!(quota)))).collect()
}

fn amounts(state: &State, amounts: &[Option<u64>]) -> Value {
    let kinds = tests::preemption::kinds(state.requests.len());
    let held =
        kinds.iter().zip(amounts).filter_map(|(kind, amount)| amount.map(|a| (kind.to_string(), json!(a))));
    held.collect()
}

fn written(title: &str, state: &State, fair: bool) -> Value {
    let above = |place: &Place| place.parent.map(name);
    #[allow(clippy::cast_precision_loss, reason = "weights here are small")]
    let weight = |place: &Place| place.weight as f64 / 1e9;
    let (mut cohorts, mut workspaces) = (Vec::new(), Vec::new());
    for (at, place) in state.places.iter().enumerate() {
        if place.cohort {
            cohorts.push(json!({ "name": name(at), "parent": above(place), "fair_weight": weight(place),
                                 "quotas": quotas(state, at) }));
        } else {
            let policies = &place.preemption;
            workspaces.push(json!({ "name": name(at), "cohort": above(place), "fair_weight": weight(place),
                "preemption": { "within_cluster_queue": policies.within_workspace,
                                "reclaim_within_cohort": policies.reclaim_within_cohort },
                "quotas": quotas(state, at) }));
        }
    }
    let running = state.running.iter().map(|load| {
        json!({ "name": load.id, "cluster_queue": name(load.at), "priority": load.priority,
                "usage": amounts(state, &load.usage), "quota_reserved_at": load.reserved_at })
    });
    let asked: Vec<Option<u64>> =
        state.requests.iter().map(|amount| (*amount > 0).then_some(*amount)).collect();
    let contested: Vec<Option<u64>> =
        (0..asked.len()).map(|kind| state.contested().contains(&kind).then_some(1)).collect();
    let modes = amounts(state, &contested);
    let modes: Value =
        modes.as_object().unwrap().keys().map(|kind| (kind.clone(), json!("Preempt"))).collect();
    let settings = kueue(algorithm(fair));
    let victims = choose(state, &settings, Mistake::None);
    let want: Vec<Value> = victims.iter().map(|(id, why)| json!({ "name": id, "reason": why })).collect();
    json!({ "id": title, "algorithm": if fair { "fair" } else { "classical" }, "cohorts": cohorts,
            "cluster_queues": workspaces, "admitted": running.collect::<Vec<_>>(),
            "incoming": { "cluster_queue": name(state.asks), "priority": state.priority,
                          "requests": amounts(state, &asked) },
            "assignment_modes": modes, "want_preempted": want, "want_count": want.len() })
}

fn example() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/reclaim-cases.json")
}

/// Run with `BLESS=1` to write the file from the states above and the second planner's answers.
#[test]
fn the_example_file_is_generated_from_our_own_cases() {
    let cases: Vec<Value> =
        OWN.iter().map(|(title, _, state, fair)| written(title, &state(), *fair)).collect();
    let mut whole = json!({ "cases": cases });
    whole.sort_all_objects();
    let text = serde_json::to_string_pretty(&whole).unwrap() + "\n";
    if std::env::var_os("BLESS").is_some() {
        fs::write(example(), &text).unwrap();
    }
    assert_eq!(fs::read_to_string(example()).unwrap(), text, "run with BLESS=1");
}

#[derive(Debug)]
struct Ran {
    exit: i32,
    out: String,
    err: String,
}

/// Runs `tenure reclaim cases` without a server.
fn compare(text: &str) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cases.json");
    fs::write(&file, text).unwrap();
    let ran = tenure(dir.path()).args(["reclaim", "cases"]).arg(file).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { exit: ran.status.code().unwrap(), out: text(ran.stdout), err: text(ran.stderr) }
}

#[test]
fn the_cases_of_the_example_pass_on_the_command_line() {
    let ran = compare(&fs::read_to_string(example()).unwrap());

    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(ran.out.ends_with("6 passed, 0 failed\n"), "{}", ran.out);
}

#[test]
fn a_failing_case_is_reported_and_fails_the_command() {
    let mut whole: Value = serde_json::from_str(&fs::read_to_string(example()).unwrap()).unwrap();
    whole["cases"][2]["want_preempted"][0]["name"] = json!("somebody");

    let ran = compare(&whole.to_string());

    assert_eq!(ran.exit, 1);
    let line = "WRONG expected somebody InCohortReclamation got other InCohortReclamation";
    assert!(ran.out.contains(line), "{ran:?}");
    assert!(ran.out.ends_with("5 passed, 1 failed\n"), "{}", ran.out);
}

/// Every required key in turn is removed or replaced.
#[test]
fn an_invalid_file_is_refused_with_the_case_and_the_key() {
    let whole: Value = serde_json::from_str(&fs::read_to_string(example()).unwrap()).unwrap();
    let id = whole["cases"][0]["id"].as_str().unwrap().to_owned();
    let required = [
        "algorithm",
        "cohorts",
        "cluster_queues",
        "admitted",
        "incoming",
        "assignment_modes",
        "want_preempted",
        "want_count",
    ];
    for key in required {
        for value in [Value::Null, json!({ "no": 1 }), json!(-1), json!("nothing"), json!([[]])] {
            let mut broken = whole.clone();
            broken["cases"][0][key] = value.clone();
            if key == "assignment_modes" && value == json!([[]]) || value == whole["cases"][0][key] {
                continue;
            }
            let error = reclaim_cases::read(&broken.to_string()).unwrap_err();
            assert_eq!(error.case, id, "{key} {value}: {error}");
            assert!(error.key.starts_with(key), "{key} {value}: {error}");
        }
    }
    for text in ["", "[", "3", "[3]", "[{}]", "{\"cases\": 1}", "null"] {
        assert!(reclaim_cases::read(text).is_err(), "{text}");
    }
    let ran = compare("[{\"id\": \"c-1\"}]");
    assert_eq!(ran.exit, 1);
    assert!(ran.err.contains("case c-1: cohorts: is missing"), "{ran:?}");
}

/// Cohorts may be listed in any order; a cycle is found.
#[test]
fn nested_cohorts_are_refused() {
    let case = json!([{ "id": "c-1", "cohorts": [
        { "name": "a", "parent": "b" }, { "name": "b", "parent": "a" }, { "name": "c", "parent": null }] }]);

    let error = reclaim_cases::read(&case.to_string()).unwrap_err();

    assert_eq!(error.to_string(), "case c-1: cohorts: a, b are above one another in a circle");
}
