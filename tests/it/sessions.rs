//! Signing in through an identity provider.

mod command_line;
mod refused;

use crate::served::Running;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use reqwest::{Client, Method, Response, StatusCode, Url, redirect::Policy};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;
use tests::servers::identity::{Identity, SECRET};

/// A server with a provider.
struct House {
    dir: TempDir,
    url: String,
    admin: String,
    identity: Identity,
    http: Client,
    process: Option<Running>,
}

impl House {
    async fn start() -> Self {
        Self::start_with("8h").await
    }

    async fn start_with(session: &str) -> Self {
        program::install_tls();
        let (identity, dir) = (Identity::start().await, tempfile::tempdir().unwrap());
        fs::write(dir.path().join("secret"), format!("{SECRET}\n")).unwrap();
        let settings = format!(
            "[oidc]\nissuer = {:?}\nclient_id = \"tenure\"\nclient_secret_file = {:?}\nurl = \"http://127.0.0.1:1/\"\n\
             session = {session:?}\n\
             [[oidc.groups]]\ngroup = \"ops\"\nroles = [\"platform_ops\"]\n\
             [[oidc.groups]]\ngroup = \"boss\"\nroles = [\"admin\"]\n\
             [[oidc.groups]]\ngroup = \"own-*\"\nroles = [\"tenant_owner\"]\ntenant = \"*\"\n",
            identity.issuer,
            dir.path().join("secret"),
        );
        fs::write(dir.path().join("tenure.toml"), settings).unwrap();
        let http = Client::builder().redirect(Policy::none()).build().unwrap();
        let mut house = Self { dir, url: String::new(), admin: String::new(), identity, http, process: None };
        house.restart();
        house
    }

    fn restart(&mut self) {
        self.process = None;
        let config = self.dir.path().join("tenure.toml");
        // Hundreds of failed sign-ins are made here.
        let variables = [("TENURE_CONFIG", config.to_str().unwrap()), ("TENURE_HTTP_GUESSES", "100000")];
        let running = Running::start(self.dir.path(), &variables);
        self.url.clone_from(&running.url);
        self.process = Some(running);
        let admin = fs::read_to_string(self.dir.path().join("tenure-data/admin.token")).unwrap();
        self.admin = admin.trim().to_owned();
    }

    async fn ask(&self, method: Method, path: &str, token: &str) -> Response {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(token).send().await.unwrap()
    }

