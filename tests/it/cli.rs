//! The command line: output, exit codes and safeguards. Against a real server.

mod docs;
mod server;

use crate::served::{NODES, Ran, Served, large, small, tenure};
use serde_json::json;
use std::{
    fs,
    process::{Child, Stdio},
};

fn written(served: &Served, name: &str, text: &str) -> String {
    let path = served.dir.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_tenant_is_onboarded_from_the_command_line() {
    let served = Served::start();
    let nodes = written(&served, "nodes.csv", NODES);
    let import = ["fleet", "import", &nodes, "--cluster", "eu-1", "--region", "eu"];
    let imported = served.run(&import);
    assert_eq!(imported.exit, 0, "{imported:?}");
    assert!(
        imported.out.contains("8 nodes, 64 GPUs") && imported.out.contains("8 added"),
        "{}",
        imported.out
    );
    assert!(served.run(&import).out.contains("0 added, 0 changed, 8 unchanged"));

    let file = written(&served, "acme.yaml", &large("acme"));
    let asked = served.run(&["tenant", "onboard", "-f", &file, "--wait"]);
    assert_eq!(asked.exit, 10, "it waits for approval: {asked:?}");
    assert!(asked.err.contains("Evaluating") || asked.err.contains("AwaitingApproval"), "{}", asked.err);
    let approvals = served.run(&["approvals", "list", "-o", "json"]).json();
    let id = approvals[0]["execution"].as_str().unwrap();
    let shown = served.run(&["approvals", "show", id]);
    for part in ["16 H100", "gpus: 16", "proposed placement", "nominal: 16", "simulated"] {
        assert!(shown.out.contains(part), "{part}: {}", shown.out);
    }

    let own = served.run(&["approvals", "approve", id]);
    assert_eq!(own.exit, 4, "{own:?}");
    assert!(own.err.contains("another person") && own.err.contains("what to do"), "{}", own.err);

    let added = served.run(&["user", "add", "ada", "--role", "platform_ops"]);
    let token = added.out.trim();
    assert!(token.starts_with("tn_"), "standard output has only the token: {added:?}");
    let approved = served.run(&["--token", token, "approvals", "approve", &id[..18], "--reason", "signed"]);
    assert_eq!(approved.exit, 0, "{approved:?}");
    let waited = served.run(&["executions", "wait", id]);
    assert_eq!((waited.exit, waited.out.contains("completed")), (0, true), "{waited:?}");
    assert_eq!(served.run(&["tenants", "show", "acme", "-o", "json"]).json()["state"], "active");
}

/// No server listens there: any request would end with exit code 9.
#[test]
fn an_invalid_duration_and_an_absent_server_are_reported_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let nowhere = ["--server", "http://127.0.0.1:1", "--token", "none"];
        let ran = tenure(dir.path()).args(nowhere).args(args).output().unwrap();
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };

    let offboard = ["tenant", "offboard", "acme", "--confirm", "acme", "--reason", "it ends", "--wait"];
    let (exit, said) = run(&[offboard.as_slice(), &["--timeout", "5"]].concat());
    assert_eq!(exit, Some(2), "{said}");
    assert!(said.contains("write `30s`"), "{said}");

    let (exit, said) = run(&["executions", "wait", "01a214c6", "--timeout", "10m"]);
    assert_eq!(exit, Some(9), "{said}");
}

#[tokio::test]
async fn a_list_as_json_is_one_array_of_all_items() {
    let served = Served::start();
    let header = NODES.lines().next().unwrap();
    let rows: String = (0..2_345).map(|n| format!("n-{n:05},1000,1024,1,T4\n")).collect();
    let nodes = written(&served, "nodes.csv", &format!("{header}\n{rows}"));
    assert_eq!(served.run(&["fleet", "import", &nodes, "--cluster", "eu-1", "--region", "eu"]).exit, 0);
    let listed = served.run(&["nodes", "list", "-o", "json"]);
    assert_eq!(listed.json().as_array().unwrap().len(), 2_345);
    assert_eq!(listed.err, "");
    let table = served.run(&["nodes", "list"]);
    assert_eq!(table.out.lines().count(), 2_346);
    assert!(table.out.lines().nth(1).unwrap().starts_with("n-00000 "), "the first column is the id");
    for noun in ["tenants", "executions", "approvals", "clusters", "regions"] {
        assert!(served.run(&[noun, "list", "-o", "json"]).json().is_array(), "{noun}");
    }
}

