//! A closed loop.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

/// Returns the processor time of this process, in milliseconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let behind = stat.rsplit(')').next().expect("a name in brackets");
    let ticks: f64 =
        behind.split_whitespace().skip(11).take(2).map(|n| n.parse::<f64>().expect("ticks")).sum();
    ticks * 10.0
}

/// A closed loop with `at_once` walks in flight; walks that are unfinished at the end are awaited for the same span again at
/// most.
pub async fn closed<F>(
    peer: &str,
    in_flight: usize,
    seconds: usize,
    one: impl Fn(String) -> F + Send + Sync + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (one, before, began) = (Arc::new(one), cpu(), Instant::now());
    let until = began + Duration::from_secs(seconds as u64);
    let mut walking = tokio::task::JoinSet::new();
    for line in 0..in_flight {
        let one = Arc::clone(&one);
        walking.spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < until {
                let at = Instant::now();
                let left = until + Duration::from_secs(seconds as u64) - at;
                if tokio::time::timeout(left, one(format!("{line}-{}", times.len()))).await.is_err() {
                    break;
                }
                times.push(at.elapsed().as_secs_f64() * 1e3);
            }
            times
        });
    }
    let mut times = walking.join_all().await.concat();
    let (took, spent) = (began.elapsed().as_secs_f64(), cpu() - before);
    times.sort_by(f64::total_cmp);
    let within = |part: f64| match times.len() {
        0 => "none ended".to_owned(),
        n => format!("{:.2}ms", times[((n - 1) as f64 * part) as usize]),
    };
    println!(
        "| {peer}, {in_flight} in flight | {:.0} | {} | {} | {:.3} |",
        times.len() as f64 / took,
        within(0.5),
        within(0.99),
        spent / times.len().max(1) as f64
    );
    // Hanging walks are not awaited.
    std::process::exit(0);
}
