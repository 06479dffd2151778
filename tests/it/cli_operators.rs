//! The command line for operators: contexts, doctor, watched lists, diffs, explanations.

mod doctor;

use crate::served::{Ran, Served, large, shared, tenure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Stdio},
};

fn run(dir: &Path, arguments: &[&str]) -> Ran {
    Ran::of(tenure(dir).args(arguments))
}

fn with(dir: &Path, variable: (&str, &str), arguments: &[&str]) -> Ran {
    Ran::of(tenure(dir).env(variable.0, variable.1).args(arguments))
}

fn interrupted(mut child: Child) -> i32 {
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap().code().unwrap()
}

#[test]
fn completions_and_man_pages_contain_every_command() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let told = run(dir.path(), &["completions", shell]);
        assert_eq!(told.exit, 0, "{shell}: {told:?}");
        for word in ["doctor", "offboard", "break-glass"] {
            assert!(told.out.contains(word), "{shell} does not complete {word}");
        }
    }
    let unknown = run(dir.path(), &["completions", "zhs"]);
    assert!(unknown.exit == 2 && unknown.err.contains("zsh"), "{unknown:?}");

    let page = run(dir.path(), &["man"]);
    assert!(page.exit == 0 && page.out.contains(".TH tenure 1") && page.out.contains("doctor"), "{page:?}");
    assert_eq!(run(dir.path(), &["man", "--dir", "pages/man1"]).exit, 0);
    for (usage, _) in cli::commands() {
        let words = usage.split(' ').take_while(|word| !word.starts_with(['<', '[', '-']));
        let name = words.collect::<Vec<_>>().join("-");
        let page = fs::read_to_string(dir.path().join("pages/man1").join(format!("{name}.1")));
        assert!(page.is_ok_and(|page| page.contains(&format!(".TH {name} 1"))), "{name} has no page");
    }
}

/// A folder without a server's data, with a context `here` for the server.
fn elsewhere(served: &Served) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut set = tenure(dir.path());
    set.args(["context", "set", "here", "--server", &served.url, "--token-file", "-"]).stdin(Stdio::piped());
    let mut child = set.stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(served.admin.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    dir
}

#[tokio::test]
async fn flags_override_the_environment_and_the_environment_overrides_a_context() {
    let served = Served::start();
    let dir = elsewhere(&served);
    let list = ["tenants", "list"];
    assert_eq!(run(dir.path(), &list).exit, 0, "the first context is used");
    let nowhere = ("TENURE_SERVER", "127.0.0.1:1");
    assert_eq!(with(dir.path(), nowhere, &list).exit, 9);
    assert_eq!(with(dir.path(), nowhere, &[&list[..], &["--context", "here"]].concat()).exit, 0);
    assert_eq!(with(dir.path(), ("TENURE_TOKEN", "tn_x"), &list).exit, 4);
    let flag = [&list[..], &["--token", &served.admin]].concat();
    assert_eq!(with(dir.path(), ("TENURE_TOKEN", "tn_x"), &flag).exit, 0);

    assert_eq!(run(dir.path(), &["context", "set", "gone", "--server", "127.0.0.1:1"]).exit, 0);
    assert_eq!(run(dir.path(), &list).exit, 0, "a new context is not yet the current one");
    assert_eq!(with(dir.path(), ("TENURE_CONTEXT", "gone"), &list).exit, 9);
    assert_eq!(run(dir.path(), &["context", "use", "gone"]).exit, 0);
    assert_eq!(run(dir.path(), &list).exit, 9);
    let shown = with(dir.path(), ("TENURE_TOKEN", "tn_x"), &["context", "show", "-o", "json"]).json();
    assert_eq!(shown["server"], json!({ "is": "http://127.0.0.1:1", "by": "context gone" }));
    assert_eq!(shown["token"], json!({ "by": "TENURE_TOKEN" }));
    let near = run(dir.path(), &["--context", "heer", "tenants", "list"]);
    assert!(near.exit == 3 && near.err.contains("did you mean here?"), "{near:?}");
    assert_eq!(run(dir.path(), &["context", "remove", "gone"]).exit, 0);
    assert_eq!(run(dir.path(), &["context", "remove", "gone"]).exit, 3);
}

