//! Deliveries are managed like executions: shown, listed as stuck, retried, dropped, and audited.

use super::*;
use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tokio::net::TcpListener;

/// Waits until `holds` is true, for a few seconds at most.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..200 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}");
}

/// A server whose only channel drops a delivery after one attempt, with one dead letter.
async fn with_a_dead_letter(settings: &Settings, receiver: &Receiver) -> (Served, String) {
    let url = receiver.open().await;
    let served = settings.serve(&format!(
        "[notify.channels.hook]\nkind = \"webhook\"\nurl = \"{url}/hook\"\nattempts = 1\n\
         [[notify.routes]]\nchannels = [\"hook\"]\nevents = [\"approval.opened\"]\n"
    ));
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    receiver.answer([StatusCode::BAD_GATEWAY]);
    served.onboard(&large("acme")).await;
    let mut id = String::new();
    until("a letter was to die", async || {
        let dead = served.get("/v1/channels/hook/deliveries?state=dead").await.body;
        id = dead["items"][0]["id"].as_str().unwrap_or_default().to_owned();
        !id.is_empty()
    })
    .await;
    (served, id)
}

/// One list has everything that is stuck. It includes undelivered notifications until an operator has acknowledged
/// them.
#[tokio::test(flavor = "multi_thread")]
async fn a_channel_with_dead_letters_is_stuck_until_an_operator_handles_them_with_a_reason() {
    let (settings, receiver) = (Settings::new(), Receiver::default());
    let (served, id) = with_a_dead_letter(&settings, &receiver).await;

    let stuck = served.get("/v1/stuck?limit=1").await.body;
    let row = &stuck["channels"][0];
    assert_eq!(
        (&row["id"], &row["reason"], &row["dead"]),
        (&json!("hook"), &json!("delivery_dead"), &json!(1))
    );
    assert_eq!(row["message"], "502 Bad Gateway", "{stuck}");
    let rows = async |query: &str| served.get(&format!("/v1/stuck{query}")).await.body["channels"].clone();
    assert_eq!(rows("?reason=delivery_dead").await[0]["subject"], "channel/hook");
    assert_eq!(rows("?filter=open").await, json!([]), "filters apply to executions");
    assert_eq!(rows("?tenant=acme").await, json!([]));
    let owner = served.user("own", &["tenant_owner"], Some("acme")).await;
    assert_eq!(served.get_as(&owner, "/v1/stuck").await.body["channels"], json!([]));
    let told = served.run(&["stuck", "-o", "json"]).json();
    assert!(told.as_array().unwrap().iter().any(|row| row["reason"] == "delivery_dead"), "{told}");
    let doctor = served.run(&["doctor", "-o", "json"]).out;
    assert!(doctor.contains("1 notifications were not delivered, for example on channel hook"), "{doctor}");
    let metrics = served.get("/metrics").await.body;
    let gauge = r#"tenure_deliveries{channel="hook",state="dead"} 1"#;
    assert!(metrics.as_str().unwrap().contains(gauge), "{metrics}");

    let shown = served.run(&["notify", "show", "hook", &id, "-o", "json"]).json();
    let attempt = &shown["attempts"][0];
    assert_eq!((&attempt["status"], &attempt["answer"]), (&json!(502), &json!("502 Bad Gateway")), "{shown}");
    let path = format!("/v1/channels/hook/deliveries/{id}:discard");
    let unexplained = served.json_as(&served.admin, &path, json!({ "reason": " " })).await;
    assert_eq!(
        (unexplained.status, unexplained.code()),
        (StatusCode::UNPROCESSABLE_ENTITY, "request.reason_missing")
    );
    let fin = served.user("fin", &["finance"], None).await;
    assert_eq!(served.json_as(&fin, &path, json!({ "reason": "r" })).await.code(), "auth.forbidden");
    let gone = served.run(&["notify", "discard", "hook", "--all", "--reason", "it was said by telephone"]);
    assert_eq!(gone.exit, 0, "{gone:?}");

    assert_eq!(rows("").await, json!([]));
    let shown = served.run(&["notify", "show", "hook", &id, "-o", "json"]).json();
    assert_eq!((&shown["state"], &shown["by"]), (&json!("discarded"), &json!("admin")), "{shown}");
    until("who gave it up, and why, was to be in the audit", async || {
        let audit = served.run(&["audit", "list", "--tenant", "-", "-o", "json"]).json();
        let discarded = |entry: &Value| entry["subject"].as_str().is_some_and(|at| at.ends_with(":discard"));
        let entry =
            audit.as_array().unwrap().iter().find(|entry| discarded(entry) && entry["event"] == "asked");
        entry.is_some_and(|entry| {
            (&entry["actor"], &entry["reason"]) == (&json!("admin"), &json!("it was said by telephone"))
        })
    })
    .await;
}

