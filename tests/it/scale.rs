//! The model of many nodes on one database (`tests/simulation/src/scale`), scaled down: its laws hold, and detect defects. The
//! large run is `cargo run --release -p simulation --bin scale`.

use simulation::scale::{Broken, Design, Size, costs::Costs, parse, run};

/// Twenty nodes, twenty thousand executions, three minutes with all faults.
fn small() -> Size {
    Size { nodes: 20, executions: 20_000, minutes: 3, tenants: 20, rate: 30, herd: 4_000, ..Size::large() }
}

/// Nodes die at once, others pause for longer than a lease, and the database pauses for a lease. Nothing is lost, and
/// no task has two leases. Late writes are refused, and other nodes continue within a lease and five seconds.
#[test]
fn twenty_nodes_keep_the_invariants_through_every_fault() {
    let told = run(&small());

    println!("{told}");
    assert_eq!((&told.broken[..], told.broken_count), (&[][..], 0));
    assert!(told.died > 0 && told.refused > 0 && told.given_up > 0);
    assert!(told.takeovers.total() > 2 && told.made > 10_000);
}

/// The proposed way to look for work keeps the same laws.
#[test]
fn the_proposed_way_to_find_work_keeps_the_invariants() {
    let told = run(&Size { design: Design::PROPOSED, ..small() });

    assert_eq!((told.broken, told.broken_count), (vec![], 0));
    assert!(told.takeovers.total() > 2 && told.made > 10_000);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let told = |seed| run(&Size { seed, minutes: 1, herd: 500, ..small() }).to_string();

    assert_eq!(told(7), told(7));
    assert_ne!(told(7), told(8));
}

/// Each way to break the protocol violates a law, and the report names that law.
#[test]
fn an_intentionally_broken_protocol_violates_an_invariant() {
    let ways = [
        (Broken::EpochCheck, "was taken, and it stands under"),
        (Broken::TakeCheck, "before its lease lapsed"),
        (Broken::Lapse, "have neither task, lease nor timer"),
    ];
    for (broken, law) in ways {
        let told = run(&Size { broken, minutes: 2, herd: 500, ..small() });

        assert!(told.broken.iter().any(|told| told.contains(law)), "{broken:?}: {:?}", told.broken);
    }
}

/// One process, to which the costs of the model were fitted. `docs/evidence/scale.md` has both this case and others.
#[test]
fn the_model_agrees_with_measurements_within_50_percent() {
    // Parallel writers, and transitions a second as `cargo bench -p tests --bench capacity` printed them.
    for (writers, measured) in [(1, 532.0), (8, 1_315.0), (64, 5_262.0), (512, 9_368.0)] {
        let size = Size { nodes: 1, executions: 1, minutes: 1, writers, costs: Costs::measured(), ..small() };

        let modelled = run(&size).rate();

        let off = modelled / measured;
        assert!((0.66..1.5).contains(&off), "{writers} writers: {modelled:.0}/s, measured {measured:.0}/s");
    }
}

#[test]
fn an_invalid_argument_is_refused_with_the_valid_ones() {
    let wrong = |words: &[&str]| parse(words.iter().map(|word| (*word).to_owned())).unwrap_err();

    assert!(wrong(&["--knots", "1"]).contains("--nodes"));
    assert!(wrong(&["--nodes", "many"]).contains("is not a number"));
    assert_eq!(wrong(&["--seed"]), "--seed needs a value");
    assert!(wrong(&["--design", "other"]).contains("present, proposed"));
}
