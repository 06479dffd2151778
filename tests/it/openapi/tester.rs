//! Tests the server against its description: valid and invalid requests by users of several roles and by keys of clusters and
//! agents. One run in every test uses fixed random numbers, another uses new ones: `TENURE_SEED` repeats a run by its printed
//! number.

use super::{
    lint::operations,
    requests::{body, closed, described, garbage, part, tag, with_less, with_more},
    said::Said,
    world::World,
};
use crate::edge;
use api::openapi;
use proptest::{
    strategy::{BoxedStrategy, Strategy as _, ValueTree as _},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use reqwest::{Client, Method, RequestBuilder, header, redirect::Policy};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::BuildHasher as _,
    rc::Rc,
};

/// A request body.
enum Sent {
    Nothing,
    /// A text with its media type; true if every user must be refused.
    Text(String, String, bool),
}

struct Tester {
    runner: TestRunner,
    /// Follows no redirects: the target is part of the answer.
    http: Client,
    said: Said,
    world: World,
    wrong: BTreeMap<String, Vec<String>>,
    codes: BTreeSet<String>,
    answered: BTreeMap<String, BTreeSet<u16>>,
    asked: usize,
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

impl Tester {
    fn draw<T: std::fmt::Debug>(&mut self, from: &BoxedStrategy<T>) -> T {
        from.new_tree(&mut self.runner).unwrap().current()
    }

    fn chance(&mut self, of: u32) -> bool {
        self.draw(&(0..of).boxed()) == 0
    }

    /// Returns an address, with existing or other ids.
    async fn address(&mut self, path: &str) -> String {
        let mut ids = self.world.ids(path).await;
        // The first ids are the oldest, and most of them have events.
        ids.truncate(6);
        let known = if ids.is_empty() || self.chance(4) {
            None
        } else {
            let place = self.draw(&(0..ids.len()).boxed());
            Some(ids.swap_remove(place))
        };
        let mut filled = String::new();
        let mut rest = path;
        let mut parts = known.into_iter().flatten();
        while let Some((before, after)) = rest.split_once('{') {
            let (_, after) = after.split_once('}').unwrap();
            let value = parts.next().unwrap_or_else(|| self.draw(&part()));
            filled += &format!("{before}{}", escaped(&value));
            rest = after;
        }
        filled + rest
    }