#[tokio::test]
async fn a_token_is_private_is_sent_only_to_its_server_and_is_never_printed() {
    let served = Served::start();
    let dir = elsewhere(&served);
    let file = dir.path().join("settings/tenure/contexts.toml");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&file).unwrap().contains(&served.admin));
    for said in [&["context", "list"][..], &["context", "show"], &["context", "use", "here"]] {
        for format in ["table", "wide", "json", "yaml"] {
            let ran = run(dir.path(), &[said, &["-o", format]].concat());
            assert_eq!(ran.exit, 0, "{ran:?}");
            assert!(!format!("{ran:?}").contains(&served.admin), "{said:?}");
        }
    }

    // A request to another server has no token of this one.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        let mut asked = vec![0; 4_096];
        let read = stream.read(&mut asked).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{\"items\":[]}").unwrap();
        String::from_utf8_lossy(&asked[..read]).into_owned()
    });
    assert_eq!(run(dir.path(), &["--server", &address, "tenants", "list"]).exit, 0);
    let heard = heard.join().unwrap();
    assert!(
        heard.starts_with("GET /v1/tenants") && !heard.to_lowercase().contains("authorization"),
        "{heard}"
    );
    assert_eq!(run(dir.path(), &["context", "set", "here", "--server", &address]).exit, 0);
    assert!(
        !fs::read_to_string(&file).unwrap().contains(&served.admin),
        "the token is not stored for another server"
    );

    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let open = run(dir.path(), &["tenants", "list"]);
    assert!(open.exit == 2 && open.err.contains("chmod 600"), "{open:?}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&file, "[contexts.here]\nserver = \"x\"\ntoken = \"tn_secret\" oops\n").unwrap();
    let broken = run(dir.path(), &["tenants", "list"]);
    assert!(
        broken.exit == 2 && broken.err.contains("line 3") && !broken.err.contains("tn_secret"),
        "{broken:?}"
    );
}

#[tokio::test]
async fn tables_show_relative_times_and_wide_tables_show_timestamps_and_more_columns() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&shared("acme")).await;
    served.ended(&id).await;
    let table = served.run(&["executions", "list"]).out;
    assert!(table.contains("ago") || table.contains("now"), "{table}");
    assert!(!table.contains("REQUESTED BY"));
    let wide = served.run(&["executions", "list", "-o", "wide"]).out;
    assert!(wide.contains("REQUESTED BY") && wide.contains("T") && !wide.contains(" ago"), "{wide}");
    let title = wide.lines().next().unwrap();
    let (at, row) = (title.find("REQUESTED BY").unwrap(), wide.lines().nth(1).unwrap());
    assert!(row[at..].starts_with("admin "), "columns are aligned with their titles:\n{wide}");
    let shown = served.run(&["tenants", "show", "acme"]).out;
    assert!(shown.contains("Z (now)") || shown.contains(" ago)"), "{shown}");
    let shown = served.run(&["tenants", "show", "acme", "-o", "wide"]).out;
    assert!(!shown.contains("Z (now)") && !shown.contains(" ago)"), "{shown}");
    for kind in ["executions", "tenants", "nodes", "approvals", "schedules", "limits", "users", "engines"] {
        let rows = served.run(&["get", kind, "-o", "yaml"]);
        assert_eq!(rows.exit, 0, "{rows:?}");
        assert!(serde_saphyr::from_str::<Value>(&rows.out).unwrap().is_array(), "{kind}");
    }
}

#[tokio::test]
async fn a_dry_run_prints_a_diff_and_colours_it_as_configured() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&shared("acme")).await;
    served.ended(&id).await;
    let set = ["quota", "set", "acme/research", "gpu/H100", "2", "--reason", "done", "--dry-run"];
    let dry = served.run(&set);
    assert_eq!(dry.exit, 0, "{dry:?}");
    let lines: Vec<&str> = dry.out.lines().collect();
    assert!(lines.contains(&"- nominal: 4") && lines.contains(&"+ nominal: 2"), "{}", dry.out);
    assert!(!dry.out.contains('\u{1b}'), "in a pipe there are no colours");
    let coloured = |arguments: &[&str], variable| {
        Ran::of(
            tenure(served.dir.path())
                .args(["--server", &served.url])
                .args(set)
                .args(arguments)
                .envs(variable),
        )
        .out
    };
    let always = coloured(&["--color", "always"], None);
    assert!(always.contains("\u{1b}[31m- nominal: 4\u{1b}[0m"), "{always}");
    assert!(coloured(&[], Some(("CLICOLOR_FORCE", "1"))).contains("\u{1b}[32m+ nominal: 2"));
    assert!(!coloured(&["--color", "never"], Some(("CLICOLOR_FORCE", "1"))).contains('\u{1b}'));
    let offboard = served.run(&["tenant", "offboard", "acme", "--dry-run"]).out;
    assert!(offboard.contains("\n- tenant: acme"), "{offboard}");
    fs::write(served.dir.path().join("new.yaml"), large("globex")).unwrap();
    let onboard = served.run(&["tenant", "onboard", "-f", "new.yaml", "--dry-run"]).out;
    assert!(onboard.contains("\n+ tenant: globex") && onboard.contains("nothing was changed"), "{onboard}");
}

