//! A child process that is killed at work.

use crate::{
    Memory, Store,
    tests::{dump::dump, fixture::*},
};
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

const FOLDER: &str = "STORE_KILLED_FOLDER";

/// The process to be killed: it prints each commit after its acknowledgement.
#[tokio::test]
#[ignore = "run by the test below, in a separate process"]
async fn commits_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (store, report) = open(Path::new(&folder), options());
    for n in report.sequence.0 + 1.. {
        store.commit(nth(n)).await.unwrap();
        println!("acknowledged {n}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_no_acknowledged_commit() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let mut known = 0;
    for round in 0..8_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::process_kill::commits_until_it_is_killed", "--ignored", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let acknowledged =
            |line: &str| line.rsplit_once("acknowledged ").and_then(|(_, n)| n.parse::<u64>().ok());
        let mut last = known;
        while last < known + 20 + 13 * round {
            last = lines.next().unwrap().ok().as_deref().and_then(acknowledged).unwrap_or(last);
        }
        std::thread::sleep(Duration::from_millis(round));
        child.kill().unwrap();
        child.wait().unwrap();
        last = lines.map_while(Result::ok).filter_map(|line| acknowledged(&line)).last().unwrap_or(last);

        let (store, report) = open(folder.path(), options());

        let sequence = report.sequence.0;
        assert!(sequence >= last, "{last} were acknowledged: {report}");
        assert_eq!(report.rebuilt_index, None, "{report}");
        while known < sequence {
            known += 1;
            memory.commit(nth(known)).await.unwrap();
        }
        let ids: Vec<_> = (1..=sequence).map(id).collect();
        assert_eq!(dump(&store, &ids, &["t-0"]).await, dump(&memory, &ids, &["t-0"]).await);
        store.close().await.unwrap();
    }
}
