//! `cargo bench -p tests --bench year -- TRACE [DAYS]`: a trace repeated to fill a year, replayed once under its policy on one core. Prints the
//! duration, and fails on any violation.

use simulator::{Baseline, Scenario, Settings, Source, any_model, read, replay_all};
use std::{env, fs, process::ExitCode, time::Instant};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let mut said = env::args().skip(1).filter(|word| word != "--bench");
    let Some(file) = said.next() else {
        eprintln!("name a trace: cargo bench -p tests --bench year -- TRACE [DAYS]");
        return ExitCode::FAILURE;
    };
    let days: f64 = said.next().map_or(365.0, |text| text.parse().expect("DAYS is a number"));
    let text = fs::read_to_string(&file).expect("the trace is there");
    let scene = match read(&text, 1).expect("a trace as docs/simulate.md says") {
        Source::Scenario(scene) => *scene,
        Source::Trace(trace) => {
            Scenario::of(&trace, None, &any_model().expect("a model")).expect("a trace that asks for GPUs")
        }
    };
    let one = scene.ends.as_secs_f64() / 86_400.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of a bench")]
    let times = (days / one).ceil().max(1.0) as u32;
    let scene = scene.repeated(times).expect("the limit for a replay");
    let load = fs::read_to_string("/proc/loadavg").expect("Linux");
    println!("load of the machine: {}", load.trim());
    let began = Instant::now();
    let outcomes = replay_all(&scene, &[Settings::of(Baseline::Lending)], &|_, _| {});
    let outcome = outcomes.into_iter().next().expect("one replay").expect("it goes to its end");
    let took = began.elapsed().as_secs_f64();
    let measures = &outcome.measures;
    println!(
        "{times} times {one:.1} days in {took:.0} s: {} demands, {} reclaims from {} victims, {} steps; {} deadlines missed, {} violations",
        measures.demands,
        measures.reclaims,
        measures.victims,
        measures.steps,
        measures.missed,
        measures.violations
    );
    for violation in outcome.violations.iter().take(10) {
        println!("{violation:?}");
    }
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