#[tokio::test]
async fn a_watched_list_is_printed_again_after_a_change() {
    let served = Served::with_nodes().await;
    let mut child = tenure(served.dir.path())
        .args(["--server", &served.url, "tenants", "list", "--watch", "--every", "1s", "-o", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "[]");
    // The absence of output can only be awaited: two more polls find the same.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    served.onboard(&shared("acme")).await;
    let next: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next[0]["id"], "acme", "unchanged rows are not printed again");
    assert_eq!(interrupted(child), 130);
    for list in [&["user", "list"][..], &["group", "list"], &["delegations", "list"], &["sweep", "list"]] {
        let watched = [&["--server", &served.url][..], list, &["--watch", "-o", "json"]].concat();
        let mut child = tenure(served.dir.path()).args(watched).stdout(Stdio::piped()).spawn().unwrap();
        let first = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        assert!(first.starts_with('['), "{list:?}: {first}");
        assert_eq!(interrupted(child), 130);
    }
}

#[tokio::test]
async fn every_kind_has_the_same_verbs_and_an_unknown_name_gets_a_suggestion() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&shared("acme")).await;
    served.ended(&id).await;
    let row = served.run(&["get", "tenant", "acme"]);
    assert_eq!((row.exit, row.out.lines().count()), (0, 2), "{row:?}");
    assert_eq!(served.run(&["get", "nodes", "n-1", "-o", "json"]).json()["id"], "n-1");
    assert!(served.run(&["get", "executions", "--filter", "tenant = acme"]).out.contains(&id));
    assert_eq!(served.run(&["get", "nodes", "--filter", "tenant = acme"]).exit, 2);
    assert_eq!(served.run(&["get", "users", "admin", "-o", "json"]).json()["name"], "admin");
    let described = served.run(&["describe", "execution", &id]);
    assert!(described.out.contains("trail:") && described.out.contains("COMMIT"), "{described:?}");
    assert!(served.run(&["describe", "engines", "nobody"]).exit == 3);
    for kind in ["access-policies", "audit", "deliveries", "occurrences", "usage"] {
        let all = served.run(&["get", kind, "-o", "json"]);
        assert!(all.exit == 0 && all.json().is_array(), "{kind}: {all:?}");
    }
    assert!(served.run(&["get", "audit", "--where", "tenant=acme"]).out.contains("acme/1"));
    assert_eq!(served.run(&["schedules", "trigger", "loan_expiry"]).exit, 0);
    let swept = served.run(&["get", "occurrences", "--where", "schedule=loan_expiry", "-o", "json"]).json();
    let nominal = swept[0]["nominal"].as_str().unwrap();
    let one = served.run(&["get", "occurrence", &format!("loan_expiry/{nominal}"), "-o", "json"]).json();
    assert_eq!((&one["schedule"], &one["nominal"]), (&swept[0]["schedule"], &swept[0]["nominal"]));
    assert_eq!(served.run(&["get", "occurrence", nominal]).exit, 2, "the schedule is missing");
    assert_eq!(served.run(&["get", "delivery", "nobody/x"]).exit, 3);

    let kind = served.run(&["get", "tenats"]);
    assert!(kind.exit == 2 && kind.err.contains("tenants"), "{kind:?}");
    let command = served.run(&["tenants", "lits"]);
    assert!(command.exit == 2 && command.err.contains("'list'"), "{command:?}");
    let flag = served.run(&["tenants", "list", "--wher", "x=y"]);
    assert!(flag.exit == 2 && flag.err.contains("--where"), "{flag:?}");
    let near = served.run(&["tenants", "show", "acne"]);
    assert!(near.exit == 3 && near.err.contains("did you mean acme?"), "{near:?}");
    let problem = served.run(&["describe", "tenants", "acne", "-o", "json"]).err;
    assert_eq!(serde_json::from_str::<Value>(&problem).unwrap()["did_you_mean"], "acme");
    let far = served.run(&["tenants", "show", "zzzzzzzzzz"]);
    assert!(far.exit == 3 && !far.err.contains("did you mean"), "{far:?}");
}