#[tokio::test]
async fn a_command_returns_its_documented_exit_code() {
    let served = Served::with_nodes().await;
    let large_file = written(&served, "large.yaml", &large("acme"));
    let wrong = written(&served, "wrong.yaml", "name: acme\ntenant: {tier: gold}\n");
    let never = written(&served, "never.yaml", &large("never").replace("gpus: 16", "gpus: 1000"));

    assert_eq!(served.run(&["dance"]).exit, 2);
    assert_eq!(served.run(&["executions", "show"]).exit, 2);
    assert_eq!(served.run(&["--help"]).exit, 0);
    assert_eq!(served.run(&["executions", "show", "00000000"]).exit, 3);
    assert!(served.run(&["executions", "show", "01a"]).err.contains("at least four digits"));
    let ghost = served.run(&["user", "add", "gus", "--role", "tenant_owner", "--tenant", "ghosty"]);
    assert!(ghost.exit == 0 && ghost.err.contains("tenant ghosty does not exist yet"), "{ghost:?}");
    assert_eq!(served.run(&["--token", "tn_x", "tenants", "list"]).exit, 4);
    assert_eq!(
        Ran::of(tenure(served.dir.path()).args(["--server", "127.0.0.1:1", "tenants", "list"])).exit,
        9
    );
    assert_eq!(served.run(&["tenant", "onboard", "-f", &wrong]).exit, 1);
    assert_eq!(served.run(&["tenant", "onboard", "-f", "nowhere.yaml"]).exit, 2);
    let no = served.run(&["tenant", "onboard", "-f", &never, "--wait"]);
    assert_eq!((no.exit, no.err.contains("reason: ")), (6, true), "policy says no, and why: {no:?}");
    assert_eq!(served.run(&["tenant", "onboard", "-f", &never, "--dry-run"]).exit, 6);
    assert_eq!(served.run(&["tenant", "onboard", "-f", &large_file, "--dry-run"]).exit, 0);

    let asked = served.run(&["tenant", "onboard", "-f", &large_file, "--wait", "-o", "json"]);
    assert_eq!(asked.exit, 10, "{asked:?}");
    let id = asked.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(served.run(&["tenant", "onboard", "-f", &large_file]).exit, 5, "busy");
    let mute = served.run(&["approvals", "refuse", &id]);
    assert!(mute.exit == 2 && mute.err.contains("--reason") && !mute.err.contains("digest"), "{mute:?}");
    assert_eq!(served.run(&["executions", "resume", &id]).exit, 5, "it is not paused");
    assert_eq!(served.run(&["executions", "terminate", &id]).exit, 1, "without a reason");
    assert_eq!(served.run(&["executions", "cancel", &id, "--reason", "test"]).exit, 0);
    assert_eq!(served.run(&["executions", "wait", &id]).exit, 8, "taken back");
}

#[tokio::test]
async fn a_wait_that_times_out_is_reported_and_changes_nothing() {
    let served = Served::start_with(&[("TENURE_SIMULATED_DELAY_MS", "20000")]);
    let nodes = written(&served, "nodes.csv", NODES);
    served.run(&["fleet", "import", &nodes, "--cluster", "eu-1", "--region", "eu"]);
    let file = written(&served, "acme.yaml", &small("acme"));
    let waited = served.run(&["tenant", "onboard", "-f", &file, "--wait", "--timeout", "1s"]);
    assert_eq!(waited.exit, 7, "{waited:?}");
    let all = served.run(&["executions", "list", "-o", "json"]).json();
    assert_eq!(all[0]["open"], true);
}

