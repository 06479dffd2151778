//! Many timers due within one minute.

use crate::{
    flow::{Alarm, Desk},
    house::House,
    machine, number,
    report::{self, within},
};
use serde_json::json;
use std::{
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

/// The span in which they are due.
const SPAN: Duration = Duration::from_secs(60);
/// The maximum lateness, in addition to two much shorter commits.
const LATE: Duration = Duration::from_secs(1);

pub async fn run(dir: &Path) -> ExitCode {
    let count = number("TIMERS", 1_000_000);
    let house = House::at(&dir.join("store"), Desk::default(), 1024);
    let working = house.works();
    // They are due late enough for all of them to be started before.
    let rate = measured_rate(&house).await;
    let lead = Duration::from_secs_f64(count as f64 * 1.5 / rate) + Duration::from_secs(5);
    let (began, rss) = (Instant::now(), machine::rss());
    FIRST.set((began, lead, count)).expect("once");
    let begun = house.begin(count, alarm).await;
    println!("{count} begun in {:.1?}, the first is due {lead:.1?} after the first of them", began.elapsed());
    let waiting = machine::rss();
    tokio::time::sleep((lead + SPAN).saturating_sub(began.elapsed())).await;
    let at_the_end = machine::rss();
    let mut late = Vec::with_capacity(count);
    for (n, id) in begun {
        late.push(house.desk.end(id).await.saturating_duration_since(began + due(n, lead, count)));
    }
    let late = report::histogram(&late);
    let (p50, p99, most) = (within(&late, 50.0), within(&late, 99.0), within(&late, 100.0));
    println!("delay: p50 {p50:.2?}, p99 {p99:.2?}, at most {most:.2?} (to reach: {LATE:?})");
    println!(
        "memory: {} MiB before, {} MiB with all of them waiting, {} MiB when the last was due",
        rss >> 20,
        waiting >> 20,
        at_the_end >> 20
    );
    report::kept(&json!({
        "row": "timers", "timers": count, "late_p50_us": p50.as_micros(), "late_p99_us": p99.as_micros(),
        "late_most_us": most.as_micros(), "rss_waiting": waiting, "rss_end": at_the_end,
    }));
    house.ends(working).await;
    if most <= LATE { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The start of the first one, the time from there to its due time, and the number of timers.
static FIRST: std::sync::OnceLock<(Instant, Duration, usize)> = std::sync::OnceLock::new();

fn due(n: usize, lead: Duration, count: usize) -> Duration {
    lead + SPAN.mul_f64(n as f64 / count as f64)
}

fn alarm(n: usize) -> Alarm {
    let (began, lead, count) = *FIRST.get().expect("it is set before the first");
    let after = due(n, lead, count).saturating_sub(began.elapsed());
    Alarm { after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX) }
}

/// Returns the number of starts in a second.
async fn measured_rate(house: &Arc<House>) -> f64 {
    const SOME: usize = 5_000;
    let began = Instant::now();
    house.begin(SOME, |_| Alarm { after_ms: 1 }).await;
    SOME as f64 / began.elapsed().as_secs_f64()
}