    /// Returns the parameters; some are missing, some are wrong.
    fn query(&mut self, operation: &Value) -> String {
        let parameters: Vec<Value> =
            self.said.parameters(operation).filter(|one| one["in"] == "query").cloned().collect();
        let mut all = Vec::new();
        for parameter in parameters {
            let name = parameter["name"].as_str().unwrap();
            if !self.chance(3) {
                continue;
            }
            let from = described(&Rc::clone(&self.said.api), &parameter["schema"], name, 2);
            let value = match self.draw(&from) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            let value = if self.chance(4) { self.draw(&part()) } else { value };
            all.push(format!("{name}={}", escaped(&value)));
        }
        if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) }
    }

    fn sent(&mut self, operation: &Value) -> Sent {
        let api = Rc::clone(&self.said.api);
        let mut bodies = Said::bodies(operation);
        if bodies.is_empty() {
            return if self.chance(4) {
                Sent::Text("application/json".into(), "{}".into(), false)
            } else {
                Sent::Nothing
            };
        }
        let place = self.draw(&(0..bodies.len()).boxed());
        let (media, schema) = bodies.swap_remove(place);
        if schema["type"] == "string" {
            let lines = "(sn,cpu_milli,memory_mib,gpu,model\nn-[0-9],1,1,8,H100\n)|([ -~\n]{0,40})";
            let text = self.draw(&lines.prop_map(|text| text).boxed());
            return Sent::Text(media, text, false);
        }
        if self.chance(6) {
            let text = self.draw(&garbage());
            return Sent::Text(media, text, false);
        }
        let value = self.draw(&body(&api, &schema));
        let must = operation["requestBody"]["required"] == true;
        match self.draw(&(0..5_u32).boxed()) {
            0 if closed(&api, &schema) => Sent::Text(media, with_more(value).to_string(), true),
            1 if must => match with_less(&api, &schema, value.clone()) {
                Some(less) => Sent::Text(media, less.to_string(), true),
                None => Sent::Text(media, value.to_string(), false),
            },
            _ => Sent::Text(media, value.to_string(), false),
        }
    }

    /// Returns a value for `If-Match`, if any: a tag that was read, one without a resource, or an invalid one.
    async fn tag(&mut self, address: &str, operation: &Value) -> Option<String> {
        let bound = self.said.parameters(operation).any(|one| one["name"] == "If-Match");
        if !self.chance(if bound { 2 } else { 12 }) {
            return None;
        }
        let path = address.split('?').next().unwrap_or_default();
        let (front, last) = path.rsplit_once('/').unwrap_or_default();
        let shown = format!("{front}/{}", last.split(':').next().unwrap_or_default());
        if bound && self.chance(2) {
            let read = self.world.served.get(&shown).await;
            if let Some(read) = read.headers.get(header::ETAG) {
                return Some(read.to_str().unwrap().to_owned());
            }
        }
        Some(self.draw(&tag()))
    }

    fn request(&self, method: &Method, asked: &Asked) -> RequestBuilder {
        let Asked { address, token, key, tag, sent } = asked;
        let mut request = self.http.request(method.clone(), format!("{}{address}", self.world.served.url));
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if *method == Method::POST {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(tag) = tag {
            request = request.header(header::IF_MATCH, tag);
        }
        match sent {
            Sent::Nothing => request,
            Sent::Text(media, text, _) => request.header(header::CONTENT_TYPE, media).body(text.clone()),
        }
    }

    /// Checks every answer to a request with `If-Match`.
    fn compared(&mut self, operation: &Value, status: u16, code: &str, asked: &Asked) {
        let Some(tag) = &asked.tag else { return };
        let bound = self.said.parameters(operation).any(|one| one["name"] == "If-Match");
        // An invalid address reaches no route.
        let known = ["header.unsupported", "request.malformed", "route.unknown", "route.method"];
        if !bound && !known.contains(&code) {
            self.note(operation, format!("{status} {code} to {}, though it compares nothing", asked.address));
        }
        let is_none = tag.contains("no-such") || !tag.contains('"');
        if bound && is_none && tag != "*" && status < 300 {
            self.note(operation, format!("{status} to {}, though nothing is at {tag}", asked.address));
        }
    }

    fn note(&mut self, operation: &Value, what: String) {
        let name = operation["operationId"].as_str().unwrap().to_owned();
        let short = what.chars().take(600).collect();
        self.wrong.entry(name).or_default().push(short);
    }

    /// Sends a request twice.
    async fn ask(&mut self, path: &str, method: &Method, operation: &Value, (who, token): (&str, &str)) {
        let address = format!("{}{}", self.address(path).await, self.query(operation));
        let sent = self.sent(operation);
        self.asked += 1;
        let tag = self.tag(&address, operation).await;
        let asked = Asked { address, token: token.to_owned(), key: format!("key-{}", self.asked), tag, sent };
        let answer = self.world.served.send(self.request(method, &asked)).await;
        let status = answer.status.as_u16();
        self.compared(operation, status, answer.code(), &asked);
        let Asked { address, sent, .. } = &asked;
        self.answered.entry(operation["operationId"].to_string()).or_default().insert(status);
        let shown = match sent {
            Sent::Text(_, text, _) => format!("{who}: {method} {address} {text}"),
            Sent::Nothing => format!("{who}: {method} {address}"),
        };
        let media =
            answer.headers.get(header::CONTENT_TYPE).map(|media| media.to_str().unwrap()).unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default();
        if let Err(why) = self.said.check(operation, status, media, &answer.body) {
            self.note(operation, format!("{why}\n    to {shown}"));
        }
        // An operation that the store does not support has its own code; no other server error is allowed.
        if status >= 500 && answer.code() != "store.held" {
            self.note(operation, format!("{status} {}\n    to {shown}", answer.body));
        }
        for missing in edge::undressed(address, &answer.headers) {
            self.note(operation, format!("{missing}\n    to {shown}"));
        }
        if !answer.headers.contains_key("x-request-id") {
            self.note(operation, format!("no request id\n    to {shown}"));
        }
        if answer.status.is_success() && matches!(sent, Sent::Text(_, _, true)) {
            self.note(operation, format!("{status} though the body is not as described\n    to {shown}"));
        }
        if status >= 400 {
            self.codes.insert(answer.code().to_owned());
        }
        let takes_key = self.said.parameters(operation).any(|one| one["name"] == "Idempotency-Key");
        let shows = ["addUser", "askForTenant", "enrolUser", "issueToken", "rotateClusterKey", "rotateToken"];
        let is_secret = shows.contains(&operation["operationId"].as_str().unwrap());
        if *method == Method::POST
            && !["agent", "near", "open"].contains(&operation["x-tenure-access"].as_str().unwrap())
        {
            if !takes_key {
                self.note(operation, "it takes no Idempotency-Key".into());
            }
            // A temporary answer is replaced by a new one.
            if is_secret || answer.body.to_string().len() > 60_000 || !is_final(&answer.body) {
                return;
            }
            let again = self.world.served.send(self.request(method, &asked)).await;
            if (again.status, &again.body) != (answer.status, &answer.body) {
                let detail =
                    format!("{status} {} at first, then {} {}", answer.body, again.status, again.body);
                self.note(operation, format!("{detail}\n    to {shown}"));
            }
            if again.headers.get(header::ETAG) != answer.headers.get(header::ETAG) {
                self.note(operation, format!("the second answer has another ETag\n    to {shown}"));
            }
            if answer.status.is_success() && !again.headers.contains_key("idempotency-replayed") {
                self.note(operation, format!("the second answer is not marked\n    to {shown}"));
            }
        }
    }
}

