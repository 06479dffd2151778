//! Many decisions on the same document conflict with each other.

use crate::{
    Call, Clock as _, Engine, Entity, LedgerAction, ManualClock, Options, Outcome, Person, Plan, Request,
    Step, Subject, Undecided, View, Workflow, act, end,
};
use serde::{Deserialize, Serialize};
use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};
use store::{Commit, Key, Memory, Put, Store as _, Timestamp};

/// The competitors: whenever a decision is made, one of them commits first, and time passes.
struct Crowd {
    store: Arc<Memory>,
    clock: Arc<ManualClock>,
    left: u32,
    /// Tasks that another process could have taken meanwhile.
    taken: usize,
}

static CROWD: Mutex<Option<Crowd>> = Mutex::new(None);

/// The store in memory never waits.
pub(super) fn at_once<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("the store waits"),
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Shelf {
    things: u32,
}
impl Entity for Shelf {
    const COLLECTION: &'static str = "shelves";
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;
    fn id(&self) -> String {
        "one".into()
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Take;
impl LedgerAction for Take {
    const NAME: &'static str = "Take";
    type Output = ();
    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        let things = view.get::<Shelf>("one")?.map_or(0, |shelf| shelf.things);
        let mut crowd = CROWD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(crowd) = crowd.as_mut().filter(|crowd| crowd.left > 0) {
            crowd.left -= 1;
            let body = Some(serde_json::to_vec(&Shelf { things: things + 1 }).unwrap());
            let put = Put { key: Key::new(Shelf::COLLECTION, "one"), body };
            at_once(crowd.store.commit(Commit { documents: vec![put], ..Commit::default() })).unwrap();
            let lease = Options::default().lease;
            crowd.clock.advance(lease / 4);
            let at = crowd.clock.now();
            crowd.taken += at_once(crowd.store.lease("another", at, lease, 9)).unwrap().len();
        }
        view.put(&Shelf { things: things + 1 })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
enum State {
    Taking,
    Taken,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Taker;
impl Workflow for Taker {
    const NAME: &'static str = "taker";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Taking;
    type State = State;
    type Platform = ();

    fn step(&self, state: State) -> Step<Self> {
        match state {
            State::Taking => act(Take).nothing_to_undo().then(State::Taken),
            State::Taken => end(Outcome::Completed),
        }
    }

    fn subject(&self) -> Subject {
        Subject::default()
    }

    fn plan(&self) -> Plan {
        Plan::default()
    }

    fn examples() -> Vec<Self> {
        vec![Self]
    }
}

/// Decisions that are repeated for longer than a lease must keep it. Otherwise other processes take the task and add
/// to the contention, and after eight deliveries the task is poisoned.
#[tokio::test]
async fn a_worker_that_repeats_a_decision_keeps_its_lease() {
    let (store, clock) = (Arc::new(Memory::new()), Arc::new(ManualClock::starting_at(Timestamp(1_000_000))));
    let engine = Engine::new(store.clone(), clock.clone(), ()).with_workflow::<Taker>().unwrap();
    let id = engine.start(Taker, Request::by(&Person::new("ada", ["ops"]))).await.unwrap().id;
    *CROWD.lock().unwrap() = Some(Crowd { store, clock, left: 20, taken: 0 });

    engine.run_until_idle().await.unwrap();

    let taken = CROWD.lock().unwrap().as_ref().map(|crowd| (crowd.left, crowd.taken));
    assert_eq!(taken, Some((0, 0)), "no other worker could take the task for five leases");
    assert_eq!(engine.record(id).await.unwrap().reason.as_deref(), Some("completed"));
}
