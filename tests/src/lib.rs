//! The shared parts of the tests: processes that can be killed, the simulated world as a process, and the large
//! campaigns.

pub mod actions;
pub mod books;
pub mod campaigns;
pub mod kit;
pub mod newcomer;
pub mod preemption;
pub mod processes;
pub mod proxies;
pub mod servers;
pub mod traces;
pub mod under_test;

use proptest::test_runner::{Config, RngSeed};

/// Returns `count` random cases of a property, the same ones on every run, so that a failure is caused by a change and not by
/// chance. `TENURE_CASES=20` runs twenty times as many new ones.
#[must_use]
pub fn cases(count: u32) -> Config {
    let times = std::env::var("TENURE_CASES").ok().and_then(|times| times.parse::<u32>().ok());
    let rng_seed = if times.is_some() { RngSeed::Random } else { RngSeed::Fixed(20_261_121) };
    Config { cases: count.saturating_mul(times.unwrap_or(1)), rng_seed, ..Config::default() }
}

/// Serialises tests that start several processes and count events in a span of time.
pub async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static HEAVY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    HEAVY.lock().await
}
