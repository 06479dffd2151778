//! Tests of commands to deliveries, and of the records of their attempts.

use super::*;

fn this(did: CommandOutcome) -> Delivery {
    match did {
        CommandOutcome::This(delivery) => *delivery,
        CommandOutcome::Nothing | CommandOutcome::UnderWay => panic!("{did:?}"),
    }
}

#[tokio::test]
async fn an_operator_can_send_a_waiting_delivery_now() {
    let bench = Bench::of(&format!("{CHAT}{TO_CHAT}")).await;
    bench.ears.answers.lock().unwrap().extend([(StatusCode::TOO_MANY_REQUESTS, Some("3000"))]);
    bench.tell("approval.opened", "a-1").await;
    assert_eq!(bench.hears().await.len(), 1);
    bench.clock.advance(MINUTE);
    assert_eq!(bench.hears().await.len(), 0, "the receiver requests a delay");
    let name = bench.waiting().await[0].name();

    let sent = this(bench.does("chat", &name, DeliveryKeys::retry).await);

    assert_eq!(sent.order, Some(DeliveryCommand { by: "ada".into(), why: "it is fixed".into() }));
    assert_eq!(bench.hears().await, ["approval.opened a-1"]);
    assert!(
        matches!(bench.does("chat", &name, DeliveryKeys::retry).await, CommandOutcome::Nothing),
        "it no longer waits"
    );
}

/// The outcome of the attempt is still unknown: discarding now could lose the record of a sent notification, and sending now could send it twice.
#[tokio::test]
async fn a_running_attempt_is_neither_discarded_nor_repeated() {
    let bench = Bench::of(&format!("{CHAT}{TO_CHAT}")).await;
    bench.tell("approval.opened", "a-1").await;
    bench.outbox.share().await.unwrap();
    let waits = bench.waiting().await.remove(0);
    let claimed =
        WaitingDelivery(Delivery { due: bench.clock.now().after(MINUTE), ..waits.tried(bench.clock.now()) });
    bench
        .store
        .commit(Commit { documents: vec![put_document(&claimed)], ..Commit::default() })
        .await
        .unwrap();
    let name = claimed.0.name();

    assert!(matches!(bench.does("chat", &name, DeliveryKeys::retry).await, CommandOutcome::UnderWay));
    assert!(matches!(bench.does("chat", &name, DeliveryKeys::discard).await, CommandOutcome::UnderWay));
    bench.clock.advance(MINUTE);
    assert_eq!(this(bench.does("chat", &name, DeliveryKeys::discard).await).state, State::Discarded);
    assert_eq!(bench.hears().await, [""; 0]);
}

#[tokio::test]
async fn a_discarded_dead_letter_records_the_operator_and_the_reason() {
    let bench = Bench::of(&format!("{CHAT}attempts = 1\n{TO_CHAT}")).await;
    bench.ears.answers.lock().unwrap().push_back((StatusCode::GONE, None));
    bench.tell("approval.opened", "a-1").await;
    bench.round().await;
    let name = bench.dead().await[0].name();

    bench.does("chat", &name, DeliveryKeys::discard).await;

    assert!(bench.dead().await.is_empty());
    let settled = bench.outbox.all::<SettledDelivery>("").await.unwrap().remove(0).1.0;
    assert_eq!((settled.state, settled.order.unwrap().why.as_str()), (State::Discarded, "it is fixed"));
    assert!(matches!(bench.does("chat", &name, DeliveryKeys::discard).await, CommandOutcome::Nothing));
}

#[tokio::test]
async fn a_settled_delivery_is_resent_as_a_new_one_and_is_kept() {
    let bench = Bench::of(&format!("{CHAT}{TO_CHAT}")).await;
    bench.tell("approval.opened", "a-1").await;
    bench.tell("approval.opened", "a-2").await;
    assert_eq!(bench.hears().await.len(), 2);
    let settled = bench.outbox.all::<SettledDelivery>("").await.unwrap();
    let first =
        settled.into_iter().map(|(_, SettledDelivery(one))| one).find(|one| one.told.about == "a-1").unwrap();

    let again = this(bench.does("chat", &first.name(), DeliveryKeys::resend).await);
    assert_eq!(bench.hears().await, ["approval.opened a-1"]);

    assert_eq!(again.replay.unwrap().of, first.name());
    assert_eq!(bench.settled().await.len(), 3, "both are recorded");
}

