//! The whole engine under one seed: several nodes on one store, each with its own clock and connection, an external system
//! that loses calls, and users with arbitrary commands. Time is simulated: a day takes milliseconds, and the same seed
//! gives the same day.
//!
//! [`play`] runs one case and returns the broken laws; [`shrink`] reduces a failing case. No part of the engine is copied:
//! the nodes run [`engine::Engine::run`] as a server does, on tokio's paused clock and one thread.

pub mod cast;
pub mod clock;
pub mod dice;
pub mod disk;
pub mod laws;
pub mod mutate;
pub mod nodes;
pub mod people;
pub mod report;
pub mod scale;
pub mod trouble;
pub mod wire;
pub mod world;

use cast::{Chore, Demolition, Errand, Pool, Spec};
use dice::Dice;
use engine::{Entity, HOUR, MINUTE};
use laws::Laws;
use nodes::Node;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use store::{Commit, Filter, Key, Memory, Put, Record, Store};
use tokio::time::Instant;
use trouble::{Trouble, Troubles};
use wire::Shared;
use world::World;

/// The input of a simulation, which determines all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The source of all random numbers.
    pub seed: u64,
    /// Faults that do not happen.
    pub without: BTreeSet<Trouble>,
    /// The maximum number of faults.
    pub upto: u64,
    /// The maximum number of requested executions.
    pub executions: usize,
}

impl Case {
    /// The full case of `seed`.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self { seed, without: BTreeSet::new(), upto: u64::MAX, executions: usize::MAX }
    }
}

/// The result of a case.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The case.
    pub case: Case,
    /// The laws that were broken; empty when all held.
    pub broken: Vec<String>,
    /// The events, one per line.
    pub history: Vec<String>,
    /// The number of events.
    pub events: u64,
    /// The number of faults.
    pub troubles: u64,
    /// Executions by their end.
    pub ends: std::collections::BTreeMap<String, u64>,
}

/// The duration of the troubled phase.
const TROUBLED: Duration = Duration::from_secs(8 * 3_600);
/// The maximum duration of the calm phase.
const CALM: Duration = Duration::from_secs(10 * 86_400);

/// Runs a case.
#[must_use]
pub fn play(case: &Case) -> Verdict {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let verdict = runtime.block_on(tokio::task::LocalSet::new().run_until(scene(case)));
    // Tasks of dead nodes wait without end.
    runtime.shutdown_background();
    verdict
}

async fn scene(case: &Case) -> Verdict {
    let began = Instant::now();
    let laws = Arc::new(Laws::new(began));
    let troubles = Arc::new(Troubles::new(case.seed, case.without.clone(), case.upto));
    let truth = Arc::new(Memory::new());
    truth.commit(beginning()).await.unwrap();
    let world = Arc::new(World::new(case.seed, troubles.clone(), laws.clone(), truth.clone()));
    let shared = Arc::new(Shared {
        truth: truth.clone(),
        laws: laws.clone(),
        troubles: troubles.clone(),
        dice: Dice::new(case.seed, "wire"),
        calm: AtomicBool::new(false),
        slow_until: AtomicU64::new(0),
        began,
    });
    let dice = Dice::new(case.seed, "scene");
    let count = 1 + u8::try_from(dice.below(3)).unwrap();
    let nodes: Vec<Arc<Node>> =
        (0..count).map(|number| Node::start(number, case.seed, shared.clone(), world.clone())).collect();
    let play = Arc::new(people::Play { nodes, shared: shared.clone(), seed: case.seed });
    let requests = requests(&dice, case.executions);
    let asked = requests.len();
    people::ask(&play, requests, TROUBLED);
    people::meddle(&play, TROUBLED).await;
    shared.calm.store(true, Ordering::SeqCst);
    world.calm_down();
    laws.note(format_args!("calm"));
    enlarge(&truth).await;
    people::mend(&play, CALM).await;
    let all = everything(&truth).await;
    judge(&truth, &laws, &world, &all, asked).await;
    let (history, broken, events) = laws.verdict();
    let mut ends = std::collections::BTreeMap::new();
    for record in &all {
        *ends.entry(record.reason.clone().unwrap_or_else(|| record.phase.clone())).or_default() += 1;
    }
    Verdict { case: case.clone(), broken, history, events, troubles: troubles.met(), ends }
}

/// The pool, sometimes with too few tokens for all executions.
fn beginning() -> Commit {
    let pool = Pool { total: 12, free: 12, held: std::collections::BTreeMap::new() };
    let key = Key::new(Pool::COLLECTION, Pool::ID);
    Commit { documents: vec![Put { key, body: serde_json::to_vec(&pool).ok() }], ..Commit::default() }
}

/// In the calm phase there is enough for all executions: one past its pivot must reach its end.
async fn enlarge(truth: &Memory) {
    let key = Key::new(Pool::COLLECTION, Pool::ID);
    let found = truth.document(&key).await.unwrap().unwrap();
    let mut pool: Pool = serde_json::from_slice(&found.body).unwrap();
    pool.total += 100;
    pool.free += 100;
    let documents = vec![Put { key, body: serde_json::to_vec(&pool).ok() }];
    truth.commit(Commit { documents, ..Commit::default() }).await.unwrap();
}

