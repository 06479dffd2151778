//! `cargo bench -p tests --bench sentences`: 10,000 random offboardings with faults, repairs and unusual stores, each repeated with one
//! answer withheld. Prints the number of sentences in their certificates, and the effects of the withheld answers.
//!
//! `RUNS` sets another number, `FROM` another first seed, and `WITHHELD` more withheld answers for each run.

use simulator::verification::{SentenceReport, SentenceWorlds};
use std::{env, process::ExitCode, time::Instant};

fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn print(report: &SentenceReport, begun: Instant) {
    println!(
        "{} runs in {:.0} s: {} certificates, {} sentences; {} answers withheld: {} certificates changed, {} not issued; {} violations",
        report.runs,
        begun.elapsed().as_secs_f64(),
        report.certificates,
        report.sentences,
        report.withheld,
        report.changed,
        report.refused,
        report.violations.len(),
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let (runs, from, withheld) = (number("RUNS", 10_000), number("FROM", 0), number("WITHHELD", 1));
    let worlds = SentenceWorlds::new().await.unwrap();
    let (mut report, begun) = (SentenceReport::default(), Instant::now());
    for seed in from..from + runs {
        worlds.check(seed, usize::try_from(withheld).unwrap(), &mut report).await.unwrap();
        if report.runs.is_multiple_of(1_000) {
            print(&report, begun);
        }
    }
    print(&report, begun);
    for (rest, times) in &report.without {
        println!("{times:>8} without a certificate: {rest}");
    }
    for (action, times) in &report.by_action {
        println!("{times:>8} {action}");
    }
    for violation in &report.violations {
        println!("{violation}");
    }
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