#[tokio::test]
async fn the_last_ten_attempts_are_stored_with_their_results() {
    let bench = Bench::of(&format!("{CHAT}attempts = 12\n{TO_CHAT}")).await;
    bench.ears.answers.lock().unwrap().extend([(StatusCode::BAD_REQUEST, None); 11]);
    bench.ears.answers.lock().unwrap().push_back((StatusCode::IM_A_TEAPOT, None));
    bench.tell("approval.opened", "a-1").await;
    for _ in 0..12 {
        bench.round().await;
        bench.clock.advance(60 * MINUTE);
    }

    let dead = bench.dead().await.remove(0);

    assert_eq!((dead.tries, dead.attempts.len()), (12, 10));
    let statuses: Vec<_> = dead.attempts.iter().map(|attempt| attempt.status().unwrap()).collect();
    assert_eq!((statuses[0], statuses[9]), (400, 418));
    assert!(dead.attempts.is_sorted_by_key(|attempt| attempt.at));
}

/// A receiver can order events that arrive in any order.
#[tokio::test]
async fn events_have_an_order_and_the_end_of_a_matter_sorts_after_its_start() {
    let bench = Bench::of(&format!("{CHAT}{TO_CHAT}")).await;
    bench.tell("approval.granted", "a-1").await;
    bench.tell("approval.opened", "a-1").await;
    bench.round().await;

    let heard = bench.ears.heard();
    let order: Vec<_> = heard.iter().map(|event| event["sequence"].as_str().unwrap()).collect();
    assert_eq!(order, ["1795293000000.0", "1795293000000.3"]);
    assert!(heard.iter().all(|event| event.get("traceparent").is_none()), "there are no traces");
}

#[cfg(feature = "otlp")]
#[tokio::test]
async fn an_event_of_a_traced_execution_has_its_trace() {
    let bench = Bench::of(&format!("{CHAT}{TO_CHAT}")).await;
    let bench = Bench { outbox: bench.outbox.traced(true), ..bench };
    let id = store::ExecutionId::new(EVENING, [7; 10]);
    bench.tell("execution.parked", &id.to_string()).await;
    bench.tell("approval.opened", &format!("{id}.2")).await;
    bench.tell("schedule.failed", "nightly").await;
    bench.round().await;

    let heard = bench.ears.heard();
    let trace = |event: &Value| event.get("traceparent").and_then(Value::as_str).map(str::to_owned);
    let traces: Vec<_> = heard.iter().map(trace).collect();
    let wanted = format!("00-{}-", id.to_string().replace('-', ""));
    assert!(traces[0].as_ref().is_some_and(|trace| trace.starts_with(&wanted)), "{traces:?}");
    assert_eq!(traces.iter().flatten().count(), 2, "a sweep is not an execution: {traces:?}");
    assert_eq!(trace(&heard[0]), trace(&heard[1]));
}

#[tokio::test]
async fn a_file_has_one_line_per_notification_and_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("told.jsonl");
    let settings = format!("[channels.file]\nkind = \"file\"\npath = \"{}\"\n", path.display());
    let bench = Bench::of(&format!("{settings}[[routes]]\nchannels = [\"file\"]\n")).await;
    bench.tell("approval.opened", "a-1").await;
    bench.tell("approval.opened", "a-2").await;
    bench.round().await;

    let text = std::fs::read_to_string(&path).unwrap();
    let told: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((told.len(), &told[0]["subject"], &told[1]["subject"]), (2, &json!("a-1"), &json!("a-2")));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(bench.settled().await.len(), 2);

    let folder = format!("[channels.file]\nkind = \"file\"\npath = \"{}\"\n", folder.path().display());
    let refused = Outbox::of(&toml::from_str(&folder).unwrap(), bench.store.clone(), bench.clock.clone());
    let why = refused.err().unwrap();
    assert!(why.starts_with("notify.channels.file.path: "), "{why}");
}
