//! `cargo bench -p tests --bench idle`: the cost of an idle program. Starts it on empty folders and measures until it answers ready; then
//! leaves one idle for `SECONDS` (180) and prints the processor time, the memory and the bytes written.
//!
//! `TENURE` names the program; the default is `target/release/tenure`, which `cargo build --release` makes.

use std::{
    env,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};
use tests::processes::free_port;

/// The limit.
const READY_WITHIN: Duration = Duration::from_millis(150);
const CORE_PERCENT: f64 = 0.2;
const RSS: u64 = 40 << 20;
const BINARY: u64 = 40 << 20;
/// The number of starts, each on an empty folder.
const STARTS: usize = 11;
/// Work left over from the start does not count as idle.
const SETTLED: Duration = Duration::from_secs(20);

/// A server that is killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts it on `data`; returns it, and the time until it reported ready.
fn start(program: &Path, data: &Path) -> (Running, Duration) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let began = Instant::now();
    let mut command = Command::new(program);
    command.args(["serve", "--listen", &address.to_string(), "--data"]).arg(data);
    command.env("TENURE_LOG", "error").env("XDG_CONFIG_HOME", data.join("settings")).stdout(Stdio::null());
    let server = Running(command.spawn().expect("the program starts; make it by `cargo build --release`"));
    while !is_ready(address) {
        assert!(began.elapsed() < Duration::from_secs(20), "{} does not become ready", program.display());
        thread::sleep(Duration::from_millis(1));
    }
    (server, began.elapsed())
}

fn is_ready(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let asked = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut said = String::new();
    asked.is_ok() && stream.read_to_string(&mut said).is_ok() && said.starts_with("HTTP/1.1 200")
}

/// Returns a number after a name in a file of `/proc/PID`.
fn told(server: &Running, file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/{file}", server.0.id())).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel reports it");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Returns the processor time, in steps of 10 ms.
fn cpu(server: &Running) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.0.id())).expect("it runs");
    let fields = stat.rsplit(')').next().expect("fields behind the name").split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("ticks")).sum();
    Duration::from_millis(ticks * 10)
}

fn main() -> ExitCode {
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/tenure");
    let program = env::var_os("TENURE").map_or_else(usual, PathBuf::from);
    let seconds = env::var("SECONDS").map_or(180, |text| text.parse().expect("SECONDS takes a number"));
    let load = std::fs::read_to_string("/proc/loadavg").expect("Linux");
    println!("load of the machine: {}", load.trim());
    let size = std::fs::metadata(&program).expect("the program; make it by `cargo build --release`").len();
    println!("the program: {:.1} MiB (to reach: {} MiB)", mib(size), BINARY >> 20);

    let mut starts: Vec<Duration> =
        (0..STARTS).map(|_| start(&program, tempfile::tempdir().expect("a folder").path()).1).collect();
    starts.sort_unstable();
    let (middle, last) = (starts[STARTS / 2], starts[STARTS - 1]);
    println!("empty folder to ready: median {middle:.0?}, at most {last:.0?} (to reach: {READY_WITHIN:?})");

    let data = tempfile::tempdir().expect("a folder");
    let (server, _) = start(&program, data.path());
    thread::sleep(SETTLED);
    let (used, wrote) = (cpu(&server), told(&server, "io", "write_bytes:"));
    thread::sleep(Duration::from_secs(seconds));
    #[allow(clippy::cast_precision_loss, reason = "seconds of a bench")]
    let share = (cpu(&server) - used).as_secs_f64() * 100.0 / seconds as f64;
    let (wrote, rss) = (told(&server, "io", "write_bytes:") - wrote, told(&server, "status", "VmRSS:") << 10);
    let own = told(&server, "status", "RssAnon:") << 10;
    println!("idle for {seconds} s: {share:.2} % of a core (to reach: {CORE_PERCENT} %)");
    println!(
        "resident {:.1} MiB, of them {:.1} its own and the rest pages of its file (to reach: {} MiB)",
        mib(rss),
        mib(own),
        RSS >> 20
    );
    println!("written {} KiB (to reach: nothing)", wrote >> 10);
    let reached =
        size <= BINARY && middle <= READY_WITHIN && share <= CORE_PERCENT && rss <= RSS && wrote == 0;
    if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[allow(clippy::cast_precision_loss, reason = "sizes of a bench")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
