//! Signing in through a certified OpenID provider: in the console, and on the command line by the device flow.

use super::{Browser, TENURE};
use reqwest::Client;
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Command, Stdio},
};
use tests::processes::{Process, Server};

/// The settings of a server that trusts `issuer`.
fn settings(dir: &Path, issuer: &str, url: &str) -> String {
    let secret = dir.join("client-secret");
    std::fs::write(&secret, "a secret: with odd / signs\n").unwrap();
    let file = dir.join("tenure.toml");
    let text = format!(
        "[oidc]\nissuer = {issuer:?}\nclient_id = \"tenure\"\ndevice_client_id = \"tenure-cli\"\n\
         client_secret_file = {secret:?}\nurl = {url:?}\nscopes = \"openid email groups\"\nname_claim = \"email\"\n\
         [[oidc.groups]]\ngroup = \"gpu-*\"\nroles = [\"platform_ops\"]\n"
    );
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

async fn me(server: &Server, token: &str) -> (u16, Value) {
    let asked = Client::new().get(format!("{}/v1/me", server.url())).bearer_auth(token);
    let answer = asked.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// Signs in at the provider's own pages.
async fn sign_in_as(browser: &Browser, name: &str) {
    browser.write("input[name=login]", name).await;
    browser.write("input[name=password]", "any").await;
    browser.send("button[type=submit]").await;
}

#[tokio::test]
async fn users_sign_in_through_a_certified_provider_in_the_console_and_on_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let Some(browser) = Browser::start(&dir.path().join("profile")).await else {
        return e2e::skipped(
            "chromedriver",
            "tests/servers/prepare.sh installs chromium and chromium-driver",
        );
    };
    if Command::new("npm").arg("--version").output().is_err() {
        return e2e::skipped("npm", "tests/servers/prepare.sh installs nodejs and npm");
    }
    let mut server = Server::start_with(TENURE.as_ref(), &dir.path().join("data"), None, Vec::new());
    let mut command = Command::new(e2e::scripts().join("oidc-up.sh"));
    command.arg(format!("{}/login/callback", server.url()));
    let (_provider, line) = Process::start(&mut command, "issuer ");
    let issuer = line.trim_start_matches("issuer ").trim().to_owned();
    server.set("TENURE_CONFIG", &settings(dir.path(), &issuer, &server.url()));
    server.kill();
    server.restart();

    browser.open(&format!("{}/#/executions", server.url())).await;
    browser.click(".provider button").await;
    sign_in_as(&browser, "nobody").await;
    browser.send("button[type=submit]").await;
    let refused = browser.text(".problem").await;
    assert!(refused.contains("oidc:") || refused.contains("nobody@example.com"), "{refused}");
    browser.open(&format!("{issuer}/session/end")).await;
    browser.send("button[value=yes]").await;

    browser.open(&format!("{}/#/executions", server.url())).await;
    browser.click(".provider button").await;
    sign_in_as(&browser, "alice").await;
    browser.send("button[type=submit]").await;
    assert_eq!(browser.text(".who").await.trim(), "oidc:alice@example.com");
    let at = browser.run("return location.href").await;
    assert_eq!(at, format!("{}/#/executions", server.url()), "back at the requested page, without the code");
    let token = browser.run("return sessionStorage.getItem('tenure.token')").await;
    let token = token.as_str().unwrap().to_owned();
    assert_eq!(me(&server, &token).await.1["roles"], serde_json::json!(["platform_ops"]));
    browser.click("[data-out]").await;
    browser.text(".provider").await;
    assert_eq!(me(&server, &token).await.0, 401, "the sign-out also ends the session at the server");

    let mut login = Command::new(TENURE)
        .args(["--server", &server.url(), "login"])
        .env_remove("TENURE_TOKEN")
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(login.stderr.take().unwrap()).lines().map_while(Result::ok);
    let told = said.find(|line| line.contains("open http")).expect("where to go");
    let at = told.split(' ').find(|word| word.starts_with("http")).unwrap();
    browser.open(at).await;
    // The user compares the code and then approves the request; she is already signed in at the provider.
    browser.send("button[type=submit]").await;
    if browser.count("input[name=login]").await > 0 {
        sign_in_as(&browser, "alice").await;
    }
    browser.send("button[type=submit]").await;
    let mut token = String::new();
    login.stdout.take().unwrap().read_to_string(&mut token).unwrap();
    assert!(login.wait().unwrap().success(), "{:?}", said.collect::<Vec<_>>());
    assert_eq!(me(&server, token.trim()).await.1["name"], "oidc:alice@example.com");
}
