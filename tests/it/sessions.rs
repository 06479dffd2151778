//! Signing in through an identity provider.

use crate::served::{Ran, Running, TENURE, tenure};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use reqwest::{Client, Method, Response, StatusCode, Url, redirect::Policy};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::{fs, path::Path};
use tempfile::TempDir;
use tests::identity::{Identity, SECRET, now};

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
        api::install_tls();
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
        // What is wrong is tried by the hundred here.
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

    /// Signs in with this, and gives status and body.
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

    /// Waits until it is on record that this was refused, and gives the entry.
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

    /// Where the provider sends whoever left with this challenge.
    async fn through(&self, challenge: &str) -> Url {
        let left = Url::parse(&format!("{}/login?challenge={challenge}", self.url)).unwrap();
        let at = self.follow(&left).await;
        assert!(at.as_str().starts_with(&self.identity.issuer), "{at}");
        let mut back = self.follow(&at).await;
        let own = Url::parse(&self.url).unwrap();
        back.set_port(own.port()).unwrap();
        back
    }

    /// What a tab of the console does; the fragment that it comes back with.
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

/// From the console: left, come back, exchanged. The person is a user with what the groups give, until they sign out.
#[tokio::test]
async fn a_tab_that_left_for_the_provider_comes_back_as_whom_the_provider_names() {
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
    assert_eq!(house.prove(proof).await.0, 401, "a code was taken twice");
    assert_eq!(house.ask(Method::DELETE, "/v1/sessions/mine", token).await.status(), 204);
    assert_eq!(house.me(token).await.0, 401);
}

/// Who has the address that a browser came back to, and not the tab, gets nothing; nor does a tab that is led to another's.
#[tokio::test]
async fn what_a_browser_comes_back_with_is_worth_nothing_without_the_tab_that_left() {
    let house = House::start().await;
    let came = house.by_browser("of the first tab").await;
    for verifier in ["of the second tab", "", &challenge("of the first tab")] {
        let proof = json!({ "code": came[0].1, "verifier": verifier });
        assert_eq!(house.prove(proof).await.1["code"], "login.refused");
    }
    // And still for the one that left.
    let proof = json!({ "code": came[0].1, "verifier": "of the first tab" });
    assert_eq!(house.prove(proof).await.0, 201);
}

/// A state that was changed, of another house, or of none; a code that was used; what the provider itself refuses.
#[tokio::test]
async fn nobody_comes_back_who_has_not_left() {
    let house = House::start().await;
    let back = house.through(&challenge("mine")).await;
    let state = back.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let other = House::start().await;
    for (wrong, why) in [
        (back.as_str().replace("state=", "state=1"), "no attempt"),
        (back.as_str().replace(&state, ""), "no attempt"),
        (back.as_str().replace(&house.url, &other.url), "no attempt"),
        (format!("{}/login/callback?state={state}&error=access_denied", house.url), "access_denied"),
        (format!("{}/login/callback?state={state}&code=never", house.url), "invalid_grant"),
        (format!("{}/login/callback?state={state}", house.url), "neither"),
        (format!("{}/login/callback", house.url), "no attempt"),
    ] {
        let wrong = Url::parse(&wrong).unwrap();
        let came = fragment(&house.follow(&wrong).await);
        assert!(came[0].0 == "problem" && came[0].1.contains(why), "{wrong}: {came:?}");
    }
    assert_eq!(fragment(&house.follow(&back).await)[0].0, "code");
    let again = fragment(&house.follow(&back).await);
    assert!(again[0].0 == "problem" && again[0].1.contains("invalid_grant"), "{again:?}");
    let entry = house.refused("unknown", "GET /login/callback", "login.refused").await;
    assert!(!entry.to_string().contains(&state) && entry["subject"] == "/login/callback", "{entry}");
}