/// The receiver had acknowledged the events and then lost its disk.
#[tokio::test(flavor = "multi_thread")]
async fn the_notifications_since_an_outage_are_resent_as_new_deliveries() {
    let (settings, receiver) = (Settings::new(), Receiver::default());
    let (served, id) = with_a_dead_letter(&settings, &receiver).await;
    served.onboard(&large("zeta")).await;
    receiver.at("/hook", 2).await;
    let settled = async || served.get("/v1/channels/hook/deliveries").await.body["items"].clone();
    until("zeta's was to be delivered", async || settled().await[0]["state"] == "delivered").await;
    served.run(&["notify", "test", "hook"]);
    receiver.at("/hook", 3).await;

    let unnamed = served.run(&["notify", "resend", "hook"]);
    assert!(unnamed.exit == 2 && unnamed.err.contains("--since"), "{unnamed:?}");
    let sent = served.run(&["notify", "resend", "hook", "--since", "1h", "--reason", "their disk was lost"]);
    assert_eq!((sent.exit, sent.out.lines().count()), (0, 2), "the dead one and the delivered one: {sent:?}");

    let heard = receiver.at("/hook", 5).await;
    let tenants: Vec<_> = heard[3..].iter().map(|told| told.body["data"]["tenant"].clone()).collect();
    assert_eq!(tenants, ["acme", "zeta"], "in the order of the events");
    assert_eq!(
        (&heard[0].body, &heard[1].body),
        (&heard[3].body, &heard[4].body),
        "same body as in the first delivery"
    );
    until("both were to be delivered", async || {
        let items = settled().await;
        items.as_array().unwrap().iter().filter(|one| one["replay_of"].is_string()).count() == 2
    })
    .await;
    let items = settled().await;
    let replay = items.as_array().unwrap().iter().find(|one| one["replay_of"] == json!(id)).unwrap();
    assert_eq!((&replay["state"], &replay["reason"]), (&json!("delivered"), &json!("their disk was lost")));
    assert_ne!(replay["id"], json!(id));
}

/// A receiver that accepts connections and never answers delays only its own channel.
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_receiver_delays_no_other_channel() {
    let (settings, receiver) = (Settings::new(), Receiver::default());
    let url = receiver.open().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = silent.local_addr().unwrap();
    let served = settings.serve(&format!(
        "[notify.channels.a]\nkind = \"webhook\"\nurl = \"http://{at}/\"\n\
         [notify.channels.b]\nkind = \"webhook\"\nurl = \"{url}/told\"\n\
         [[notify.routes]]\nchannels = [\"a\", \"b\"]\nevents = [\"approval.opened\"]\n"
    ));
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    served.onboard(&large("acme")).await;
    let _held = silent.accept().await.unwrap();
    receiver.at("/told", 1).await;

    let begun = Instant::now();
    served.onboard(&large("zeta")).await;
    receiver.at("/told", 2).await;

    assert!(
        begun.elapsed() < Duration::from_secs(6),
        "the timeout of the other is ten seconds: {:?}",
        begun.elapsed()
    );
    let waits = served.get("/v1/channels/a/deliveries?state=waiting").await.body;
    assert_eq!(waits["items"][0]["attempts"][0]["answer"], Value::Null, "it is still in progress: {waits}");
    let id = waits["items"][0]["id"].as_str().unwrap();
    let path = format!("/v1/channels/a/deliveries/{id}:discard");
    let refused = served.json_as(&served.admin, &path, json!({ "reason": "r" })).await;
    assert_eq!((refused.status, refused.code()), (StatusCode::CONFLICT, "request.conflict"));
}

/// A running `tenure notify sink` and its output.
struct Sink {
    child: Child,
    url: String,
}

impl Sink {
    fn start(settings: &Settings, secret: &str) -> Self {
        let mut command: Command = tenure(settings.0.path());
        command.args(["notify", "sink", "--listen", "127.0.0.1:0", "--secret-file", secret]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut first).unwrap();
        let url =
            first.split(' ').find(|word| word.starts_with("http://")).unwrap_or_else(|| panic!("{first}"));
        Self { url: url.trim_end_matches(';').to_owned(), child }
    }

    /// Stops it and returns its lines.
    fn said(mut self) -> String {
        self.child.kill().unwrap();
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        self.child.wait().unwrap();
        text
    }
}

/// Receivers with the old and the new secret accept deliveries during the change; afterwards the old secret is invalid.
#[tokio::test(flavor = "multi_thread")]
async fn receivers_accept_signatures_at_every_moment_of_a_change_of_secret() {
    let settings = Settings::new();
    let old = settings.file("old", "whsec_b2xkLXNlY3JldC1vZi10aGUtaG91c2U=");
    let new = settings.file("new", "whsec_bmV3LXNlY3JldC1vZi10aGUtaG91c2U=");
    let (has_old, has_new) = (Sink::start(&settings, &old), Sink::start(&settings, &new));
    let channels = |earlier: &str| {
        let channel = |name: &str, url: &str| {
            format!(
                "[notify.channels.{name}]\nkind = \"webhook\"\nurl = \"{url}\"\nsecret_file = \"{new}\"\n{earlier}"
            )
        };
        format!("{}{}", channel("old", &has_old.url), channel("new", &has_new.url))
    };
    let tried = |served: &Served, channel: &str| served.run(&["notify", "test", channel, "-o", "json"]);

    let both = settings.serve(&channels(&format!("earlier_secret_file = \"{old}\"\n")));
    assert_eq!((tried(&both, "old").exit, tried(&both, "new").exit), (0, 0));
    drop(both);
    let alone = settings.serve(&channels(""));
    let refused = tried(&alone, "old");
    assert_eq!((refused.exit, &refused.json()["answer"]), (1, &json!("401 Unauthorized")), "{refused:?}");
    assert_eq!(tried(&alone, "new").exit, 0);

    let (old, new) = (has_old.said(), has_new.said());
    let old: Vec<_> = old.lines().collect();
    assert!(old[0].contains("tenure.channel.test") && old[0].contains("  valid  "), "{old:?}");
    assert!(old[1].contains("signed by another secret, or changed on its way"), "{old:?}");
    assert_eq!(new.lines().filter(|line| line.contains("  valid  ")).count(), 2, "{new}");
}
