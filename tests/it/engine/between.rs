//! Interference at each clock read of a worker: another engine does all available work, a child gets its signal, or the
//! parent is cancelled. Only minutes pass, and a lost wake-up would cost an hour.

use super::{
    household::{House, Way, bench, house, job},
    job::{Bench, Job, Spec, Stage, does},
};
use engine::{Attribution, BoxFuture, Clock, Engine, MINUTE, ManualClock, Options, Outcome};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};
use store::{ExecutionId, Timestamp};
use tokio::runtime::Handle;

/// A clock that runs a function at its n-th read.
struct Meddling {
    inner: Arc<ManualClock>,
    left: AtomicUsize,
    meddle: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl Clock for Meddling {
    fn now(&self) -> Timestamp {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(meddle) = self.meddle.lock().unwrap().take()
        {
            meddle();
        }
        self.inner.now()
    }
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'_, ()> {
        self.inner.sleep_until(at)
    }
    fn entropy(&self) -> [u8; 10] {
        self.inner.entropy()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Meddle {
    Work,
    Signal,
    Cancel,
}

async fn tell_children(engine: &Engine<Stage>, parent: ExecutionId) {
    for child in engine.open_children(parent).await.unwrap() {
        engine.signal(child.execution, "go").await.unwrap();
    }
}

async fn meddle(engine: &Engine<Stage>, parent: ExecutionId, how: Meddle) {
    match how {
        Meddle::Work => {}
        Meddle::Signal => tell_children(engine, parent).await,
        Meddle::Cancel => {
            let order = Attribution { by: "olga".into(), reason: String::new() };
            _ = engine.cancel(parent, order).await;
        }
    }
    engine.run_until_idle().await.unwrap();
}

/// Returns true if the clock was read `nth` times.
async fn survives(jobs: Vec<Job>, nth: usize, how: Meddle) -> bool {
    let bench: Bench = bench();
    let clock = Arc::new(Meddling {
        inner: bench.clock.clone(),
        left: AtomicUsize::new(usize::MAX),
        meddle: Mutex::default(),
    });
    let slow = Engine::new(bench.store.clone(), clock.clone(), bench.stage.clone());
    let slow = slow
        .with_workflow::<House>()
        .unwrap()
        .with_options(Options { holder: "slow".into(), ..Options::default() });
    let parent = bench.live(house(Way::Strict, jobs)).await;
    let other = bench.engine.clone();
    *clock.meddle.lock().unwrap() = Some(Box::new(move || {
        tokio::task::block_in_place(|| Handle::current().block_on(meddle(&other, parent.id, how)));
    }));
    clock.left.store(nth, Ordering::SeqCst);

    slow.run_until_idle().await.unwrap();
    let reached = clock.meddle.lock().unwrap().is_none();
    // A worker that finds a conflict returns after a second; a parent polls after an hour.
    bench.settle(MINUTE).await;
    tell_children(&bench.engine, parent.id).await;
    bench.settle(MINUTE).await;

    let outcome = bench.stands(parent).await;
    let cancelled = how == Meddle::Cancel && outcome.2.as_deref() == Some("cancelled");
    assert!(cancelled || outcome.2.as_deref() == Some("completed"), "{how:?} at read {nth}: {outcome:?}");
    for child in bench.engine.children(parent.id).await.unwrap() {
        let ended = child.outcome == Some(Outcome::Completed);
        assert!(
            ended || cancelled && child.outcome == Some(Outcome::Cancelled),
            "{how:?} at read {nth}: {child:?}"
        );
        assert_eq!(child.parent.attempt, 1);
    }
    reached
}

#[tokio::test(flavor = "multi_thread")]
async fn no_wake_up_is_lost_between_a_check_and_the_sleep() {
    let kinds: [fn() -> Vec<Job>; 3] = [
        || vec![job("a", [])],
        || vec![job("a", [does(&["a"])]), job("b", [does(&["b"])])],
        || vec![job("a", [Spec::Listen])],
    ];
    for how in [Meddle::Work, Meddle::Signal, Meddle::Cancel] {
        for jobs in kinds {
            let mut nth = 1;
            while survives(jobs(), nth, how).await {
                nth += 1;
                assert!(nth < 1_000);
            }
            assert!(nth > 5, "the clock is read often: {nth}");
        }
    }
}