/// A request, with its time.
#[derive(Clone, Debug)]
pub enum Asked {
    /// An execution with steps as data.
    Errand(Errand),
    /// A demolition.
    Demolition(Demolition),
}

fn requests(dice: &Dice, most: usize) -> Vec<(Duration, Asked)> {
    let count = 4 + usize::try_from(dice.below(6)).unwrap();
    let all: Vec<_> = (0..count)
        .map(|number| {
            let at = dice.span(0, u64::try_from((4 * HOUR).as_millis()).unwrap());
            let name = format!("e{number}");
            let asked = if dice.below(4) == 0 {
                // Two of them sometimes have the same subject: one has to wait.
                let name = format!("house-{}", dice.below(3));
                let hidden = u32::try_from(dice.below(2)).unwrap();
                let number = u32::try_from(number).unwrap();
                Asked::Demolition(Demolition { name, number, hidden, rooms: 3, noted: vec![] })
            } else {
                Asked::Errand(errand(dice, &name))
            };
            (at, asked)
        })
        .collect();
    all.into_iter().take(most).collect()
}

fn errand(dice: &Dice, name: &str) -> Errand {
    let count = 1 + dice.below(5);
    let mut steps: Vec<Spec> = (0..count).map(|place| spec(dice, &format!("{name}-{place}"))).collect();
    // One pool entry for each execution: its total is the amount of its one step.
    let mut reserved = false;
    steps.retain(|step| !matches!(step, Spec::Reserve(_)) || !std::mem::replace(&mut reserved, true));
    // After a payment there is no approval: a rejection would have no way back.
    let paid = steps.iter().position(|step| matches!(step, Spec::Pay(_))).unwrap_or(steps.len());
    let mut place = 0..;
    steps.retain(|step| place.next() < Some(paid) || !matches!(step, Spec::Ask | Spec::Listen));
    Errand { name: name.into(), steps, noted: vec![], sent: vec![] }
}

fn spec(dice: &Dice, name: &str) -> Spec {
    let names = |count: u64| (0..count).map(|n| format!("{name}-{n}")).collect();
    match dice.below(12) {
        0..4 => Spec::Make(names(1 + dice.below(3))),
        4..6 => Spec::Reserve(1 + dice.below(4)),
        6 => Spec::Ask,
        7 => Spec::Listen,
        8 => Spec::Sleep,
        9 | 10 => {
            let chore = |name: String| Chore { name, dawdles: dice.below(2) == 0, noted: vec![] };
            Spec::Send(names(1 + dice.below(2)).into_iter().map(chore).collect())
        }
        _ => Spec::Pay(name.into()),
    }
}

/// Returns every execution.
async fn everything(truth: &Memory) -> Vec<Record> {
    truth.list(&Filter::default(), None, 10_000).await.unwrap().items
}

/// Checks the end: every execution is over, and has left the right objects.
async fn judge(truth: &Memory, laws: &Laws, world: &World, all: &[Record], asked: usize) {
    let pool = truth.document(&Key::new(Pool::COLLECTION, Pool::ID)).await.unwrap().unwrap();
    let pool: Pool = serde_json::from_slice(&pool.body).unwrap();
    let begun = all.iter().filter(|record| !laws::has_parent(record)).count();
    if begun != asked {
        laws.broken(format!("{asked} executions were requested, and {begun} were started"));
    }
    for record in all {
        if record.open {
            let reason = record.reason.as_deref().unwrap_or_default();
            laws.broken(format!(
                "{} ({}) did not end: {} {} {reason}",
                laws::short(record.id),
                record.workflow,
                record.phase,
                record.state
            ));
            continue;
        }
        let tokens = pool.held.get(&record.id.to_string()).copied().unwrap_or(0);
        laws.ended(record, &world.things_of(record.id), tokens);
    }
    if truth.next_due().await.unwrap().is_some() && all.iter().all(|record| !record.open) {
        for record in all {
            let left = truth.tasks(record.id).await.unwrap();
            if !left.is_empty() {
                // Tasks of ended executions are stale, and dropped when they are due.
                laws.note(format_args!("{}: {} tasks left", laws::short(record.id), left.len()));
            }
        }
    }
}

/// Reduces a failing case: fewer executions, fewer kinds of faults, and no fault after the last relevant one.
#[must_use]
pub fn shrink(verdict: Verdict) -> Verdict {
    let mut best = verdict;
    let better = |case: Case, best: &mut Verdict| {
        let tried = play(&case);
        let worse = tried.broken.is_empty();
        if !worse {
            *best = tried;
        }
        !worse
    };
    for kind in <Trouble as strum::VariantArray>::VARIANTS {
        let mut case = best.case.clone();
        case.without.insert(*kind);
        better(case, &mut best);
    }
    let (mut low, mut high) = (0, best.troubles);
    while low < high {
        let middle = low.midpoint(high);
        let case = Case { upto: middle, ..best.case.clone() };
        if better(case, &mut best) { high = middle } else { low = middle + 1 }
    }
    for executions in 1..8 {
        let case = Case { executions, ..best.case.clone() };
        if executions >= best.case.executions || better(case, &mut best) {
            break;
        }
    }
    best
}

/// How long a dead node stays away.
pub const AWAY: (u64, u64) = (100, 5 * 60_000);
/// How often users act in the calm phase.
pub const ROUNDS: Duration = MINUTE;