/// A generated request.
struct Asked {
    address: String,
    token: String,
    key: String,
    tag: Option<String>,
    sent: Sent,
}

/// Returns true if a repeat gets the same answer: retryable problems and parts of a multiple answer are not stored for their
/// key.
fn is_final(body: &Value) -> bool {
    let again = |status: u64| [409, 412, 423, 429].contains(&status) || status >= 500;
    let items = body["items"].as_array().into_iter().flatten();
    let mut statuses = items.chain([body]).filter_map(|one| one["status"].as_u64());
    !statuses.any(again)
}

/// Orders operations so that removals run last.
fn rank(method: &str, name: &str) -> u32 {
    match name {
        "removeUser" => 4,
        "holdStore" | "releaseStore" => 3,
        "terminateExecution" | "publishPolicy" | "forget" => 2,
        _ => u32::from(method == "delete"),
    }
}

/// How often each operation is called by each user.
const TIMES: [usize; 6] = [7, 2, 4, 1, 1, 1];

#[tokio::test]
async fn the_server_follows_its_description_for_every_caller_and_request() {
    held_to_its_description(TestRunner::deterministic(), "the same in every run", 6).await;
}

/// Every run draws new requests, so that runs complement each other.
#[tokio::test]
async fn the_server_follows_its_description_for_random_requests() {
    let drawn = std::env::var("TENURE_SEED").ok().map(|seed| seed.parse().expect("TENURE_SEED is a number"));
    let seed: u64 = drawn.unwrap_or_else(|| std::hash::RandomState::new().hash_one("requests"));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    held_to_its_description(
        TestRunner::new_with_rng(Config::default(), random),
        &format!("TENURE_SEED={seed} repeats it"),
        5,
    )
    .await;
}

/// At least `least` of ten operations must have succeeded: six if the numbers are fixed.
async fn held_to_its_description(runner: TestRunner, seed: &str, least: usize) {
    // Printed with a failure.
    println!("requests drawn from a seed: {seed}");
    let api = openapi();
    let world = World::new().await;
    let mut tester = Tester {
        runner,
        http: Client::builder().redirect(Policy::none()).build().unwrap(),
        said: Said::new(api.clone()),
        world,
        wrong: BTreeMap::new(),
        codes: BTreeSet::new(),
        answered: BTreeMap::new(),
        asked: 0,
    };
    // Streams do not end; another test checks their events.
    let ends =
        |operation: &Value| operation["responses"]["200"]["content"].get("text/event-stream").is_none();
    let mut all: Vec<_> = operations(&api).filter(|(.., operation)| ends(operation)).collect();
    all.sort_by_key(|(path, method, operation)| {
        (rank(method, operation["operationId"].as_str().unwrap()), *path, *method)
    });
    for (path, method, operation) in all {
        let method: Method = method.to_uppercase().parse().unwrap();
        let people = tester.world.people.clone();
        for ((who, token), times) in people.iter().zip(TIMES) {
            for _ in 0..times {
                tester.ask(path, &method, operation, (*who, token.as_str())).await;
            }
        }
    }
    let codes: Vec<_> = tester.codes.iter().filter(|code| !code.is_empty()).cloned().collect();
    for code in &codes {
        let explained = tester.world.served.get(&format!("/problems/{code}")).await;
        assert_eq!(explained.status, 200, "nothing explains {code}");
    }
    let wrong: Vec<_> =
        tester.wrong.iter().map(|(name, all)| format!("{name} ({}): {}", all.len(), all[0])).collect();
    assert!(
        wrong.is_empty(),
        "{} operations of {} requests ({seed}):\n{}",
        wrong.len(),
        tester.asked,
        wrong.join("\n")
    );
    // Most operations were answered successfully at least once.
    let reached = tester.answered.values().filter(|all| all.iter().any(|status| *status < 400)).count();
    assert!(
        reached * 10 > tester.answered.len() * least,
        "{reached} of {}: {:?}",
        tester.answered.len(),
        tester.answered
    );
    assert!(codes.len() > 15, "{codes:?}");
}
