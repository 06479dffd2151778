//! Commands that run a server or use its folder: start, stop, the admin token, store export and import, the demo.

use crate::served::{NODES, Ran, Running, Served, TENURE, large, small, tenure};
use rustix::process::Signal;
use std::{fs, process::Stdio};

/// Only a successful start generates the token.
#[test]
fn a_server_that_cannot_open_its_port_creates_no_token() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();

    let ran = tenure(dir.path()).args(["serve", "--listen", &address]).output().unwrap();

    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(!ran.status.success() && said.contains("another program uses it"), "{said}");
    assert!(!dir.path().join("tenure-data/admin.token").exists());
}

/// A log whose reader has gone, or that is on a full disk, stops neither the answers of the server nor its orderly end.
#[test]
fn a_server_that_cannot_write_its_log_continues_and_stops_on_request() {
    let full = || fs::File::options().write(true).open("/dev/full").unwrap().into();
    for log in [Stdio::piped as fn() -> Stdio, full] {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Running::start_telling(dir.path(), &[("TENURE_LOG", "debug")], log());
        drop(server.child.stderr.take());
        for _ in 0..3 {
            let listed =
                Ran::of(tenure(dir.path()).args(["--server", &server.url, "tenants", "list", "-o", "json"]));
            assert_eq!((listed.exit, listed.out.trim()), (0, "[]"), "{listed:?}");
        }
        assert_eq!(server.stop(Signal::TERM), Some(0));
    }
}

#[tokio::test]
async fn a_second_server_in_the_same_folder_is_refused_because_the_folder_is_in_use() {
    let served = Served::start();
    let second = Ran::of(tenure(served.dir.path()).args(["serve", "--listen", "127.0.0.1:0"]));
    assert_eq!(second.exit, 74, "{second:?}");
    assert!(second.err.contains("in use") || second.err.contains("another process"), "{}", second.err);
    assert!(!second.err.contains("panicked"));
    assert_eq!(served.get("/readyz").await.status, 200, "the first server continues");
}

#[test]
fn a_stopping_server_finishes_its_requests_and_the_next_one_continues() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("nodes.csv"), NODES).unwrap();
    fs::write(dir.path().join("acme.yaml"), small("acme")).unwrap();
    let server = Running::start(dir.path(), &[("TENURE_SIMULATED_DELAY_MS", "200")]);
    let url = server.url.clone();
    let run =
        |url: &str, arguments: &[&str]| Ran::of(tenure(dir.path()).args(["--server", url]).args(arguments));
    assert_eq!(run(&url, &["fleet", "import", "nodes.csv", "--cluster", "eu-1", "--region", "eu"]).exit, 0);
    let id = run(&url, &["-o", "json", "tenant", "onboard", "-f", "acme.yaml"]).json()["id"].clone();

    assert_eq!(server.stop(Signal::TERM), Some(0));
    let checked = run(&url, &["store", "check"]);
    assert_eq!(checked.exit, 0, "{checked:?}");

    let server = Running::start(dir.path(), &[]);
    let url = server.url.clone();
    let waited = run(&url, &["executions", "wait", id.as_str().unwrap(), "--timeout", "20s"]);
    assert_eq!(waited.exit, 0, "{waited:?}");
    assert_eq!(server.stop(Signal::INT), Some(0));
}

#[test]
fn a_store_can_be_moved_with_open_executions() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("nodes.csv"), NODES).unwrap();
    fs::write(dir.path().join("acme.yaml"), large("acme")).unwrap();
    let run =
        |url: &str, arguments: &[&str]| Ran::of(tenure(dir.path()).args(["--server", url]).args(arguments));
    let server = Running::start(dir.path(), &[]);
    let url = server.url.clone();
    run(&url, &["fleet", "import", "nodes.csv", "--cluster", "eu-1", "--region", "eu"]);
    assert_eq!(run(&url, &["tenant", "onboard", "-f", "acme.yaml", "--wait"]).exit, 10);
    drop(server);

    let exported = run(&url, &["store", "export", "all.jsonl"]);
    assert_eq!(exported.exit, 0, "{exported:?}");
    fs::rename(dir.path().join("tenure-data"), dir.path().join("old")).unwrap();
    let imported = run(&url, &["store", "import", "all.jsonl"]);
    assert_eq!(imported.exit, 0, "{imported:?}");
    assert_eq!(run(&url, &["store", "import", "all.jsonl"]).exit, 74, "an existing store is not overwritten");

    let server = Running::start(dir.path(), &[]);
    let url = server.url.clone();
    assert_eq!(run(&url, &["approvals", "list", "-o", "json"]).json().as_array().unwrap().len(), 1);
    drop(server);
}

#[tokio::test]
async fn the_admin_token_is_private_never_printed_and_replaced_if_its_file_is_missing() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tenure-data/admin.token");
    let start = || {
        let mut server = Running::start(dir.path(), &[]);
        let said = std::mem::take(&mut server.said).join("\n");
        assert_eq!(server.stop(Signal::TERM), Some(0));
        said
    };
    let first = start();
    let token = fs::read_to_string(&file).unwrap();
    let place = "admin token: in ./tenure-data/admin.token";
    assert!(first.contains(place) && !first.contains("tn_"), "{first}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!start().contains("admin token"), "the second start generates none");
    fs::remove_file(&file).unwrap();
    let third = start();
    let renewed = fs::read_to_string(&file).unwrap();
    assert!(third.contains(place) && !third.contains("tn_") && renewed != token, "{third}");
}

#[test]
fn the_demo_does_what_it_announces_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let ran = Ran::of(tenure(dir.path()).arg("demo").env("TMPDIR", dir.path()));
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(
        ran.out.contains("killed in TakingNodes") && ran.out.contains("all files are removed"),
        "{}",
        ran.out
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{TENURE} left files");
}
