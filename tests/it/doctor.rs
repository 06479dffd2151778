//! The external systems that doctor checks: the identity provider and the receivers of notifications.

use crate::served::{Ran, tenure};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    path::Path,
    sync::mpsc,
};
use tests::servers::identity::{CLIENT, Identity};

/// Returns the findings under these settings.
fn looked(dir: &Path, settings: &str, more: &[&str]) -> Vec<(String, String, String)> {
    fs::write(dir.join("tenure.toml"), settings).unwrap();
    let ran = Ran::of(tenure(dir).args(["doctor", "--config", "tenure.toml", "-o", "json"]).args(more));
    let told = ran.json();
    let part = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    let checks = told["checks"].as_array().unwrap().iter();
    checks.map(|one| (part(one, "check"), part(one, "state"), part(one, "says"))).collect()
}

fn has(found: &[(String, String, String)], check: &str, state: &str, part: &str) {
    let is = |one: &(String, String, String)| one.0 == check && one.1 == state && one.2.contains(part);
    assert!(found.iter().any(is), "{check} {state} {part}: {found:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_reports_if_users_can_sign_in_through_the_provider() {
    const CHECK: &str = "identity provider";
    program::install_tls();
    let (identity, dir) = (Identity::start().await, tempfile::tempdir().unwrap());
    let dir = dir.path();
    let house = |issuer: &str, more: &str| {
        format!(
            "[oidc]\nissuer = {issuer:?}\nclient_id = {CLIENT:?}\n{more}\n\
             [[oidc.groups]]\ngroup = \"ops\"\nroles = [\"platform_ops\"]\n"
        )
    };
    let device = format!("device_client_id = {CLIENT:?}\nurl = \"https://tenure.example.com\"");
    let well = looked(dir, &house(&identity.issuer, &device), &[]);
    has(&well, CHECK, "ok", "answers with the same issuer");
    has(&well, CHECK, "ok", "it offers the device flow");
    has(&well, CHECK, "ok", "https://tenure.example.com/login/callback");

    let renamed = looked(dir, &house(&format!("{}/", identity.issuer), ""), &[]);
    has(&renamed, CHECK, "failed", "issuer is");
    let behind = looked(dir, &house(&identity.issuer, "url = \"https://example.com/tenure\""), &[]);
    has(&behind, CHECK, "warning", "has a path or a query");
    let unread = looked(dir, &house(&identity.issuer, "client_secret_file = \"nowhere\""), &["--offline"]);
    has(&unread, "configuration", "failed", "oidc.client_secret_file: nowhere");
    let unread = looked(dir, &house(&identity.issuer, "ca_file = \"nowhere\""), &["--offline"]);
    has(&unread, "configuration", "failed", "oidc.ca_file: nowhere");

    identity.away(true);
    has(
        &looked(dir, &house(&identity.issuer, ""), &[]),
        CHECK,
        "failed",
        "discovery document has status 502",
    );
    let offline = looked(dir, &house(&identity.issuer, ""), &["--offline"]);
    assert!(!offline.iter().any(|one| one.1 == "failed"), "nobody was asked: {offline:#?}");
    has(&looked(dir, "", &["--offline"]), CHECK, "ok", "none is set");
}

#[test]
fn doctor_tests_the_connections_that_the_server_names_and_sends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = listener.local_addr().unwrap();
    let (told, heard) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let first = BufReader::new(stream.try_clone().unwrap()).lines().next().unwrap().unwrap();
            let _ =
                stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            told.send(first).unwrap();
        }
    });
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    fs::write(dir.join("signs"), "a secret that is long enough").unwrap();
    let house = |secret: &str| {
        format!(
            "[notify.channels.hook]\nkind = \"webhook\"\nurl = \"http://{open}/of/ours\"\nsecret_file = {secret:?}\n\
             [notify.channels.mail]\nkind = \"email\"\nserver = \"{closed}\"\ntls = \"none\"\n\
             from = \"tenure@example.com\"\nto = [\"ops@example.com\"]\n\
             [traces]\nurl = \"http://{closed}/v1/traces\"\n"
        )
    };
    let found = looked(dir, &house("signs"), &[]);
    has(&found, "notifications", "ok", "hook: reached");
    has(&found, "notifications", "failed", "mail: ");
    has(&found, "traces", "warning", "cannot be reached");
    assert_eq!(heard.recv().unwrap(), "HEAD / HTTP/1.1", "the request has no body and no path");

    fs::write(dir.join("short"), "short").unwrap();
    let short = looked(dir, &house("short"), &["--offline"]);
    has(&short, "notifications", "failed", "notify.channels.hook.secret_file");
    has(&short, "notifications", "ok", "mail: its settings and secrets are valid; it was not called");
    assert!(heard.try_recv().is_err(), "nobody was asked");
    has(&looked(dir, "", &["--offline"]), "notifications", "warning", "no channel is set");
}
