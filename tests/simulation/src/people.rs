//! The users who request, vote, interfere and repair: through any node that answers, with retries.

use crate::{
    Asked, ROUNDS,
    dice::Dice,
    everything, laws,
    nodes::Node,
    trouble::Trouble,
    wire::{CLIENT_WAITS, Shared},
    world::World,
};
use engine::{
    ApprovalRecord, Attribution, Engine, Error, Event, MINUTE, Person, PlanDigest, Request, Verdict,
};
use std::{future::Future, sync::Arc, time::Duration};
use store::{Record, Store};

/// The context of the users.
pub struct Play {
    /// The nodes.
    pub nodes: Vec<Arc<Node>>,
    /// The parts that all nodes share.
    pub shared: Arc<Shared>,
    /// The seed of random numbers.
    pub seed: u64,
}

impl Play {
    /// Calls one node after the other until one answers; acceptance and refusal of the engine are both answers.
    async fn through<T, F>(&self, dice: &Dice, ask: impl Fn(Engine<Arc<World>>) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        loop {
            if let Some(engine) = dice.pick(&self.nodes).engine() {
                match tokio::time::timeout(CLIENT_WAITS, ask(engine)).await {
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(Error::Store(store::Error::Unavailable { .. }) | Error::Contended(_)))
                    | Err(_) => {}
                    Ok(Err(error)) => return Err(error),
                }
            }
            tokio::time::sleep(dice.span(500, 5_000)).await;
        }
    }

    async fn tell(&self, dice: &Dice, record: &Record, event: Event) {
        let id = record.id;
        let name: &str = (&event).into();
        self.shared.laws.note(format_args!("people: {name} for {}", laws::short(id)));
        let told = self.through(dice, |engine| {
            let event = event.clone();
            async move { engine.deliver(id, event).await }
        });
        match told.await {
            Ok(_) | Err(Error::Refused(_)) => {}
            Err(error) => self.shared.laws.broken(format!("{name} for {id} was answered {error}")),
        }
    }

    async fn vote(
        &self,
        dice: &Dice,
        record: &Record,
        person: &Person,
        verdict: Verdict,
        digest: &PlanDigest,
    ) {
        let id = record.id;
        let name = &person.name;
        self.shared.laws.note(format_args!("people: {name} votes {verdict:?} on {}", laws::short(id)));
        let voted = self.through(dice, |engine| async move {
            engine.vote(id, person, verdict, digest, "simulated").await
        });
        match voted.await {
            Ok(_) | Err(Error::Refused(_)) => {}
            Err(error) => self.shared.laws.broken(format!("a vote on {id} was answered {error}")),
        }
    }

    async fn case_of(&self, record: &Record) -> Option<ApprovalRecord> {
        let prefix = format!("{}.", record.id);
        let found = self.shared.truth.documents("approvals", &prefix, None, 1).await.unwrap();
        found.items.first().and_then(|found| serde_json::from_slice(&found.body).ok())
    }

    async fn open(&self) -> Vec<Record> {
        everything(&self.shared.truth).await.into_iter().filter(|record| record.open).collect()
    }
}

/// Ada, who holds the approving role, requests everything.
fn requester() -> Person {
    Person::new("ada", ["boss"])
}

/// Sends each request at its time, and retries until it is acknowledged.
pub fn ask(play: &Arc<Play>, requests: Vec<(Duration, Asked)>, troubled: Duration) {
    for (number, (at, asked)) in requests.into_iter().enumerate() {
        let play = play.clone();
        tokio::spawn(async move {
            let dice = Dice::new(play.seed, &format!("client {number}"));
            tokio::time::sleep(at.min(troubled)).await;
            loop {
                let key = format!("request-{number}");
                let started = play.through(&dice, |engine| {
                    let (request, asked) =
                        (Request::by(&requester()).with_idempotency_key(&key, &key), asked.clone());
                    async move {
                        match asked {
                            Asked::Errand(errand) => engine.start(errand, request).await,
                            Asked::Demolition(house) => engine.start(house, request).await,
                        }
                    }
                });
                match started.await {
                    Ok(started) => {
                        let known = play.shared.truth.load(started.id).await.unwrap();
                        if known.is_none() {
                            play.shared
                                .laws
                                .broken(format!("{} was acknowledged and is not there", started.id));
                        }
                        return;
                    }
                    // Another execution of the same subject is open.
                    Err(Error::Store(store::Error::Busy { .. } | store::Error::Conflict { .. })) => {
                        tokio::time::sleep(10 * MINUTE).await;
                    }
                    Err(error) => {
                        return play.shared.laws.broken(format!("a request was answered {error}"));
                    }
                }
            }
        });
    }
}

