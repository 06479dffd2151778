//! Rows as text, and as JSON for charts.

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::{env, fs::OpenOptions, io::Write as _, time::Duration};

/// The counters of a span of time.
pub struct Row {
    pub ended: usize,
    pub took: Duration,
    /// The times, in microseconds.
    pub times: Histogram<u64>,
    pub syncs: u64,
    pub journal: u64,
    pub device: u64,
    pub cpu: Duration,
}

/// Returns a histogram of times in microseconds, to three digits.
pub fn histogram(times: &[Duration]) -> Histogram<u64> {
    let mut all = Histogram::new(3).expect("three digits");
    for time in times {
        all.record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)).expect("it grows as needed");
    }
    all
}

/// Returns the percentile of the times.
pub fn within(times: &Histogram<u64>, percent: f64) -> Duration {
    Duration::from_micros(times.value_at_percentile(percent))
}

impl Row {
    #[allow(clippy::cast_precision_loss, reason = "counts of a bench")]
    pub fn each(&self, amount: u64) -> f64 {
        amount as f64 / self.ended.max(1) as f64
    }

    pub fn rate(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "counts of a bench")]
        let ended = self.ended as f64;
        ended / self.took.as_secs_f64()
    }

    fn cpu_ms(&self) -> f64 {
        self.each(u64::try_from(self.cpu.as_micros()).unwrap_or(u64::MAX)) / 1000.0
    }

    /// Prints it under the name `what`.
    pub fn told(self, what: &str) -> Self {
        println!(
            "| {what} | {:.0} | {:.2?} | {:.2?} | {:.2} | {:.3} | {:.0} | {:.0} |",
            self.rate(),
            within(&self.times, 50.0),
            within(&self.times, 99.0),
            self.each(self.syncs),
            self.cpu_ms(),
            self.each(self.journal),
            self.each(self.device),
        );
        let percentiles = [50.0, 90.0, 99.0, 99.9, 100.0];
        let times: Vec<_> =
            percentiles.iter().map(|at| json!([at, self.times.value_at_percentile(*at)])).collect();
        kept(&json!({
            "row": what, "ended": self.ended, "seconds": self.took.as_secs_f64(), "percentiles_us": times,
            "syncs_each": self.each(self.syncs), "cpu_ms_each": self.cpu_ms(),
            "journal_bytes_each": self.each(self.journal), "device_bytes_each": self.each(self.device),
        }));
        self
    }
}

/// Prints the column titles.
pub fn heads(what: &str) {
    println!(
        "| {what} | a second | p50 | p99 | syncs each | CPU ms each | journal bytes each | all bytes each |"
    );
    println!("|---|---|---|---|---|---|---|---|");
}

/// Appends a line to the file that `JSON` names, if set.
pub fn kept(line: &Value) {
    let Some(path) = env::var_os("JSON") else { return };
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| writeln!(file, "{line}")).expect("the file that JSON names can be written");
}