/// Each thing that can be wrong with an ID token by itself.
#[tokio::test]
async fn an_id_token_that_proves_nothing_is_refused_and_said_why() {
    let house = House::start().await;
    let identity = &house.identity;
    let header = |alg: &str| json!({ "alg": alg, "typ": "JWT", "kid": "first" });
    let good = identity.token(&json!({}));
    let (front, _) = good.rsplit_once('.').unwrap();
    let swapped = identity.token(&json!({ "sub": "mallory" }));
    for (token, why) in [
        (identity.token(&json!({ "aud": "another" })), "not for the client"),
        (identity.token(&json!({ "iss": "http://127.0.0.1:9" })), "is not of"),
        (identity.token(&json!({ "exp": now() - 120 })), "has expired"),
        (identity.token(&json!({ "nbf": now() + 600 })), "not valid yet"),
        (identity.token(&json!({ "exp": null })), "cannot be taken"),
        (identity.token(&json!({ "aud": null })), "cannot be taken"),
        (identity.token(&json!({ "aud": ["tenure", "another"] })), "another client"),
        (identity.token(&json!({ "azp": "another" })), "another client"),
        (identity.token_under(&header("none"), &json!({})), "cannot be read"),
        (identity.token_under(&header("HS256"), &json!({})), "proves nothing"),
        (identity.token_under(&header("RS256"), &json!({})), "cannot be taken"),
        (identity.token_under(&json!({ "alg": "ES256", "kid": "another" }), &json!({})), "does not publish"),
        (format!("{front}.{}", swapped.rsplit_once('.').unwrap().1), "not signed"),
        (format!("{front}."), "not signed"),
        ("a.b.c".into(), "cannot be read"),
        (String::new(), "cannot be read"),
        ("x".repeat(100_000), "longer"),
    ] {
        let (status, problem) = house.with(token).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert_eq!((status, problem["code"].as_str()), (401, Some("login.refused")), "{why}: {problem}");
        assert!(detail.contains(why), "{why}: {detail}");
    }
    assert_eq!(house.with(good).await.0, 201);
    assert_eq!(house.with(identity.token(&json!({ "aud": ["tenure", "b"], "azp": "tenure" }))).await.0, 201);
    for (proof, status) in [
        (json!({}), 422),
        (json!({ "code": "a" }), 422),
        (json!({ "id_token": "a", "code": "b" }), 422),
        (json!({ "tokn": "a" }), 400),
    ] {
        assert_eq!(house.prove(proof).await.0, status);
    }
}

/// What groups give, read anew at each sign-in; for tenants, that tenant's things alone.
#[tokio::test]
async fn groups_say_what_somebody_may_and_no_group_nothing() {
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
    // One person has one set of roles: that of the last sign-in.
    assert_eq!(house.me(&first).await.1["roles"], json!(["admin"]));
    let sessions: Value = house.ask(Method::GET, "/v1/sessions", token).await.json().await.unwrap();
    assert_eq!(sessions["items"].as_array().unwrap().len(), 2, "{sessions}");
    assert!(!sessions.to_string().contains("hash"), "{sessions}");
}

/// Nobody has to say so.
#[tokio::test]
async fn a_session_ends_by_itself_when_its_time_is_over() {
    let house = House::start_with("5s").await;
    let (_, session) = house.with(house.identity.token(&json!({}))).await;
    let token = session["token"].as_str().unwrap();
    assert_eq!(house.me(token).await.0, 200);
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    assert_eq!(house.me(token).await.0, 401);
    let sessions: Value = house.ask(Method::GET, "/v1/sessions", &house.admin).await.json().await.unwrap();
    assert_eq!(sessions["items"], json!([]));
    let entry = house.refused("oidc:alice", "GET /v1/me", "auth.bad_token").await;
    assert_eq!(entry["denied"]["token"], session["id"], "whose it was is known still");
}

/// Who asks the doctor with a session is told that it ends, and what begins another.
#[tokio::test]
async fn a_doctor_does_not_say_that_a_session_lasts() {
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
        says.contains("oidc:alice") && says.contains("it ends") && !says.contains("not by itself"),
        "{token}"
    );
    let admin = doctor(&house.admin);
    assert!(admin["says"].as_str().unwrap().contains("not by itself"), "{admin}");
    let over = doctor("tn_x");
    assert!(over["remedy"].as_str().unwrap().contains("`tenure login`"), "{over}");
}