/// In the troubled phase, users send correct and incorrect commands.
pub async fn meddle(play: &Arc<Play>, troubled: Duration) {
    let dice = Dice::new(play.seed, "people");
    while play.shared.began.elapsed() < troubled {
        tokio::time::sleep(dice.span(30_000, 20 * 60_000)).await;
        let open = play.open().await;
        if open.is_empty() {
            continue;
        }
        let record = dice.pick(&open).clone();
        bother(play, &dice, &record).await;
        // Users are sometimes absent: approvals expire, and parked executions wait.
        if dice.below(3) > 0 {
            attend(play, &dice, &record).await;
        }
    }
}

/// Wrong or unusual commands of a user.
async fn bother(play: &Arc<Play>, dice: &Dice, record: &Record) {
    let shared = &play.shared;
    if shared.strikes(Trouble::StraySignal, 150) {
        play.tell(dice, record, Event::Signalled { name: "go".into() }).await;
    }
    if shared.strikes(Trouble::Cancel, 50) {
        play.tell(dice, record, Event::CancelRequested(order())).await;
    }
    if shared.strikes(Trouble::Terminate, 10) {
        play.tell(dice, record, Event::TerminateRequested(order())).await;
    }
    if shared.strikes(Trouble::Pause, 80) {
        play.tell(dice, record, Event::PauseRequested(order())).await;
    }
    if shared.strikes(Trouble::BadVote, 300)
        && let Some(case) = play.case_of(record).await
    {
        let old = PlanDigest("sha256:of-another-plan".to_owned());
        let digest = if dice.below(2) == 0 { &old } else { &case.digest };
        let people = [requester(), Person::new("eve", ["stranger"]), Person::new("bob", ["boss"])];
        play.vote(dice, record, dice.pick(&people), Verdict::Approve, digest).await;
        play.vote(dice, record, dice.pick(&people), Verdict::Approve, &case.digest).await;
    }
    if shared.strikes(Trouble::Refusal, 60)
        && let Some(case) = play.case_of(record).await
    {
        play.vote(dice, record, &Person::new("cem", ["boss"]), Verdict::Refuse, &case.digest).await;
    }
}

/// The expected commands of a user.
async fn attend(play: &Arc<Play>, dice: &Dice, record: &Record) {
    if record.phase == "parked" {
        return play.tell(dice, record, Event::RetryRequested(order())).await;
    }
    if record.phase == "paused" {
        return play.tell(dice, record, Event::ResumeRequested(order())).await;
    }
    if let Some(case) = play.case_of(record).await {
        for name in ["bob", "cem"] {
            play.vote(dice, record, &Person::new(name, ["boss"]), Verdict::Approve, &case.digest).await;
        }
    }
    let listens = ["First", "Second", "Third", "Fourth", "Fifth"].contains(&record.state.as_str());
    if listens && dice.below(3) == 0 {
        play.tell(dice, record, Event::Signalled { name: "go".into() }).await;
    }
}

/// In the calm phase, users act on every execution until it has ended.
pub async fn mend(play: &Arc<Play>, calm: Duration) {
    let dice = Dice::new(play.seed, "menders");
    let end = play.shared.began.elapsed() + calm;
    // Every request has been sent by now, and may still wait for its answer.
    tokio::time::sleep(30 * MINUTE).await;
    while play.shared.began.elapsed() < end {
        let open = play.open().await;
        if open.is_empty() {
            // A request that waits for its subject retries within ten minutes.
            tokio::time::sleep(11 * MINUTE).await;
            if play.open().await.is_empty() {
                return;
            }
        }
        for record in open {
            attend(play, &dice, &record).await;
        }
        tokio::time::sleep(ROUNDS * 10).await;
        if play.shared.laws.any_broken() {
            return;
        }
    }
}

fn order() -> Attribution {
    Attribution { by: "operator".into(), reason: "simulated".into() }
}
