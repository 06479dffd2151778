//! Signing in from the command line, and the report of `tenure doctor` on a session.

use super::House;
use crate::served::{Ran, TENURE, tenure};
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Doctor run with a session reports when it ends, and how to start another.
#[tokio::test]
async fn doctor_does_not_claim_that_a_session_is_permanent() {
    let house = House::start().await;
    let (_, session) = house.with(house.identity.token(&json!({}))).await;
    let doctor = |token: &str| {
        let asked = ["--server", &house.url, "--token", token, "doctor", "-o", "json"];
        let told = Ran::of(tenure(house.dir.path()).args(asked)).json();
        let is = |one: &&Value| one["check"] == "token";
        told["checks"].as_array().unwrap().iter().find(is).unwrap().clone()
    };
    let token = doctor(session["token"].as_str().unwrap());
    let says = token["says"].as_str().unwrap();
    assert!(
        says.contains("oidc:alice") && says.contains("it ends") && !says.contains("it has no end"),
        "{token}"
    );
    let admin = doctor(&house.admin);
    assert!(admin["says"].as_str().unwrap().contains("it has no end"), "{admin}");
    let over = doctor("tn_x");
    assert!(over["remedy"].as_str().unwrap().contains("`tenure login`"), "{over}");
}

/// The command line: the device flow, and an ID token from a file.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_line_signs_in_by_the_device_flow_and_out_again() {
    let house = House::start().await;
    let told = command(&house, &["login"], None);
    let (token, said) = told.unwrap();
    assert!(said.contains("WDJB-MJHT") && said.contains("oidc:alice"), "{said}");
    assert_eq!(house.me(token.trim()).await.1["name"], "oidc:alice");
    command(&house, &["logout"], Some(token.trim())).unwrap();
    assert_eq!(house.me(token.trim()).await.0, 401);

    let file = house.dir.path().join("id-token");
    fs::write(&file, house.identity.token(&json!({ "sub": "robot" }))).unwrap();
    let (token, _) = command(&house, &["login", "--id-token-file", file.to_str().unwrap()], None).unwrap();
    assert_eq!(house.me(token.trim()).await.1["name"], "oidc:robot");
}

/// The token of a sign-in is stored with the context, is never shown, and is removed at sign-out.
#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_is_stored_with_its_context_until_it_ends() {
    let house = House::start().await;
    let file = house.dir.path().join("id-token");
    fs::write(&file, house.identity.token(&json!({}))).unwrap();
    let login = ["login", "--save", "--id-token-file", file.to_str().unwrap()];
    let run = |args: &[&str]| {
        let mut command = tenure(house.dir.path());
        let ran =
            command.env("XDG_CONFIG_HOME", house.dir.path().join("contexts")).args(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (ran.status.code(), text(ran.stdout), text(ran.stderr))
    };
    let kept = || fs::read_to_string(house.dir.path().join("contexts/tenure/contexts.toml")).unwrap();

    let (code, _, said) = run(&[&["--server", &house.url], &login[..]].concat());
    assert!(code == Some(2) && said.contains("context set"), "{said}");
    run(&["--server", &house.url, "context", "set", "here"]);
    let (code, out, said) = run(&login);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{said}");
    assert!(said.contains("the token is saved in context here"), "{said}");
    let text = kept();
    let token =
        text.lines().find_map(|line| line.strip_prefix("token = \"")).unwrap_or_else(|| panic!("{text}"));
    let token = token.trim_end_matches('"').to_owned();
    assert_eq!(house.me(&token).await.1["name"], "oidc:alice");
    assert_eq!(run(&["logout"]).0, Some(0));
    assert!(!kept().contains("token = "), "{}", kept());
    assert_eq!(house.me(&token).await.0, 401, "the session of the context has ended");
}

fn command(house: &House, args: &[&str], token: Option<&str>) -> Result<(String, String), String> {
    assert!(Path::new(TENURE).exists());
    let mut command = tenure(house.dir.path());
    command.args(["--server", &house.url]).args(args);
    if let Some(token) = token {
        command.env("TENURE_TOKEN", token);
    }
    let ran = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, said) = (text(ran.stdout), text(ran.stderr));
    if ran.status.success() { Ok((out, said)) } else { Err(said) }
}
