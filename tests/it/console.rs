//! The served console: its files, its content policy, and its session.

use crate::served::{Answer, Served};
use reqwest::{Method, header};
use serde_json::json;
use std::{collections::BTreeSet, fs, path::Path};

/// The console's folder, each file with its text.
fn files() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/console");
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        files.push((name, fs::read_to_string(entry.path()).unwrap()));
    }
    assert!(files.len() > 20, "{files:?}");
    files
}

/// The address of a file.
fn at(name: &str) -> String {
    if name == "index.html" { "/".into() } else { format!("/console/{name}") }
}

fn header(answer: &Answer, name: header::HeaderName) -> String {
    answer.headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

/// The texts between `open` and the next `close`.
fn between<'a>(text: &'a str, open: &'a str, close: char) -> impl Iterator<Item = &'a str> {
    text.split(open).skip(1).filter_map(move |rest| rest.split_once(close).map(|(inside, _)| inside))
}

#[tokio::test]
async fn every_file_of_the_console_is_served_with_its_type_and_revalidates() {
    let served = Served::start();
    for (name, text) in files() {
        let answer = served.send(served.ask(Method::GET, &at(&name))).await;
        assert_eq!(answer.status, 200, "{name}: a file of the folder is missing in the program");
        let media = match name.rsplit_once('.').unwrap().1 {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            other => panic!("{name}: which type is {other}?"),
        };
        assert_eq!(header(&answer, header::CONTENT_TYPE), media, "{name}");
        assert_eq!(answer.body, json!(text), "{name}: the program is older than the folder");
        assert_eq!(header(&answer, header::CACHE_CONTROL), "no-cache", "{name}");
        let tag = header(&answer, header::ETAG);
        let again = served.ask(Method::GET, &at(&name)).header("if-none-match", &tag);
        let again = served.send(again).await;
        assert_eq!((again.status.as_u16(), &again.body), (304, &json!("")), "{name} {tag}");
        let other = served.ask(Method::GET, &at(&name)).header("if-none-match", "\"of another version\"");
        assert_eq!(served.send(other).await.status, 200, "{name}");
    }
    for name in ["nothing.js", "..%2FCargo.toml", "index.htm"] {
        let answer = served.send(served.ask(Method::GET, &format!("/console/{name}"))).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (404, "route.unknown"), "{name}");
    }
}

#[tokio::test]
async fn the_console_loads_nothing_from_other_hosts_and_has_its_own_content_security_policy() {
    let served = Served::start();
    let answer = served.send(served.ask(Method::GET, "/")).await;
    let policy = header(&answer, header::CONTENT_SECURITY_POLICY);
    let rules = [
        "default-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
    ];
    for rule in rules {
        assert!(policy.split("; ").any(|part| part == rule), "{rule}: {policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("data:") && !policy.contains('*'), "{policy}");
    assert_eq!(header(&answer, header::X_CONTENT_TYPE_OPTIONS), "nosniff");
    assert_eq!(header(&answer, header::REFERRER_POLICY), "no-referrer");

    for (name, text) in files() {
        // A namespace name is never loaded.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for elsewhere in ["http://", "https://", "\"//", "'//", "url(//", "@import"] {
            assert!(!text.contains(elsewhere), "{name} has {elsewhere}");
        }
        let sinks = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "eval(",
            "new Function",
            "srcdoc",
        ];
        for sink in sinks {
            assert!(!text.contains(sink), "{name} interprets text as code or markup: {sink}");
        }
        if name.ends_with(".html") {
            assert!(!text.contains("<style") && !text.contains(" style=") && !text.contains(" on"), "{name}");
            for script in between(&text, "<script", '>') {
                assert!(script.contains(" src=\"console/"), "{name}: <script{script}>");
            }
        }
    }
}

/// All parts that a page loads exist.
#[test]
fn every_file_that_the_console_imports_exists() {
    let files = files();
    let names: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    // Both are separate pages: `/` and `/reference`.
    let mut named = BTreeSet::from(["index.html", "reference.html"]);
    for (name, text) in &files {
        for part in between(text, "from './", '\'').chain(between(text, "\"console/", '"')) {
            assert!(names.contains(part), "{name} names {part}");
            named.insert(part);
        }
    }
    assert_eq!(names, named, "files without a reference are never loaded");
}

#[tokio::test]
async fn a_caller_can_read_their_own_identity_and_permissions() {
    let served = Served::start();
    assert_eq!(served.send(served.ask(Method::GET, "/v1/me")).await.code(), "auth.no_token");
    let olga = served.user("olga", &["platform_ops"], None).await;
    let group = json!({ "name": "night-watch", "members": ["olga"] });
    assert_eq!(served.json_as(&served.admin, "/v1/groups", group).await.status, 201);
    let me = served.get_as(&olga, "/v1/me").await.body;
    assert_eq!(
        (&me["name"], &me["roles"], &me["tenant"]),
        (&json!("olga"), &json!(["platform_ops"]), &json!(null))
    );
    assert_eq!(me["seats"], json!(["platform_ops", "group:night-watch"]), "{me}");
    let may = |me: &serde_json::Value, verb: &str| me["may"].as_array().unwrap().contains(&json!(verb));
    assert!(may(&me, "repair") && !may(&me, "manage_users"), "{me}");
    assert_eq!(me["ends_at"], json!(null), "a token without an expiry: {me}");

    let anna = served.user("anna", &["tenant_owner"], Some("acme")).await;
    let me = served.get_as(&anna, "/v1/me").await.body;
    assert_eq!((&me["tenant"], &me["seats"]), (&json!("acme"), &json!(["tenant_owner"])), "{me}");
    assert!(may(&me, "cancel") && !may(&me, "read_fleet"), "{me}");
}