/// An admin ends one session, or removes the user; who signs in again does not wake what was ended.
#[tokio::test]
async fn a_session_ends_when_an_admin_says_so() {
    let house = House::start().await;
    let (_, session) = house.with(house.identity.token(&json!({}))).await;
    let (first, id) =
        (session["token"].as_str().unwrap().to_owned(), session["id"].as_str().unwrap().to_owned());
    let (_, second) = house.with(house.identity.token(&json!({}))).await;
    let second = second["token"].as_str().unwrap().to_owned();
    let ends = session["ends_at"].as_str().unwrap();
    assert_eq!(house.me(session["token"].as_str().unwrap()).await.1["ends_at"], ends, "who asks learns it");
    assert!(ends > session["began_at"].as_str().unwrap(), "{session}");
    let path = format!("/v1/sessions/{id}");
    assert_eq!(house.ask(Method::DELETE, &path, &second).await.status(), 403, "that is for admins");
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

/// Keys that the provider changes are found; while it is away, those who signed in work, and the last keys go on to hold.
#[tokio::test]
async fn new_keys_are_found_and_an_outage_of_the_provider_stops_nobody_who_works() {
    let mut house = House::start().await;
    let (_, session) = house.with(house.identity.token(&json!({}))).await;
    let token = session["token"].as_str().unwrap().to_owned();
    let old = house.identity.token(&json!({}));
    house.identity.rotate("second");
    // What is known may be five seconds old.
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    assert_eq!(house.with(house.identity.token(&json!({}))).await.0, 201);
    assert_eq!(house.with(old).await.0, 401, "a key that is no longer published");
    let read = house.identity.read();
    for _ in 0..20 {
        let strange = house.identity.token_under(&json!({ "alg": "ES256", "kid": "strange" }), &json!({}));
        assert_eq!(house.with(strange).await.0, 401);
    }
    assert!(house.identity.read() <= read + 2, "strangers make the provider's keys be read each time");

    house.identity.away(true);
    assert_eq!(house.with(house.identity.token(&json!({}))).await.0, 201);
    house.restart();
    assert_eq!(house.me(&token).await.0, 200);
    let (status, problem) = house.with(house.identity.token(&json!({}))).await;
    assert_eq!((status, problem["code"].as_str()), (503, Some("login.unavailable")), "{problem}");
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

/// The token of a sign-in is kept with the context, shown nowhere, and gone with the sign-out.
#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_is_kept_with_its_context_until_it_ends() {
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
    assert!(said.contains("context here has the token"), "{said}");
    let text = kept();
    let token =
        text.lines().find_map(|line| line.strip_prefix("token = \"")).unwrap_or_else(|| panic!("{text}"));
    let token = token.trim_end_matches('"').to_owned();
    assert_eq!(house.me(&token).await.1["name"], "oidc:alice");
    assert_eq!(run(&["logout"]).0, Some(0));
    assert!(!kept().contains("token = "), "{}", kept());
    assert_eq!(house.me(&token).await.0, 401, "it is the session of the context that has ended");
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

/// Without a provider there is nothing to sign in with, and that is said.
#[tokio::test]
async fn a_server_without_a_provider_says_so() {
    let served = crate::served::Served::start();
    let offered = served.get("/v1/login").await;
    assert_eq!(offered.body, json!({ "token": true, "oidc": null }));
    let http = Client::builder().redirect(Policy::none()).build().unwrap();
    let challenge = challenge("x");
    let left = http.get(format!("{}/login?challenge={challenge}", served.url)).send().await.unwrap();
    assert_eq!(left.status(), 404);
    let odd = http.get(format!("{}/login?challenge=short", served.url)).send().await.unwrap();
    assert_eq!(odd.status(), 400);
}

/// Whatever is done to a token, in whatever place: it is refused.
#[tokio::test]
async fn a_token_that_was_changed_anywhere_is_refused() {
    let house = House::start().await;
    let good = house.identity.token(&json!({}));
    // Not the last character: two of its bits carry nothing.
    for at in 0..good.len() - 1 {
        let mut changed = good.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        let (status, answer) = house.with(changed).await;
        assert_eq!(status, 401, "{at}: {answer}");
    }
    assert_eq!(house.with(good).await.0, 201);
}
