//! The tutorial as a newcomer types it: its commands as one script, and the time to read and copy them.

use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    fmt::Write as _,
    fs,
    os::unix::{fs::symlink, process::CommandExt as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// The reading speed for new text, both prose and program output, in words a minute.
const READ: u32 = 200;
/// The time to copy one block of commands and to see its result.
const COPY: Duration = Duration::from_secs(8);
/// The time limit of a newcomer, without the build.
pub const WITHIN: Duration = Duration::from_secs(600);

/// A page as a reader follows it.
#[derive(Debug)]
pub struct Walk {
    /// Its commands as one script, which prints the start of each block.
    pub script: String,
    /// The heading of each block, and the number of words before it.
    blocks: Vec<(String, u32)>,
    /// Words behind the last block.
    rest: u32,
}

impl Walk {
    /// Returns the blocks of commands of a Markdown page, marked as `sh`.
    ///
    /// # Panics
    /// If it has more than 4,294,967,295 words.
    #[must_use]
    pub fn of(text: &str) -> Self {
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

    /// How many blocks of commands there are.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Prints the time that each heading takes a reader, from the output of the script and the actions in `clicked`; returns the
    /// total.
    ///
    /// # Panics
    /// If a time in it is no number.
    #[must_use]
    pub fn told(&self, said: &str, clicked: Duration) -> Duration {
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
        let mut whole = clicked;
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
        if !clicked.is_zero() {
            println!("clicked and typed in the console: {} s", clicked.as_secs());
        }
        println!("a newcomer needs {} s in all, of {} s", whole.as_secs(), WITHIN.as_secs());
        whole
    }
}

/// A running script in a folder of its own, with its child processes: dropping this ends all of them.
#[derive(Debug)]
pub struct Newcomer {
    child: Child,
    group: Pid,
    dir: tempfile::TempDir,
    /// The address of the tutorial's server.
    pub url: String,
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

impl Newcomer {
    /// Starts `script` with only the program and the pages.
    ///
    /// # Panics
    /// If there is no folder or no shell.
    #[must_use]
    pub fn begins(script: &str, tenure: &Path) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        symlink(docs, dir.path().join("docs")).expect("a link");
        fs::create_dir(dir.path().join("bin")).expect("a folder");
        symlink(tenure, dir.path().join("bin/tenure")).expect("a link");
        let path = std::env::var("PATH").expect("a PATH");
        let address = format!("127.0.0.1:{}", crate::processes::free_port());
        let url = format!("http://{address}");
        let said = fs::File::create(dir.path().join("said.txt")).expect("a file");

        let mut command = Command::new("bash");
        for name in ["TENURE_TOKEN", "TENURE_DATA", "TENURE_CONFIG", "RUST_LOG"] {
            command.env_remove(name);
        }
        let child = command
            .args(["-eu", "-c", script])
            .env("PATH", format!("{}:{path}", dir.path().join("bin").display()))
            .env("TENURE_LISTEN", &address)
            .env("TENURE_SERVER", &url)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(said.try_clone().expect("a file"))
            .stderr(said)
            .process_group(0)
            .spawn()
            .expect("a shell");
        let group = Pid::from_child(&child);
        Self { child, group, dir, url }
    }

    /// Returns its working folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the output after a successful end.
    ///
    /// # Panics
    /// If it fails or takes more than four minutes.
    #[must_use]
    pub fn ended(&mut self) -> String {
        let began = Instant::now();
        let ended = loop {
            match self.child.try_wait().expect("a child") {
                Some(ended) => break Some(ended),
                None if began.elapsed() > Duration::from_secs(240) => break None,
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        let said = fs::read_to_string(self.dir().join("said.txt")).expect("what was said");
        let log = fs::read_to_string(self.dir().join("serve.log")).unwrap_or_default();
        assert!(ended.is_some_and(|ended| ended.success()), "{ended:?}\n{said}\n{log}");
        assert!(said.contains("== block end "), "{said}");
        for seen in [
            "certificate.json: valid",
            "forged.json: INVALID",
            "audit.jsonl: valid",
            "Closed (finished): completed",
        ] {
            assert!(said.contains(seen), "{seen}: {said}");
        }
        said
    }
}
