//! The tutorial, as a newcomer types it.

use crate::served::{TENURE, page};
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    fmt::Write as _,
    fs,
    os::unix::{fs::symlink, process::CommandExt as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Ends what the tutorial has started, whatever became of it.
struct Everything(Pid);

impl Drop for Everything {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

/// How fast people read what they have not read before, in words a minute, prose and the output of programs alike.
const READ: u32 = 200;
/// How long it takes to copy one block of commands and to see that it has run.
const COPY: Duration = Duration::from_secs(8);
/// Within which a newcomer is through, without the build.
const WITHIN: Duration = Duration::from_secs(600);

/// A page as somebody goes through it.
struct Walk {
    /// Its commands as one script, which says when it begins with which block.
    script: String,
    /// Under which heading each block stands, and how many words there are to be read up to it.
    blocks: Vec<(String, u32)>,
    /// Words behind the last block.
    rest: u32,
}

impl Walk {
    fn of(text: &str) -> Self {
        let mut walk = Self { script: String::new(), blocks: Vec::new(), rest: 0 };
        let (mut inside, mut heading) = (false, String::new());
        for line in text.lines() {
            match line {
                "```sh" => {
                    inside = true;
                    walk.blocks.push((heading.clone(), std::mem::take(&mut walk.rest)));
                    writeln!(walk.script, "echo \"== block {} $EPOCHREALTIME\"", walk.blocks.len()).unwrap();
                }
                line if line.starts_with("```") => inside = false,
                line if inside => writeln!(walk.script, "{line}").unwrap(),
                line => {
                    if let Some(title) = line.strip_prefix("## ") {
                        heading = title.to_owned();
                    }
                    walk.rest += u32::try_from(line.split_whitespace().count()).unwrap();
                }
            }
        }
        walk.script += "echo \"== block end $EPOCHREALTIME\"\n";
        walk
    }

    /// Prints what each heading takes of whom, by what the script has said; answers with the whole.
    fn told(&self, said: &str) -> Duration {
        let moments = said.lines().filter_map(|line| line.strip_prefix("== block ")?.split_once(' '));
        let moments: Vec<f64> = moments.map(|(_, at)| at.replace(',', ".").parse().unwrap()).collect();
        let mut rows: Vec<(&str, u32, u32, Duration)> = Vec::new();
        for ((heading, words), pair) in self.blocks.iter().zip(moments.windows(2)) {
            if rows.last().is_none_or(|row| row.0 != heading) {
                rows.push((heading, 0, 0, Duration::ZERO));
            }
            let row = rows.last_mut().unwrap();
            *row = (row.0, row.1 + words, row.2 + 1, row.3 + Duration::from_secs_f64(pair[1] - pair[0]));
        }
        rows.push(("at the end", self.rest, 0, Duration::ZERO));
        println!("| {:<34} | words | read | copied | machine |\n|---|---|---|---|---|", "what");
        let mut whole = Duration::ZERO;
        for (heading, words, blocks, machine) in rows {
            let (read, copied) = (Duration::from_secs(60) * words / READ, COPY * blocks);
            println!(
                "| {heading:<34} | {words} | {} s | {} s | {:.1} s |",
                read.as_secs(),
                copied.as_secs(),
                machine.as_secs_f64()
            );
            whole += read + copied + machine;
        }
        println!("a newcomer needs {} s in all, of {} s", whole.as_secs(), WITHIN.as_secs());
        whole
    }
}

/// Nothing is given but the program and the pages beside it: a newcomer who reads all and copies every command is through within ten
/// minutes.
#[test]
fn every_command_of_the_tutorial_works_in_its_order_on_a_folder_that_is_new() {
    let walk = Walk::of(&page("tutorial.md"));
    let blocks = walk.blocks.len();
    assert!(blocks >= 12, "{blocks}");
    let dir = tempfile::tempdir().unwrap();
    symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs"), dir.path().join("docs")).unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    symlink(TENURE, dir.path().join("bin/tenure")).unwrap();
    let path = format!("{}:{}", dir.path().join("bin").display(), std::env::var("PATH").unwrap());
    let address = format!("127.0.0.1:{}", tests::processes::free_port());
    let said = fs::File::create(dir.path().join("said.txt")).unwrap();

    let began = Instant::now();
    let mut command = Command::new("bash");
    for name in ["TENURE_TOKEN", "TENURE_DATA", "TENURE_CONFIG", "RUST_LOG"] {
        command.env_remove(name);
    }
    let mut child = command
        .args(["-eu", "-c", &walk.script])
        .env("PATH", path)
        .env("TENURE_LISTEN", &address)
        .env("TENURE_SERVER", format!("http://{address}"))
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(said.try_clone().unwrap())
        .stderr(said)
        .process_group(0)
        .spawn()
        .unwrap();
    let _everything = Everything(Pid::from_child(&child));
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break Some(ended);
        }
        if began.elapsed() > Duration::from_secs(240) {
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };

    let said = fs::read_to_string(dir.path().join("said.txt")).unwrap();
    let log = fs::read_to_string(dir.path().join("serve.log")).unwrap_or_default();
    assert!(ended.is_some_and(|ended| ended.success()), "{ended:?}\n{said}\n{log}");
    assert!(said.contains("== block end "), "{said}");
    for seen in [
        "certificate.json: holds",
        "forged.json: DOES NOT HOLD",
        "audit.jsonl: holds",
        "Closed (finished): completed",
    ] {
        assert!(said.contains(seen), "{seen}: {said}");
    }
    assert!(walk.told(&said) < WITHIN);
}
