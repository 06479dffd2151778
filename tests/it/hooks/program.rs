//! A program behind a hook: its exit code, its process group, its environment, its output.

use super::{hook, script, stamp, table};
use backends::exec::{ExecTarget, Program};
use engine::Class;
use serde_json::json;
use std::{
    path::Path,
    time::{Duration, Instant},
};
use workflows::platform::{CallMetadata, Hooks, codes};

fn target(folder: &Path, text: &str) -> ExecTarget {
    ExecTarget::new(script(folder, text))
}

/// Runs a script as a hook and returns its result.
async fn run(target: ExecTarget, stamp: &CallMetadata) -> Result<serde_json::Value, engine::ActionError> {
    table("it", Program::connect(&target).unwrap()).run(&hook("it", json!({ "a": 1 })), stamp).await
}

/// Returns true if the process exists and is not a zombie.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with('Z'))
}

async fn written(file: &Path) -> String {
    let began = Instant::now();
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => assert!(began.elapsed() < Duration::from_secs(10), "{} is not written", file.display()),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn ends(pid: &str) {
    let began = Instant::now();
    while lives(pid) {
        assert!(began.elapsed() < Duration::from_secs(5), "process {pid} continues");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn every_exit_code_has_an_error_class() {
    let folder = tempfile::tempdir().unwrap();
    for (code, class, named) in [
        (64, Class::Permanent, codes::REFUSED),
        (65, Class::Permanent, codes::REFUSED),
        (69, Class::Transient, codes::UNAVAILABLE),
        (75, Class::Transient, codes::UNAVAILABLE),
        (77, Class::Permanent, codes::DENIED),
        (78, Class::Permanent, codes::UNSUPPORTED),
        (80, Class::Permanent, codes::FENCED),
        (1, Class::Unknown, codes::NO_ANSWER),
        (127, Class::Unknown, codes::NO_ANSWER),
    ] {
        let target = target(folder.path(), &format!("echo first >&2; echo 'no good' >&2; exit {code}"));
        let probing = table("it", Program::connect(&target).unwrap());
        let error = run(target, &stamp("s", false)).await.unwrap_err();
        assert_eq!((error.class, error.code.as_str()), (class, named), "{code}");
        assert!(error.message.contains("first | no good"), "{error}");

        let asked = probing.probe(&hook("it", json!({})), &stamp("s", false)).await.unwrap_err();
        let wanted = if class == Class::Unknown { Class::Transient } else { class };
        assert_eq!(asked.class, wanted, "a probe changes nothing, so no outcome is unknown: {code}");
    }
    let told = r#"echo '{"code":"object.changed","message":"not so","retry_after_seconds":9}'; exit 75"#;
    let error = run(target(folder.path(), told), &stamp("s", false)).await.unwrap_err();
    assert_eq!(
        (error.code.as_str(), error.retry_after),
        (codes::OBJECT_CHANGED, Some(Duration::from_secs(9)))
    );
    assert!(error.message.ends_with(": not so"), "{error}");
    let invented =
        run(target(folder.path(), r#"echo '{"code":"made.up"}'; exit 65"#), &stamp("s", false)).await;
    assert_eq!(invented.unwrap_err().code, codes::REFUSED, "an unknown code is not passed on");
}

/// S50.
#[tokio::test]
async fn a_program_past_its_deadline_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let text = format!("trap '' TERM; sleep 600 & echo $$ $! > {}; wait; sleep 600", pids.display());
    let mut target = target(folder.path(), &text);
    target.grace = Duration::from_millis(100);
    let began = Instant::now();

    let error = run(target, &CallMetadata { deadline: Duration::from_millis(500), ..stamp("s", false) })
        .await
        .unwrap_err();

    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((error.class, error.code.as_str()), (Class::Unknown, codes::NO_ANSWER));
    for pid in written(&pids).await.split_whitespace() {
        ends(pid).await;
    }
}

#[tokio::test]
async fn a_program_can_clean_up_after_its_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let order = folder.path().join("order");
    let text = format!("trap 'echo unlocked > {}; exit 1' TERM; sleep 600 & wait", order.display());

    let hurried = CallMetadata { deadline: Duration::from_millis(500), ..stamp("s", false) };
    let error = run(target(folder.path(), &text), &hurried).await.unwrap_err();
    assert_eq!(error.class, Class::Unknown);

    assert_eq!(std::fs::read_to_string(order).unwrap(), "unlocked\n");
}

#[tokio::test]
async fn a_cancelled_call_leaves_nothing_running() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let text = format!("sleep 600 & echo $$ $! > {}; wait", pids.display());
    let target = target(folder.path(), &text);
    let running = tokio::spawn(async move { run(target, &stamp("s", false)).await });
    let pids = written(&pids).await;

    running.abort();

    assert!(running.await.unwrap_err().is_cancelled());
    for pid in pids.split_whitespace() {
        ends(pid).await;
    }
}

#[tokio::test]
async fn processes_left_by_a_program_are_killed_and_delay_no_caller() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let text =
        format!("sleep 600 & echo $! > {}; echo '{{\"status\":\"done\",\"output\":7}}'", pid.display());
    let began = Instant::now();

    let output = run(target(folder.path(), &text), &stamp("s", false)).await.unwrap();

    assert_eq!(output, json!(7));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    ends(&written(&pid).await).await;
}

#[tokio::test]
async fn a_program_gets_the_request_and_only_permitted_environment_variables() {
    let folder = tempfile::tempdir().unwrap();
    let (asked, seen) = (folder.path().join("asked"), folder.path().join("seen"));
    let text = format!("cat > {}; env > {}; echo '{{\"status\":\"done\"}}'", asked.display(), seen.display());
    let mut target = target(folder.path(), &text);
    target.arguments = vec!["$(touch harm)".into(), "; touch harm".into()];
    target.directory = folder.path().to_owned();
    target.environment = vec!["PATH".into(), "CARGO_MANIFEST_DIR".into(), "NOT_SET_ANYWHERE".into()];

    run(target, &CallMetadata { epoch: store::Epoch(7), ..stamp("e/S/1/0", false) }).await.unwrap();

    let asked: serde_json::Value = serde_json::from_slice(&std::fs::read(asked).unwrap()).unwrap();
    let wanted = json!({
        "version": 1, "hook": "it", "verb": "run", "key": "e/S/1/0", "step": "e/S/1/0", "epoch": 7, "tenant": "acme",
        "undo": false, "arguments": { "a": 1 }, "deadline_ms": 30_000,
    });
    assert_eq!(asked, wanted);
    let seen = std::fs::read_to_string(seen).unwrap();
    let names: Vec<&str> = seen.lines().filter_map(|line| line.split('=').next()).collect();
    let of_the_shell = ["PWD", "SHLVL", "_", "OLDPWD"];
    assert!(
        names.iter().all(|name| ["PATH", "CARGO_MANIFEST_DIR"].contains(name) || of_the_shell.contains(name)),
        "{seen}"
    );
    assert!(!folder.path().join("harm").exists(), "there is no shell in between");
}

#[tokio::test]
async fn an_invalid_or_too_long_answer_leaves_the_outcome_unknown() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["echo done", "echo '{\"status\":\"made_up\"}'", "echo '{\"status\":\"not_done\"}'", "exit 0"]
    {
        let error = run(target(folder.path(), text), &stamp("s", false)).await.unwrap_err();
        assert_eq!((error.class, error.code.as_str()), (Class::Unknown, codes::UNREADABLE), "{text}");
    }
    let mut long = target(folder.path(), "head -c 3000000 /dev/zero; echo never >&2");
    long.output_limit_bytes = 1_000;
    let error = run(long, &stamp("s", false)).await.unwrap_err();
    assert_eq!((error.class, error.code.as_str()), (Class::Unknown, codes::UNREADABLE));
    assert!(error.message.contains("more than may be read"), "{error}");
}

#[tokio::test]
async fn a_program_without_probes_or_dry_runs_is_not_called_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let called = folder.path().join("called");
    let mut target = target(folder.path(), &format!("touch {}; exit 1", called.display()));
    target.probes = false;
    let hooks = table("it", Program::connect(&target).unwrap());
    let hook = hook("it", json!({}));

    assert_eq!(hooks.probe(&hook, &stamp("s", false)).await.unwrap(), engine::Probe::NotDone);
    assert_eq!(hooks.run(&hook, &stamp("s", false).as_dry_run()).await.unwrap(), json!(null));
    assert!(!called.exists());

    assert!(hooks.run(&hook, &stamp("s", false)).await.is_err());
    assert!(called.exists());
}
