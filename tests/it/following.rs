//! The command line after a request: it waits for the result, previews effects, and confirms before data is destroyed.

use crate::served::{Ran, Served, large, shared, tenure};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::Stdio,
};

fn begun(served: &Served, name: &str) -> String {
    fs::write(served.dir.path().join("request.yaml"), large(name)).unwrap();
    let asked = served.run(&["tenant", "onboard", "-f", "request.yaml", "--wait", "-o", "json"]);
    assert_eq!(asked.exit, 10, "{asked:?}");
    asked.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_command_line_can_wait_for_the_effect_of_a_command() {
    let served = Served::with_nodes().await;
    let id = begun(&served, "acme");
    assert_eq!(served.run(&["executions", "pause", &id, "--reason", "a look"]).exit, 0);
    let resumed = served.run(&["executions", "resume", &id, "--wait", "--timeout", "20s"]);
    assert_eq!(resumed.exit, 10, "it waits for approval again: {resumed:?}");
    let many = served.run(&["executions", "cancel", "--filter", "open", "--reason", "x", "--wait"]);
    assert!(many.exit == 2 && many.err.contains("--wait: is for one execution"), "{many:?}");
    let cancelled = served.run(&[
        "executions",
        "cancel",
        &id,
        "--reason",
        "over",
        "--wait",
        "--timeout",
        "20s",
        "-o",
        "json",
    ]);
    assert_eq!(cancelled.exit, 8, "{cancelled:?}");
    assert_eq!(cancelled.json()["open"], false);
    let again = served.run(&["executions", "retry", &id, "--wait"]);
    assert_eq!(again.exit, 5, "a command to an ended execution is refused and not awaited: {again:?}");
    assert_eq!(served.run(&["executions", "signal", &id, "export.confirmed", "--timeout", "1s"]).exit, 2);
}

#[tokio::test]
async fn the_exit_code_of_a_dry_run_reports_changes_on_request() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&shared("acme")).await;
    served.ended(&id).await;
    let quota = ["quota", "set", "acme/research", "gpu/H100", "2", "--reason", "done", "--dry-run"];
    assert_eq!(served.run(&quota).exit, 0);
    assert_eq!(served.run(&[&quota[..], &["--exit-code"]].concat()).exit, 11);
    let open = begun(&served, "other");
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/quick-policy.yaml");
    let publish = ["policy", "publish", policy, "--dry-run", "--exit-code"];
    assert_eq!(served.run(&publish).exit, 11);
    assert_eq!(served.run(&["policy", "publish", policy]).exit, 0);
    let same = served.run(&publish);
    assert_eq!(same.exit, 0, "{same:?}");
    let cancel = |filter: &str| {
        served.run(&["executions", "cancel", "--filter", filter, "--dry-run", "--exit-code"]).exit
    };
    assert_eq!((cancel("open"), cancel("tenant = nobody")), (11, 1), "a filter without matches is an error");
    assert_eq!(served.run(&["executions", "wait", &open]).exit, 10, "nothing was changed");
    assert_eq!(
        served.run(&["policy", "publish", policy, "--exit-code"]).exit,
        2,
        "the flag requires a dry run"
    );
}

#[tokio::test]
async fn an_offboarding_needs_the_name_of_the_tenant_twice() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&shared("acme")).await;
    served.ended(&id).await;
    let leave =
        |more: &[&str]| served.run(&[&["tenant", "offboard", "acme", "--reason", "moves"], more].concat());
    let unsaid = leave(&[]);
    assert!(
        unsaid.exit == 2 && unsaid.err.contains("--confirm acme") && unsaid.err.contains("--dry-run"),
        "{unsaid:?}"
    );
    let another = leave(&["--confirm", "acne"]);
    assert!(another.exit == 2 && another.err.contains("is not acme"), "{another:?}");
    let listed = served.run(&["executions", "list", "--where", "workflow=offboarding", "-o", "json"]);
    assert_eq!(listed.json().as_array().map(Vec::len), Some(0), "no execution was started");
    assert_eq!(leave(&["--dry-run"]).exit, 0, "a preview needs no confirmation");
    assert_eq!(leave(&["--confirm", "acme", "--wait"]).exit, 10);
}

/// Applies to command output and to the log, unless the log is JSON.
#[test]
fn output_and_logs_are_coloured_as_configured() {
    let dir = tempfile::tempdir().unwrap();
    // The first log line of a server with its own folder, so that earlier output does not matter.
    let logged = |arguments: &[&str], variables: &[(&str, &str)]| {
        let own = tempfile::tempdir_in(dir.path()).unwrap();
        let mut serve = tenure(own.path());
        serve.args(arguments).args(["serve", "--listen", "127.0.0.1:0"]).envs(variables.iter().copied());
        let mut child =
            serve.env("TENURE_LOG", "debug").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        first
    };
    let is_coloured = |line: &str| line.contains('\u{1b}');
    let told = |arguments: &[&str], variables: &[(&str, &str)]| {
        let asked = ["--server", "127.0.0.1:1", "tenants", "list"];
        let ran = Ran::of(tenure(dir.path()).args(arguments).args(asked).envs(variables.iter().copied()));
        assert_eq!(ran.exit, 9, "{ran:?}");
        ran.err
    };
    let (forced, none) = (("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1"));
    let never: &[&str] = &["--color", "never"];
    let always: &[&str] = &["--color", "always"];
    /// Flags, the environment, and true if lines are coloured.
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], bool);
    let cases: [Case<'_>; 6] = [
        (&[], &[], false),
        (&[], &[forced], true),
        (&[], &[none], false),
        (&[], &[forced, none], false),
        (always, &[none], true),
        (never, &[forced], false),
    ];
    for (arguments, variables, coloured) in cases {
        for (of, line) in
            [("the log", logged(arguments, variables)), ("a command", told(arguments, variables))]
        {
            assert_eq!(is_coloured(&line), coloured, "{of}: {arguments:?} {variables:?}: {line:?}");
        }
    }
    let json = logged(&["--color", "always", "--log-format", "json"], &[]);
    assert!(!is_coloured(&json), "a log collector gets no colours: {json:?}");
}
