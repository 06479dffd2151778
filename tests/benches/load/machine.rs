//! The speed of the machine itself, in the same run: without it a time has no meaning.

use std::{
    fs::File,
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

/// Measures appends of 4 KiB to a preallocated file of zeros, and their syncs, one after the other.
pub fn syncs(dir: &Path, count: usize) -> Vec<Duration> {
    const PAGE: usize = 4096;
    let mut file = File::create(dir.join("bare")).expect("a file");
    for _ in 0..count {
        file.write_all(&[0; PAGE]).expect("room");
    }
    file.sync_all().expect("a disk");
    let file = File::options().write(true).open(dir.join("bare")).expect("the file");
    let page = [7; PAGE];
    let times = (0..count).map(|n| {
        let began = Instant::now();
        std::os::unix::fs::FileExt::write_all_at(&file, &page, (n * PAGE) as u64).expect("room");
        file.sync_data().expect("a disk");
        began.elapsed()
    });
    times.collect()
}

/// Returns the processor time of all threads of this process so far, in steps of 10 ms.
pub fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields = stat.rsplit(')').next().expect("fields behind the name").split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("ticks")).sum();
    Duration::from_millis(ticks * 10)
}

/// Returns the bytes that this process has written to devices so far, as the kernel counts them.
pub fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("Linux");
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).expect("a line");
    line.parse().expect("a number")
}

/// Returns the memory of this process, in bytes.
pub fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// Returns the number of programs that wait for a processor, including this one.
pub fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").expect("Linux").split(' ').next().unwrap_or_default().to_owned()
}

/// Returns the quantile of `thousandths`.
pub fn within(times: &mut [Duration], thousandths: usize) -> Duration {
    times.sort_unstable();
    times
        .get((times.len() * thousandths / 1000).min(times.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}