#[test]
fn a_code_is_explained_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let short = run(dir.path(), &["explain", "capacity.short"]);
    assert!(short.exit == 0 && short.out.contains("what to do: nothing: the execution joins"), "{short:?}");
    let many = run(dir.path(), &["explain", "schedule.changed", "-o", "json"]).json();
    let of: BTreeSet<&str> = many.as_array().unwrap().iter().map(|one| one["of"].as_str().unwrap()).collect();
    assert_eq!(of, BTreeSet::from(["failure", "problem"]), "it is a code of both kinds");
    assert!(run(dir.path(), &["explain", "overdue"]).out.contains("parked or overdue"));
    assert!(run(dir.path(), &["explain", "10"]).out.contains("it waits for an approval"));
    let near = run(dir.path(), &["explain", "capacity.shrot"]);
    assert!(near.exit == 3 && near.err.contains("did you mean capacity.short?"), "{near:?}");
    assert!(run(dir.path(), &["explain", "-o", "json"]).json().as_array().unwrap().len() > 150);
}

#[tokio::test]
async fn the_command_line_can_wait_for_a_triggered_execution() {
    let served = Served::with_nodes().await;
    let file = served.dir.path().join("drill.yaml");
    let start = "cron: '0 0 2 * * *'\nzone: UTC\nstart:\n  workflow: incident_response\n  data: {kind: other, what: drill, tenants: []}\n";
    fs::write(&file, start).unwrap();
    let set = served.run(&["schedules", "set", "drill", "-f", file.to_str().unwrap()]);
    assert_eq!(set.exit, 0, "{set:?}");
    let waited = served.run(&["schedules", "trigger", "drill", "--wait", "--timeout", "20s", "-o", "json"]);
    assert!([0, 10].contains(&waited.exit), "{waited:?}");
    assert_eq!(waited.json()["workflow"], "incident_response");
    let built_in = served.run(&["schedules", "trigger", "drift", "--wait"]);
    assert!(built_in.exit == 5 && built_in.err.contains("started no execution"), "{built_in:?}");
}

/// Each exit code occurs as `docs/cli.md` describes it, and there is no other.
#[tokio::test]
async fn every_exit_code_is_returned_in_its_documented_situation() {
    let served = Served::with_nodes().await;
    let dir = served.dir.path();
    fs::write(dir.join("large.yaml"), large("acme")).unwrap();
    fs::write(dir.join("never.yaml"), large("never").replace("gpus: 16", "gpus: 1000")).unwrap();
    fs::write(dir.join("bad.yaml"), "name: acme\n").unwrap();
    fs::write(dir.join("other.yaml"), large("other")).unwrap();
    let asked = served.run(&["tenant", "onboard", "-f", "large.yaml", "--wait", "-o", "json"]);
    let id = asked.json()["id"].as_str().unwrap().to_owned();
    let empty = tempfile::tempdir().unwrap();
    let mut watching = tenure(dir);
    watching.args(["--server", &served.url, "executions", "watch", &id]).stderr(Stdio::piped());
    let mut watching = watching.stdout(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(watching.stderr.take().unwrap()).lines();
    assert!(said.next().unwrap().unwrap().contains("AwaitingApproval"), "it looks");

    let reached = [
        (0, run(dir, &["--version"]).exit),
        (1, run(dir, &["policy", "check", "bad.yaml"]).exit),
        (2, run(dir, &["dance"]).exit),
        (3, served.run(&["executions", "show", "00000000"]).exit),
        (4, served.run(&["--token", "tn_x", "tenants", "list"]).exit),
        (5, served.run(&["tenant", "onboard", "-f", "large.yaml"]).exit),
        (6, served.run(&["tenant", "onboard", "-f", "never.yaml", "--wait"]).exit),
        (7, served.run(&["executions", "watch", &id, "--timeout", "1s"]).exit),
        (9, run(dir, &["--server", "127.0.0.1:1", "tenants", "list"]).exit),
        (10, asked.exit),
        (11, served.run(&["tenant", "onboard", "-f", "other.yaml", "--dry-run", "--exit-code"]).exit),
        (74, run(empty.path(), &["store", "check"]).exit),
        (130, interrupted(watching)),
        (0, served.run(&["executions", "cancel", &id, "--reason", "test"]).exit),
        (8, served.run(&["executions", "wait", &id]).exit),
    ];
    for (wanted, is) in reached {
        assert_eq!(is, wanted);
    }
    let walked: BTreeSet<u8> = reached.iter().map(|(code, _)| u8::try_from(*code).unwrap()).collect();
    assert_eq!(walked, program::exit::exits().into_iter().collect());
}
