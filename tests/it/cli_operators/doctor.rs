//! `tenure doctor`, with and without a server.

use super::{run, with};
use crate::served::{Ran, Served};
use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _};

/// The findings of a check as `state` and text.
fn findings(ran: &Ran, check: &str) -> Vec<(String, String)> {
    let told = ran.json();
    let all = told["checks"].as_array().unwrap().iter().filter(|one| one["check"] == check);
    all.map(|one| (one["state"].as_str().unwrap().to_owned(), one["says"].as_str().unwrap().to_owned()))
        .collect()
}

fn has(ran: &Ran, check: &str, state: &str, part: &str) -> bool {
    findings(ran, check).iter().any(|(is, says)| is == state && says.contains(part))
}

#[test]
fn doctor_checks_the_local_machine_if_there_is_no_server() {
    let dir = tempfile::tempdir().unwrap();
    let alone = run(dir.path(), &["doctor", "--offline", "-o", "json"]);
    assert_eq!(alone.exit, 0, "{alone:?}");
    assert!(
        has(&alone, "configuration", "ok", "are valid") && has(&alone, "data", "ok", "does not exist yet")
    );
    assert!(has(&alone, "clock", "ok", "Z") || has(&alone, "clock", "warning", "Z"), "{alone:?}");
    assert!(!dir.path().join("tenure-data").exists(), "it creates nothing");

    let named = run(dir.path(), &["doctor", "--server", "127.0.0.1:1", "-o", "json"]);
    assert_eq!(named.exit, 1, "a named server must answer: {named:?}");
    assert!(has(&named, "server", "failed", "cannot be reached"));

    fs::write(dir.path().join("tenure.toml"), "[engine]\nleese = \"3s\"\n").unwrap();
    let wrong = run(dir.path(), &["doctor", "--offline", "--config", "tenure.toml"]);
    assert_eq!(wrong.exit, 1, "{wrong:?}");
    for part in ["failed", "leese", "did you mean `lease`?", "what to do"] {
        assert!(wrong.out.contains(part), "{part}: {}", wrong.out);
    }
    let strange = with(dir.path(), ("TENURE_ENGINE_LEASSE", "1s"), &["doctor", "--offline", "-o", "json"]);
    assert!(strange.exit == 0 && has(&strange, "configuration", "warning", "TENURE_ENGINE_LEASE?"));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let token = dir.path().join("vault.token");
    fs::write(&token, "s.token").unwrap();
    let vault = format!("{{ endpoint: 'http://{closed}', token_file: {} }}", token.display());
    let targets = format!("keys: {{ vault: {vault} }}\nclusters: {{ eu-1: {{ simulated: {{}} }} }}\n");
    fs::write(dir.path().join("targets.yaml"), targets).unwrap();
    let looked = with(dir.path(), ("TENURE_TARGETS", "targets.yaml"), &["doctor", "-o", "json"]);
    assert_eq!(looked.exit, 1, "{looked:?}");
    assert!(
        has(&looked, "targets", "failed", "keys.vault") && has(&looked, "targets", "ok", "clusters.eu-1")
    );
}

#[tokio::test]
async fn doctor_queries_a_running_server_and_reports_its_problems() {
    let served = Served::start();
    let well = served.run(&["doctor", "-o", "json"]);
    assert_eq!(well.exit, 0, "{well:?}");
    for (check, part) in [
        ("server", "answers"),
        ("server", "the same as this program"),
        ("server", "store: writable"),
        ("clock", "clock"),
        ("token", "admin with admin"),
        ("store", "embedded, reported by the server; not held"),
        ("executions", "no execution needs"),
        ("audit", "sealed"),
    ] {
        assert!(has(&well, check, "ok", part), "{check}: {part}: {well:?}");
    }
    let lock = fs::read_to_string(served.dir.path().join("tenure-data/store/LOCK")).unwrap();
    assert!(has(&well, "data", "ok", &format!("in use by process {}", lock.trim())), "{well:?}");

    assert_eq!(served.run(&["store", "hold", "--reason", "a test"]).exit, 0);
    let held = served.run(&["doctor", "-o", "json"]);
    assert!(held.exit == 0 && has(&held, "store", "warning", "a test"), "{held:?}");
    let stranger = served.run(&["--token", "tn_x", "doctor"]);
    assert!(
        stranger.exit == 1 && stranger.out.contains("the token from --token was rejected"),
        "{stranger:?}"
    );
    assert!(!stranger.out.contains('\u{1b}'), "nobody looks at it on a terminal");
    let (dir, _) = served.killed();
    let after = run(dir.path(), &["doctor", "--offline", "-o", "json"]);
    assert!(after.exit == 0 && has(&after, "store", "ok", "intact"), "{after:?}");
    fs::set_permissions(dir.path().join("tenure-data/admin.token"), fs::Permissions::from_mode(0o644))
        .unwrap();
    assert!(has(&run(dir.path(), &["doctor", "--offline", "-o", "json"]), "data", "warning", "644"));
}
