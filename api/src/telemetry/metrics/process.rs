//! Metrics of this process from the operating system, under the usual Prometheus names.
//!
//! Read from `/proc`, so only on Linux. The names have no prefix of this product, because all programs share them.

use prometheus_client::{
    encoding::text::encode_registry,
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};
use std::{fs, path::Path, sync::atomic::AtomicU64};

/// Clock ticks per second in `/proc`, fixed for Linux programs.
const TICKS: f64 = 100.0;

/// Returns the metrics as text, without the end marker.
pub(crate) fn text() -> String {
    told(Path::new("/proc"))
}

fn told(proc: &Path) -> String {
    let mut registry = Registry::default();
    if let Some(stat) = Stat::read(proc) {
        let seconds = Counter::<f64, AtomicU64>::default();
        seconds.inc_by(stat.cpu);
        registry.register("process_cpu_seconds", "CPU time of the process, over all processors", seconds);
        if let Some(booted) = booted(proc) {
            let help = "Start time of the process, in seconds since 1970";
            registry.register("process_start_time_seconds", help, decimal(booted + stat.started));
        }
    }
    if let Some(bytes) = resident(proc) {
        registry.register("process_resident_memory_bytes", "Resident memory", decimal(bytes));
    }
    if let Some(open) = open_files(proc) {
        registry.register("process_open_fds", "Open file descriptors", open);
    }
    let mut text = String::new();
    // Writing into a string cannot fail.
    _ = encode_registry(&mut text, &registry);
    text
}

/// The fields of `/proc/self/stat`.
struct Stat {
    /// CPU time in seconds.
    cpu: f64,
    /// Start in seconds after the boot.
    started: f64,
}

impl Stat {
    fn read(proc: &Path) -> Option<Self> {
        let line = fs::read_to_string(proc.join("self/stat")).ok()?;
        // The program name may contain spaces and brackets; the following fields do not.
        let rest: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let ticks = |place: usize| rest.get(place)?.parse::<f64>().ok();
        Some(Self { cpu: (ticks(11)? + ticks(12)?) / TICKS, started: ticks(19)? / TICKS })
    }
}

/// Returns the boot time, in seconds since 1970.
fn booted(proc: &Path) -> Option<f64> {
    let stat = fs::read_to_string(proc.join("stat")).ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn resident(proc: &Path) -> Option<f64> {
    let status = fs::read_to_string(proc.join("self/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

fn open_files(proc: &Path) -> Option<Gauge> {
    // One of them is the folder itself, while it is read.
    let count = fs::read_dir(proc.join("self/fd")).ok()?.count().saturating_sub(1);
    let gauge = Gauge::default();
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
    Some(gauge)
}

fn decimal(value: f64) -> Gauge<f64, AtomicU64> {
    let gauge = Gauge::default();
    gauge.set(value);
    gauge
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_metrics_are_present_on_linux_and_absent_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(told(dir.path()), "");
        fs::create_dir_all(dir.path().join("self/fd")).unwrap();
        for file in ["0", "1", "2"] {
            fs::write(dir.path().join("self/fd").join(file), "").unwrap();
        }
        let stat = "7 (te) nure) S 1 7 7 0 -1 4194304 1 0 0 0 250 50 0 0 20 0 9 0 12345 1 2 3\n";
        fs::write(dir.path().join("self/stat"), stat).unwrap();
        fs::write(dir.path().join("stat"), "cpu 1 2 3\nbtime 1000000\n").unwrap();
        fs::write(dir.path().join("self/status"), "Name:\ttenure\nVmRSS:\t    2048 kB\n").unwrap();

        let text = told(dir.path());

        for line in [
            "process_cpu_seconds_total 3.0",
            "process_start_time_seconds 1000123.45",
            "process_resident_memory_bytes 2097152.0",
            "process_open_fds 2",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}: {text}");
        }
    }
}
