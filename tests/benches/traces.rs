//! Replays ten thousand random worlds: `cargo bench -p tests --bench traces [-- FIRST COUNT]`.
//!
//! In each, workspaces lend and reclaim while calls fail, answers get lost and victims do not end. Prints the
//! observations; a violation ends the run and prints its world.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

#[derive(Default)]
struct Seen {
    demands: u64,
    inside: u64,
    waited: u64,
    victims: u64,
    reclaims: u64,
    missed: u64,
    unflagged: u64,
    violations: u64,
}

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let (first, count) = (numbers.first().copied().unwrap_or(1), numbers.get(1).copied().unwrap_or(10_000));
    let (next, seen, began) = (AtomicU64::new(first), Mutex::new(Seen::default()), Instant::now());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let seed = next.fetch_add(1, Ordering::Relaxed)
                    && seed < first + count
                {
                    let (text, outcome) = tests::traces::run(seed);
                    let measures = &outcome.measures;
                    if !outcome.violations.is_empty() {
                        println!("seed {seed}: {:#?}\n{text}", outcome.violations);
                    }
                    let mut seen = seen.lock().unwrap();
                    seen.demands += measures.demands;
                    seen.inside += measures.inside;
                    seen.waited += measures.owner_wait.count - measures.owner_wait.at_once;
                    seen.victims += measures.victims;
                    seen.reclaims += measures.reclaims;
                    seen.missed += measures.missed;
                    seen.unflagged += measures.unflagged;
                    seen.violations += measures.violations;
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    println!(
        "{count} worlds in {:.0} s: {} demands, {} inside a reservation, {} of them waited; {} reclaims took back from {} \
         victims; {} deadlines missed, {} of them untold; {} violations",
        began.elapsed().as_secs_f64(),
        seen.demands,
        seen.inside,
        seen.waited,
        seen.reclaims,
        seen.victims,
        seen.missed,
        seen.unflagged,
        seen.violations
    );
    assert_eq!(seen.violations, 0);
}