    /// Signs in with this proof; returns status and body.
    async fn prove(&self, proof: Value) -> (u16, Value) {
        let answer = self.http.post(format!("{}/v1/sessions", self.url)).json(&proof).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn with(&self, token: String) -> (u16, Value) {
        self.prove(json!({ "id_token": token })).await
    }

    async fn me(&self, token: &str) -> (u16, Value) {
        let answer = self.ask(Method::GET, "/v1/me", token).await;
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// Waits until this refusal is in the audit; returns the entry.
    async fn refused(&self, who: &str, asked: &str, code: &str) -> Value {
        let mut told = Value::Null;
        for _ in 0..200 {
            let answer = self.ask(Method::GET, "/v1/audit?event=access.denied&limit=1000", &self.admin).await;
            told = answer.json().await.unwrap();
            let is = |entry: &&Value| {
                entry["actor"] == who && entry["denied"]["asked"] == asked && entry["outcome"] == code
            };
            if let Some(entry) = told["items"].as_array().unwrap().iter().find(is) {
                return entry.clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("{who} {asked} {code}: {told:#}");
    }

    async fn follow(&self, url: &Url) -> Url {
        let answer = self.http.get(url.clone()).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{url}: {}", answer.text().await.unwrap());
        assert_eq!(
            answer.headers().get("referrer-policy").map_or("no-referrer", |it| it.to_str().unwrap()),
            "no-referrer"
        );
        let to = answer.headers()["location"].to_str().unwrap();
        url.join(to).unwrap()
    }

    /// Follows the provider's redirects for this challenge and returns the last address.
    async fn through(&self, challenge: &str) -> Url {
        let left = Url::parse(&format!("{}/login?challenge={challenge}", self.url)).unwrap();
        let at = self.follow(&left).await;
        assert!(at.as_str().starts_with(&self.identity.issuer), "{at}");
        let mut back = self.follow(&at).await;
        let own = Url::parse(&self.url).unwrap();
        back.set_port(own.port()).unwrap();
        back
    }

    /// Signs in as a tab of the console does, and returns the fragment of the final address.
    async fn by_browser(&self, verifier: &str) -> Vec<(String, String)> {
        let back = self.through(&challenge(verifier)).await;
        let end = self.follow(&back).await;
        fragment(&end)
    }
}

fn challenge(verifier: &str) -> String {
    BASE64.encode(digest(&SHA256, verifier.as_bytes()))
}

fn fragment(url: &Url) -> Vec<(String, String)> {
    let (path, query) = url.fragment().unwrap().split_once('?').unwrap();
    assert_eq!(path, "/signed-in");
    let query = Url::parse(&format!("http://x.invalid/?{query}")).unwrap();
    query.query_pairs().into_owned().collect()
}

/// From the console: leave, return, exchange the code. The person is a user with the rights of their groups until they
/// sign out.
#[tokio::test]
async fn a_browser_tab_returns_from_the_provider_as_the_user_that_the_provider_names() {
    let house = House::start().await;
    let came = house.by_browser("of this tab").await;
    assert_eq!(came[0].0, "code", "{came:?}");
    let proof = json!({ "code": came[0].1, "verifier": "of this tab" });

    let (status, session) = house.prove(proof.clone()).await;

    assert_eq!((status, session["user"].as_str()), (201, Some("oidc:alice")), "{session}");
    assert!(session.get("hash").is_none(), "{session}");
    let token = session["token"].as_str().unwrap();
    let (_, me) = house.me(token).await;
    assert_eq!((me["name"].as_str(), &me["roles"]), (Some("oidc:alice"), &json!(["platform_ops"])));
    assert_eq!(house.prove(proof).await.0, 401, "a code was accepted twice");
    assert_eq!(house.ask(Method::DELETE, "/v1/sessions/mine", token).await.status(), 204);
    assert_eq!(house.me(token).await.0, 401);
}

/// The rights of groups are read again at each sign-in; those of a tenant's group are limited to that tenant.
#[tokio::test]
async fn groups_determine_roles_and_a_user_without_groups_has_none() {
    let house = House::start().await;
    house.identity.is(json!({ "sub": "zoe", "groups": ["own-acme"] }));
    let (_, session) = house.with(house.identity.token(&json!({}))).await;
    assert_eq!(
        (&session["tenant"], &session["roles"]),
        (&json!("acme"), &json!(["tenant_owner"])),
        "{session}"
    );
    let first = session["token"].as_str().unwrap().to_owned();
    assert_eq!(house.ask(Method::GET, "/v1/users", &first).await.status(), 403);

    house.identity.is(json!({ "sub": "zoe", "groups": [] }));
    let (status, problem) = house.with(house.identity.token(&json!({}))).await;
    assert_eq!((status, problem["code"].as_str()), (403, Some("login.no_role")), "{problem}");
    house.refused("oidc:zoe", "POST /v1/sessions", "login.no_role").await;

    house.identity.is(json!({ "sub": "zoe", "groups": ["boss"] }));
    let (_, session) = house.with(house.identity.token(&json!({}))).await;
    let token = session["token"].as_str().unwrap();
    assert_eq!(house.ask(Method::GET, "/v1/users", token).await.status(), 200);
    // A person has one set of roles: that of the last sign-in.
    assert_eq!(house.me(&first).await.1["roles"], json!(["admin"]));
    let sessions: Value = house.ask(Method::GET, "/v1/sessions", token).await.json().await.unwrap();
    assert_eq!(sessions["items"].as_array().unwrap().len(), 2, "{sessions}");
    assert!(!sessions.to_string().contains("hash"), "{sessions}");
}

/// Without a sign-out.
#[tokio::test]
async fn a_session_expires() {
    let house = House::start_with("5s").await;
    let (_, session) = house.with(house.identity.token(&json!({}))).await;
    let token = session["token"].as_str().unwrap();
    assert_eq!(house.me(token).await.0, 200);
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    assert_eq!(house.me(token).await.0, 401);
    let sessions: Value = house.ask(Method::GET, "/v1/sessions", &house.admin).await.json().await.unwrap();
    assert_eq!(sessions["items"], json!([]));
    let entry = house.refused("oidc:alice", "GET /v1/me", "auth.bad_token").await;
    assert_eq!(entry["denied"]["token"], session["id"], "its owner is still known");
}

/// An admin ends one session, or removes the user; a new sign-in does not restore ended sessions.
#[tokio::test]
async fn a_session_ends_when_an_administrator_ends_it() {
    let house = House::start().await;
    let (_, session) = house.with(house.identity.token(&json!({}))).await;
    let (first, id) =
        (session["token"].as_str().unwrap().to_owned(), session["id"].as_str().unwrap().to_owned());
    let (_, second) = house.with(house.identity.token(&json!({}))).await;
    let second = second["token"].as_str().unwrap().to_owned();
    let ends = session["ends_at"].as_str().unwrap();
    assert_eq!(house.me(session["token"].as_str().unwrap()).await.1["ends_at"], ends, "the caller sees it");
    assert!(ends > session["began_at"].as_str().unwrap(), "{session}");
    let path = format!("/v1/sessions/{id}");
    assert_eq!(house.ask(Method::DELETE, &path, &second).await.status(), 403, "only admins may");
    assert_eq!(house.ask(Method::DELETE, &path, &house.admin).await.status(), 204);
    assert_eq!(house.ask(Method::DELETE, &path, &house.admin).await.status(), 404);
    assert_eq!((house.me(&first).await.0, house.me(&second).await.0), (401, 200));

    let removed = house.ask(Method::DELETE, "/v1/users/oidc%3Aalice", &house.admin).await;
    assert_eq!(removed.status(), 204);
    assert_eq!(house.me(&second).await.0, 401);
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let (_, third) = house.with(house.identity.token(&json!({}))).await;
    assert_eq!((house.me(&second).await.0, house.me(third["token"].as_str().unwrap()).await.0), (401, 200));
    assert_eq!(house.ask(Method::DELETE, "/v1/sessions/mine", &house.admin).await.status(), 404);
}

/// New keys of the provider are found. During its outage, signed-in users work on, and the last keys remain valid.
#[tokio::test]
async fn new_keys_are_loaded_and_an_outage_of_the_provider_does_not_end_sessions() {
    let mut house = House::start().await;
    let (_, session) = house.with(house.identity.token(&json!({}))).await;
    let token = session["token"].as_str().unwrap().to_owned();
    let old = house.identity.token(&json!({}));
    house.identity.rotate("second");
    // A cached answer may be five seconds old.
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    assert_eq!(house.with(house.identity.token(&json!({}))).await.0, 201);
    assert_eq!(house.with(old).await.0, 401, "a key that is no longer published");
    let read = house.identity.read();
    for _ in 0..20 {
        let strange = house.identity.token_under(&json!({ "alg": "ES256", "kid": "strange" }), &json!({}));
        assert_eq!(house.with(strange).await.0, 401);
    }
    assert!(
        house.identity.read() <= read + 2,
        "unknown callers cause a read of the provider's keys each time"
    );

    house.identity.away(true);
    assert_eq!(house.with(house.identity.token(&json!({}))).await.0, 201);
    house.restart();
    assert_eq!(house.me(&token).await.0, 200);
    let (status, problem) = house.with(house.identity.token(&json!({}))).await;
    assert_eq!((status, problem["code"].as_str()), (503, Some("login.unavailable")), "{problem}");
}
