//! Tests of notifications, with a fixed clock and a receiver on this machine.

use super::{
    CommandOutcome, DeadDelivery, Delivery, DeliveryCommand, DeliveryKeys, Outbox, Round, SettledDelivery,
    State, WaitingDelivery, put_document,
};
use crate::config::Notify;
use axum::{
    Router,
    body::Bytes,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::post,
};
use engine::{Clock as _, Engine, Entity as _, ManualClock, Notification, Undecided, View};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};
use store::{Commit, Key, Memory, Put, Store, Timestamp};
use tokio::sync::watch;

/// 2026-11-21 21:30 in Berlin.
const EVENING: Timestamp = Timestamp(1_795_293_000_000);
const MINUTE: Duration = Duration::from_secs(60);

/// The answer of the receiver: the status, and its Retry-After.
type Answer = (StatusCode, Option<&'static str>);

/// A receiver: returns the given answers, then accepts everything.
#[derive(Clone, Default)]
struct Ears {
    heard: Arc<Mutex<Vec<Value>>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
}

impl Ears {
    async fn open(&self) -> String {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let ears = self.clone();
        let hear = move |_: HeaderMap, body: Bytes| async move { ears.hear(&body) };
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", socket.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(socket, Router::new().route("/", post(hear))).await });
        url
    }

    fn hear(&self, body: &[u8]) -> Response {
        self.heard.lock().unwrap().push(serde_json::from_slice(body).unwrap());
        match self.answers.lock().unwrap().pop_front() {
            None => StatusCode::NO_CONTENT.into_response(),
            Some((status, None)) => status.into_response(),
            Some((status, Some(after))) => (status, [("retry-after", after)]).into_response(),
        }
    }

    fn heard(&self) -> Vec<Value> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

/// Creates the deliveries of new events, and sends the due ones of every channel.
async fn round(outbox: &Outbox) -> Round {
    let (_stop, told) = watch::channel(false);
    let mut whole = Round { waiting: outbox.share().await.unwrap(), ..Round::default() };
    let sending = outbox.channels.values().map(|channel| outbox.send_due(channel, &told));
    for part in futures_util::future::join_all(sending).await {
        let part = part.unwrap();
        whole.failed += part.failed;
        whole.dead += part.dead;
        whole.waiting += part.waiting;
    }
    whole
}

struct Bench {
    store: Arc<Memory>,
    clock: Arc<ManualClock>,
    outbox: Outbox,
    ears: Ears,
}

impl Bench {
    /// Replaces `URL` in the settings by the address of the receiver.
    async fn of(settings: &str) -> Self {
        let ears = Ears::default();
        let url = ears.open().await;
        let settings: Notify = toml::from_str(&settings.replace("URL", &url)).unwrap();
        let (store, clock) = (Arc::new(Memory::new()), Arc::new(ManualClock::starting_at(EVENING)));
        let outbox = Outbox::of(&settings, store.clone(), clock.clone()).unwrap();
        Self { store, clock, outbox, ears }
    }

    async fn tell(&self, kind: &str, about: &str) {
        let told = Notification {
            id: format!("{about}.{kind}.{}", self.clock.now().0),
            kind: kind.into(),
            reason: None,
            about: about.into(),
            tenant: "acme".into(),
            to: vec!["platform_ops".into()],
            text: format!("{about} is {kind}"),
            at: self.clock.now(),
        };
        self.store
            .commit(Commit { documents: vec![put_document(&told)], ..Commit::default() })
            .await
            .unwrap();
    }

    async fn round(&self) -> Round {
        round(&self.outbox).await
    }

    /// Returns the notifications of a round, by type and subject.
    async fn hears(&self) -> Vec<String> {
        self.round().await;
        let said = |event: Value| {
            let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}", text("type").trim_start_matches("tenure."), text("subject"))
        };
        self.ears.heard().into_iter().map(said).collect()
    }

    /// Returns the outcome of ada's command to a delivery.
    async fn does(
        &self,
        channel: &str,
        name: &str,
        what: impl Fn(&DeliveryKeys, &mut View, DeliveryCommand) -> Result<CommandOutcome, Undecided>,
    ) -> CommandOutcome {
        let engine = Engine::new(self.store.clone(), self.clock.clone(), ());
        let place = self.outbox.place(channel, name).await.unwrap().unwrap();
        let order = DeliveryCommand { by: "ada".into(), why: "it is fixed".into() };
        engine.transact(true, |view| what(&place, view, order.clone())).await.unwrap()
    }

    async fn settled(&self) -> Vec<(String, State)> {
        let all = self.outbox.all::<SettledDelivery>("").await.unwrap().into_iter();
        all.map(|(_, SettledDelivery(delivery))| (delivery.told.kind, delivery.state)).collect()
    }

    async fn dead(&self) -> Vec<Delivery> {
        self.outbox
            .all::<DeadDelivery>("")
            .await
            .unwrap()
            .into_iter()
            .map(|(_, DeadDelivery(delivery))| delivery)
            .collect()
    }

    async fn waiting(&self) -> Vec<Delivery> {
        let all = self.outbox.all::<WaitingDelivery>("").await.unwrap().into_iter();
        all.map(|(_, WaitingDelivery(delivery))| delivery).collect()
    }
}

mod orders;

const CHAT: &str = "[channels.chat]\nkind = \"webhook\"\nurl = \"URL\"\n";
const TO_CHAT: &str = "[[routes]]\nchannels = [\"chat\"]\n";

#[tokio::test]
async fn a_notification_is_sent_once_and_recorded() {
    let bench = Bench::of(&format!("{CHAT}{TO_CHAT}")).await;
    bench.tell("approval.opened", "a-1").await;

    assert_eq!(bench.hears().await, ["approval.opened a-1"]);
    assert_eq!(bench.hears().await, [""; 0]);
    assert_eq!(bench.settled().await, [("approval.opened".to_owned(), State::Delivered)]);
    assert!(bench.waiting().await.is_empty());
}

/// A server of the next version may have written it, on the same database.
#[tokio::test]
async fn an_unreadable_notification_stays_and_blocks_no_other() {
    let bench = Bench::of(&format!("{CHAT}{TO_CHAT}")).await;
    let strange = |of: &str| Key::new(of, "chat/of-another-version");
    let all = [
        WaitingDelivery::COLLECTION,
        SettledDelivery::COLLECTION,
        DeadDelivery::COLLECTION,
        Notification::COLLECTION,
    ];
    let documents =
        all.map(|of| Put { key: strange(of), body: Some(b"{\"state\":\"odd\"}".to_vec()) }).to_vec();
    bench.store.commit(Commit { documents, ..Commit::default() }).await.unwrap();
    bench.tell("approval.opened", "a-1").await;

    assert_eq!(bench.hears().await, ["approval.opened a-1"]);
    bench.clock.advance(60 * 24 * 60 * MINUTE);
    bench.outbox.forget().await.unwrap();
    for of in all {
        assert!(bench.store.document(&strange(of)).await.unwrap().is_some(), "{of}");
    }
}

#[tokio::test]
async fn in_quiet_hours_only_urgent_notifications_are_sent() {
    let quiet = "quiet = { from = \"22:00\", to = \"07:00\", zone = \"Europe/Berlin\" }\n";
    let bench = Bench::of(&format!("{CHAT}{quiet}{TO_CHAT}")).await;
    bench.tell("approval.opened", "before").await;
    assert_eq!(bench.hears().await, ["approval.opened before"], "it is half past nine");

    bench.clock.advance(60 * MINUTE);
    bench.tell("approval.opened", "at-night").await;
    bench.tell("execution.parked", "urgent").await;
    assert_eq!(bench.hears().await, ["execution.parked urgent"]);
    bench.clock.advance(8 * 60 * MINUTE);
    assert_eq!(bench.hears().await, [""; 0], "it is half past six");
    bench.clock.advance(30 * MINUTE);
    assert_eq!(bench.hears().await, ["approval.opened at-night"]);
}

#[tokio::test]
async fn a_matter_that_ends_in_quiet_hours_sends_only_its_end() {
    let quiet = "quiet = { from = \"21:00\", to = \"07:00\", zone = \"Europe/Berlin\" }\n";
    let bench = Bench::of(&format!("{CHAT}{quiet}{TO_CHAT}")).await;
    bench.tell("approval.opened", "a-1").await;
    assert_eq!(bench.hears().await, [""; 0]);
    bench.clock.advance(MINUTE);
    bench.tell("approval.granted", "a-1").await;
    bench.round().await;
    bench.clock.advance(10 * 60 * MINUTE);

    assert_eq!(bench.hears().await, ["approval.granted a-1"]);
    let over = ("approval.opened".to_owned(), State::Over);
    assert!(bench.settled().await.contains(&over), "{:?}", bench.settled().await);
}

#[tokio::test]
async fn a_matter_that_stays_open_is_escalated_and_one_that_ends_is_not() {
    let late = "[channels.lead]\nkind = \"webhook\"\nurl = \"URL\"\n\
        [[routes]]\nevents = [\"approval.opened\"]\nchannels = [\"lead\"]\nafter = \"30m\"\n";
    let bench = Bench::of(late).await;
    bench.tell("approval.opened", "quick").await;
    bench.tell("approval.opened", "slow").await;
    assert_eq!(bench.hears().await, [""; 0]);
    bench.clock.advance(29 * MINUTE);
    bench.tell("approval.granted", "quick").await;
    assert_eq!(bench.hears().await, [""; 0]);
    bench.clock.advance(MINUTE);
    assert_eq!(bench.hears().await, ["approval.opened slow"]);
}

#[tokio::test]
async fn a_repeated_event_is_not_sent_again_unless_the_matter_ended_in_between() {
    let bench = Bench::of(&format!("{CHAT}{TO_CHAT}")).await;
    bench.tell("execution.parked", "e-1").await;
    assert_eq!(bench.hears().await.len(), 1);
    bench.clock.advance(MINUTE);
    bench.tell("execution.parked", "e-1").await;
    bench.tell("execution.parked", "e-2").await;
    assert_eq!(bench.hears().await, ["execution.parked e-2"], "another matter");
    assert!(bench.settled().await.contains(&("execution.parked".to_owned(), State::Merged)));

    bench.tell("execution.unparked", "e-1").await;
    bench.clock.advance(MINUTE);
    bench.tell("execution.parked", "e-1").await;
    assert_eq!(bench.hears().await, ["execution.unparked e-1", "execution.parked e-1"]);
    bench.clock.advance(10 * MINUTE);
    bench.tell("execution.parked", "e-1").await;
    assert_eq!(bench.hears().await, ["execution.parked e-1"], "ten minutes later");
}

#[tokio::test]
async fn a_busy_receiver_gets_the_next_attempt_after_its_retry_after() {
    let bench = Bench::of(&format!("{CHAT}{TO_CHAT}")).await;
    let answers = [(StatusCode::INTERNAL_SERVER_ERROR, None), (StatusCode::TOO_MANY_REQUESTS, Some("90"))];
    bench.ears.answers.lock().unwrap().extend(answers);
    bench.tell("approval.opened", "a-1").await;

    assert_eq!(bench.hears().await.len(), 1);
    assert_eq!(bench.hears().await.len(), 0, "not at once");
    bench.clock.advance(Duration::from_secs(2));
    assert_eq!(bench.hears().await.len(), 1);
    assert_eq!(bench.waiting().await[0].answer.as_deref(), Some("429 Too Many Requests"));
    bench.clock.advance(Duration::from_secs(89));
    assert_eq!(bench.hears().await.len(), 0);
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(bench.hears().await.len(), 1);
    assert_eq!(bench.settled().await, [("approval.opened".to_owned(), State::Delivered)]);
}

#[tokio::test]
async fn a_notification_without_a_successful_attempt_is_dead_and_can_be_resent() {
    let bench = Bench::of(&format!("{CHAT}attempts = 3\n{TO_CHAT}")).await;
    bench.ears.answers.lock().unwrap().extend([(StatusCode::BAD_REQUEST, None); 3]);
    bench.tell("approval.opened", "a-1").await;
    let mut died = 0;
    for _ in 0..10 {
        died += bench.round().await.dead;
        bench.clock.advance(60 * MINUTE);
    }
    let first = bench.ears.heard();
    assert_eq!(first.len(), 3, "three attempts, and no more");
    let dead = bench.dead().await;
    assert_eq!((dead.len(), dead[0].tries, dead[0].answer.as_deref()), (1, 3, Some("400 Bad Request")));
    assert_eq!(died, 1, "counted once, when it becomes dead");
    assert_eq!(bench.round().await, Round::default());

    let again = bench.does("chat", "nothing", DeliveryKeys::resend).await;
    assert!(matches!(again, CommandOutcome::Nothing), "{again:?}");
    let CommandOutcome::This(again) = bench.does("chat", &dead[0].name(), DeliveryKeys::resend).await else {
        panic!("it is dead, so it can be resent")
    };
    assert_ne!(again.name(), dead[0].name(), "a separate delivery");
    assert_eq!(again.replay.as_ref().map(|replay| replay.of.clone()), Some(dead[0].name()));
    bench.round().await;
    let again = bench.ears.heard();
    assert_eq!((again.len(), &again[0]["id"]), (1, &first[0]["id"]), "receivers know it by its id");
    assert!(bench.dead().await.is_empty());
    let states: Vec<_> = bench.settled().await.into_iter().map(|(_, state)| state).collect();
    assert!(states.contains(&State::Resent) && states.contains(&State::Delivered), "{states:?}");
}

/// The end of an incident must not overtake its start, or the incident would stay open.
#[tokio::test]
async fn deliveries_of_one_matter_are_sent_in_order_and_block_no_other_matter() {
    let bench = Bench::of(&format!("{CHAT}{TO_CHAT}")).await;
    bench.ears.answers.lock().unwrap().push_back((StatusCode::SERVICE_UNAVAILABLE, None));
    bench.tell("approval.opened", "a-1").await;
    bench.tell("approval.granted", "a-1").await;
    bench.clock.advance(Duration::from_millis(1));
    bench.tell("approval.opened", "a-2").await;

    assert_eq!(bench.hears().await, ["approval.opened a-1", "approval.opened a-2"]);
    bench.clock.advance(MINUTE);
    assert_eq!(bench.hears().await, ["approval.opened a-1", "approval.granted a-1"]);
}

/// After a crash during an attempt, the outcome is unknown. The attempt is repeated with the same id, but only after the first sender must have given up.
#[tokio::test]
async fn an_interrupted_attempt_is_repeated_with_the_same_id() {
    let bench = Bench::of(&format!("{CHAT}{TO_CHAT}")).await;
    bench.tell("approval.opened", "a-1").await;
    bench.outbox.share().await.unwrap();
    let cut = bench.waiting().await.remove(0);
    let due = bench.clock.now().after(MINUTE);
    let cut = WaitingDelivery(Delivery { tries: 1, due, ..cut });
    bench.store.commit(Commit { documents: vec![put_document(&cut)], ..Commit::default() }).await.unwrap();

    assert_eq!(bench.hears().await, [""; 0], "another server may be sending it");
    bench.clock.advance(MINUTE);
    bench.round().await;
    let heard = bench.ears.heard();
    assert_eq!((heard.len(), &heard[0]["id"]), (1, &json!(cut.0.told.id)));
}

/// Two servers on one store share the work, and each notification is sent once.
#[tokio::test]
async fn two_servers_send_each_notification_once() {
    let bench = Bench::of(&format!("{CHAT}{TO_CHAT}")).await;
    let settings = toml::from_str(&format!("{CHAT}{TO_CHAT}").replace("URL", &bench.ears.open().await));
    let other = Outbox::of(&settings.unwrap(), bench.store.clone(), bench.clock.clone()).unwrap();
    for number in 0..20 {
        bench.tell("approval.opened", &format!("a-{number}")).await;
    }
    for _ in 0..3 {
        tokio::join!(bench.round(), round(&other));
    }
    let mut ids: Vec<String> = bench.ears.heard().iter().map(|event| event["id"].to_string()).collect();
    ids.sort();
    let all = ids.len();
    ids.dedup();
    assert_eq!((ids.len(), all), (20, 20));
}

#[tokio::test]
async fn without_a_channel_notifications_are_kept_for_a_week() {
    let bench = Bench::of("").await;
    bench.tell("approval.opened", "a-1").await;
    assert_eq!(bench.round().await.waiting, 1);
    bench.clock.advance(Duration::from_secs(7 * 86_400 + 1));
    assert_eq!(bench.round().await.waiting, 0);
    assert!(bench.outbox.all::<Notification>("").await.unwrap().is_empty());
}

#[tokio::test]
async fn settled_deliveries_are_removed_after_their_retention_period() {
    let bench = Bench::of(&format!("{CHAT}attempts = 1\n{TO_CHAT}")).await;
    bench.ears.answers.lock().unwrap().push_back((StatusCode::BAD_REQUEST, None));
    bench.tell("approval.opened", "a-1").await;
    bench.tell("approval.opened", "a-2").await;
    bench.round().await;
    assert_eq!((bench.settled().await.len(), bench.dead().await.len()), (1, 1));
    bench.clock.advance(Duration::from_secs(8 * 86_400));
    bench.outbox.forget().await.unwrap();
    assert_eq!((bench.settled().await.len(), bench.dead().await.len()), (0, 1));
    bench.clock.advance(Duration::from_secs(23 * 86_400));
    bench.outbox.forget().await.unwrap();
    assert_eq!(bench.dead().await.len(), 0);
}
