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

/// The commands of the tutorial as one script, which says at which block it is.
fn script(text: &str) -> (String, usize) {
    let (mut script, mut blocks, mut inside) = (String::new(), 0, false);
    for line in text.lines() {
        match line {
            "```sh" => {
                inside = true;
                blocks += 1;
                writeln!(script, "echo '== block {blocks}'").unwrap();
            }
            "```" => inside = false,
            line if inside => writeln!(script, "{line}").unwrap(),
            _ => {}
        }
    }
    (script, blocks)
}

/// Nothing is given but the program and the pages beside it: a newcomer is through within two minutes of the machine's time.
#[test]
fn every_command_of_the_tutorial_works_in_its_order_on_a_folder_that_is_new() {
    let (script, blocks) = script(&page("tutorial.md"));
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
        .args(["-eu", "-c", &script])
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
    assert!(said.contains(&format!("== block {blocks}\n")), "{said}");
    for seen in [
        "certificate.json: holds",
        "forged.json: DOES NOT HOLD",
        "audit.jsonl: holds",
        "Closed (finished): completed",
    ] {
        assert!(said.contains(seen), "{seen}: {said}");
    }
    println!("the tutorial took {:.0?}", began.elapsed());
}
