//! The state after kill -9: many executions that wait for approval, and many during a step. Each life is a separate
//! process.

use crate::{
    flow::{Desk, W5},
    house::House,
    machine, number,
    report::{self, within},
};
use serde_json::json;
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

/// The limit from the start of the second life until all interrupted executions have ended.
const WITHIN: Duration = Duration::from_secs(10);

pub fn run(dir: &Path) -> ExitCode {
    let (parked, walking) = (number("PARKED", 100_000), number("WALKING", 10_000));
    let (mut first, mut said) = spawn("first-life", dir);
    let said_first = line(&mut said);
    first.kill().expect("it is killed");
    first.wait().expect("it is gone");
    let began = Instant::now();
    let (mut second, mut said) = spawn("second-life", dir);
    let opened = line(&mut said);
    let ready = began.elapsed();
    let ended = line(&mut said);
    let all = began.elapsed();
    let rested = if number("STAYS", 0) > 0 { line(&mut said) } else { String::new() };
    second.wait().expect("it is gone");
    println!("before the kill: {said_first}");
    println!("store open and engine at work after {ready:.2?}: {opened}");
    println!("all {walking} ended after {all:.2?} (to reach: {WITHIN:?}): {ended}");
    if !rested.is_empty() {
        println!("12 s and 1,000 executions later: {rested}");
    }
    report::kept(&json!({
        "row": "restart", "parked": parked, "walking": walking,
        "ready_ms": ready.as_millis(), "all_ended_ms": all.as_millis(),
    }));
    if all <= WITHIN { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn spawn(life: &str, dir: &Path) -> (Child, BufReader<ChildStdout>) {
    let me = std::env::current_exe().expect("this program");
    let mut child =
        Command::new(me).arg(life).arg(dir).stdout(Stdio::piped()).spawn().expect("it begins once more");
    let out = BufReader::new(child.stdout.take().expect("it is piped"));
    (child, out)
}

fn line(from: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("it says something");
    line.trim_end().to_owned()
}

/// As [`run`] with decisions before the kill, in one row: memory of each waiting execution, a decision, and the end of all interrupted
/// ones.
pub fn waits(dir: &Path) -> ExitCode {
    let (mut first, mut said) = spawn("deciding-life", dir);
    let waited = line(&mut said);
    line(&mut said);
    first.kill().expect("it is killed");
    first.wait().expect("it is gone");
    let began = Instant::now();
    let (mut second, mut said) = spawn("second-life", dir);
    line(&mut said);
    line(&mut said);
    println!("| Tenure | {waited} | {:.2?} |", began.elapsed());
    second.wait().expect("it is gone");
    ExitCode::SUCCESS
}

/// Parks, decides some if `decides` is set, walks until all block in their third step, prints a line, and waits to be
/// killed.
pub async fn first_life(dir: &Path, decides: bool) {
    let house = House::at(&dir.join("store"), Desk::that_hangs(), 65_536);
    let _working = house.works();
    let (parked, walking) = (number("PARKED", 100_000), number("WALKING", 10_000));
    house.rest().await;
    let before = machine::rss();
    let mut waiting = house.park(parked).await;
    if decides {
        house.rest().await;
        let each = machine::rss().saturating_sub(before) / parked.max(1) as u64;
        waiting.truncate(1_000);
        let (_, ends) = house.decide_each(&waiting).await;
        println!("{each} B | {:.2?} | {:.2?}", within(&ends, 50.0), within(&ends, 99.0));
    }
    house.begin(walking, |_| W5::default()).await;
    while house.desk.stuck() < walking {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{}", state(&house).await);
    std::future::pending::<()>().await;
}

/// Opens the remaining store, prints a line, and prints another when all interrupted executions have ended.
pub async fn second_life(dir: &Path) {
    let house = House::at(&dir.join("store"), Desk::default(), 1024);
    let working = house.works();
    println!("{}", state(&house).await);
    while house.desk.ended() < number("WALKING", 10_000) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("{}", state(&house).await);
    if number("STAYS", 0) > 0 {
        // The allocator returns idle memory after some time, at the next allocation.
        tokio::time::sleep(Duration::from_secs(12)).await;
        house.begin(1_000, |_| W5::default()).await;
        house.rest().await;
        println!("{}", state(&house).await);
    }
    house.ends(working).await;
}

async fn state(house: &House) -> String {
    let health = house.store.health().await;
    format!(
        "{} tasks, {} commits not in the index, {} MiB on disk, {} MiB of memory",
        health.tasks,
        health.index_lag,
        health.disk_bytes >> 20,
        machine::rss() >> 20
    )
}