#[tokio::test]
async fn an_error_as_json_is_the_problem_on_standard_error() {
    let served = Served::start();
    let ran = served.run(&["-o", "json", "executions", "show", "00000000"]);
    assert_eq!(ran.out, "");
    let problem: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(problem["code"], "resource.not_found");
    assert_eq!(problem["status"], 404);
    let own = served.run(&["-o", "json", "tenant", "onboard", "-f", "nowhere.yaml"]);
    assert_eq!((own.exit, own.out.as_str()), (2, ""));
    let own: serde_json::Value = serde_json::from_str(&own.err).unwrap();
    assert_eq!((&own["code"], &own["status"]), (&json!("cli.failed"), &json!(400)), "{own}");
    assert_eq!(own["type"], "urn:tenure:problem:cli.failed");
    let usage = served.run(&["-o", "json", "executions", "show"]);
    let problem: serde_json::Value = serde_json::from_str(&usage.err).unwrap();
    assert_eq!((usage.exit, &problem["code"], &problem["status"]), (2, &json!("cli.failed"), &json!(400)));
    assert!(
        own["remedy"].is_string() && own["detail"].as_str().unwrap().starts_with("nowhere.yaml"),
        "{own}"
    );
}

#[tokio::test]
async fn an_invalid_row_is_reported_with_file_line_and_column() {
    let served = Served::start();
    let nodes = written(&served, "nodes.csv", &NODES.replace("n-7,96000", "n-7,many"));
    let ran = served.run(&["fleet", "import", &nodes, "--cluster", "eu-1", "--region", "eu"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    for part in ["nodes.csv", "no node was imported", "line 8", "cpu_milli"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    assert_eq!(served.run(&["nodes", "list", "-o", "json"]).json(), json!([]));
}

#[tokio::test]
async fn a_closed_pipe_does_not_make_a_command_panic() {
    let served = Served::with_nodes().await;
    for arguments in
        [&["nodes", "list"][..], &["nodes", "list", "-o", "json"], &["workflow", "diagram", "onboarding"]]
    {
        let mut child: Child = tenure(served.dir.path())
            .args(["--server", &served.url])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
        assert_eq!(ended.status.code(), Some(0));
    }
}

#[test]
fn offline_commands_need_no_server() {
    let dir = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| Ran::of(tenure(dir.path()).args(arguments));
    fs::write(dir.path().join("good.yaml"), small("acme")).unwrap();
    fs::write(dir.path().join("bad.yaml"), small("acme").replace("tier:", "teir:")).unwrap();
    fs::write(dir.path().join("tenure.toml"), "[engine]\nleese = \"3s\"\n").unwrap();

    assert!(run(&["workflow", "list"]).out.contains("onboarding"));
    assert!(run(&["workflow", "diagram", "onboarding"]).out.starts_with("stateDiagram-v2"));
    assert_eq!(run(&["workflow", "diagram", "nothing"]).exit, 3);
    for workflow in run(&["workflow", "list", "-o", "json"]).json().as_array().unwrap() {
        let name = workflow["name"].as_str().unwrap();
        assert!(simulator::verification::of(name).is_some(), "`workflow verify` has no proof of {name}");
    }
    assert_eq!(run(&["policy", "check", "good.yaml"]).exit, 0);
    let bad = run(&["policy", "check", "bad.yaml"]);
    assert_eq!((bad.exit, bad.out.contains("line 3")), (1, true), "{bad:?}");
    assert_eq!(run(&["config", "check"]).exit, 0);
    let unknown = run(&["config", "check", "--config", "tenure.toml"]);
    assert_eq!((unknown.exit, unknown.err.contains("leese")), (2, true), "{unknown:?}");
    fs::write(dir.path().join("tenure.toml"), "[retention.workflows]\nonbording = \"1d\"\n").unwrap();
    let unknown = run(&["config", "check", "--config", "tenure.toml"]);
    assert_eq!(
        (unknown.exit, unknown.err.contains("retention.workflows.onbording")),
        (2, true),
        "{unknown:?}"
    );
    let mut told = tenure(dir.path());
    let told = Ran::of(told.args(["config", "check"]).env("TENURE_ENGINE_LEASSE", "30s"));
    let warned = told.err.contains("TENURE_ENGINE_LEASSE") && told.err.contains("TENURE_ENGINE_LEASE?");
    assert!(told.exit == 0 && warned && !told.err.contains("TENURE_LOG"), "{told:?}");
    let gpus = run(&["gpus"]);
    assert_eq!(gpus.exit, 0, "{gpus:?}");
    assert!(!dir.path().join("tenure-data").exists(), "none of them creates a data folder");
    assert_eq!(run(&["store", "check"]).exit, 74, "there is no store");
}
