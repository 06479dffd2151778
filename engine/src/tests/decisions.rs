//! Decisions on the same document queue, and several are committed together.

use crate::{
    ActionError, AuditContext, Engine, Entity, Error, ManualClock, Metrics, Options, SystemClock,
    testing::CrashStore, with_actor,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use store::{Commit, Key, Memory, Put, Store as _, Timestamp};

/// A document that every decision changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Register {
    names: BTreeSet<String>,
}

impl Entity for Register {
    const COLLECTION: &'static str = "registers";
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;
    const QUEUED: bool = true;

    fn id(&self) -> String {
        "one".into()
    }
}

/// The same document, without `QUEUED`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Plain {
    names: BTreeSet<String>,
}

impl Entity for Plain {
    const COLLECTION: &'static str = "plain";
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;

    fn id(&self) -> String {
        "one".into()
    }
}

fn engine(store: &Arc<CrashStore>) -> Engine<()> {
    Engine::new(store.clone(), Arc::new(SystemClock), ())
}

fn slow_store() -> (Arc<Memory>, Arc<CrashStore>) {
    let memory = Arc::new(Memory::new());
    (memory.clone(), Arc::new(CrashStore::new(memory, None)))
}

async fn enter(engine: Engine<()>, name: String) -> Result<usize, Error> {
    engine
        .transact(true, |view| {
            let mut register = view.get::<Register>("one")?.unwrap_or_default();
            if name.starts_with('!') {
                return Err(ActionError::permanent("register.name", "no such names").into());
            }
            register.names.insert(name.clone());
            let count = register.names.len();
            view.put_shared(&Arc::new(register))?;
            Ok(count)
        })
        .await
}

async fn document<T: Entity>(memory: &Memory) -> T {
    let found = memory.document(&Key::new(T::COLLECTION, "one")).await.unwrap().unwrap();
    serde_json::from_slice(&found.body).unwrap()
}

/// Of 400 concurrent decisions, each gets its place in order of arrival, with far fewer commits than decisions.
#[tokio::test]
async fn concurrent_decisions_are_taken_in_the_order_of_arrival_and_committed_together() {
    let (memory, store) = slow_store();
    let engine = engine(&store);

    let crowd: Vec<_> = (0..400).map(|n| tokio::spawn(enter(engine.clone(), format!("{n:03}")))).collect();
    let mut places = Vec::new();
    for one in crowd {
        places.push(one.await.unwrap().unwrap());
    }

    assert_eq!(places, (1..=400).collect::<Vec<_>>());
    assert_eq!(document::<Register>(&memory).await.names.len(), 400);
    assert!(store.commits() <= 20, "{} commits for 400 decisions", store.commits());
}

/// A refusal depends on earlier decisions, and none of them is lost because of it.
#[tokio::test]
async fn a_refusal_does_not_affect_the_decisions_in_the_same_commit() {
    let (memory, store) = slow_store();
    let engine = engine(&store);

    let name = |n: u32| if n.is_multiple_of(3) { format!("!{n}") } else { n.to_string() };
    let crowd: Vec<_> = (0..90).map(|n| tokio::spawn(enter(engine.clone(), name(n)))).collect();
    let mut refused = 0;
    for one in crowd {
        match one.await.unwrap() {
            Ok(_) => {}
            Err(Error::Undecided(error)) if error.code == "register.name" => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }

    assert_eq!(refused, 30);
    assert_eq!(document::<Register>(&memory).await.names.len(), 60);
}

/// Two processes on one store conflict; each continues with the rest, and all decisions are committed.
#[tokio::test]
async fn decisions_of_two_processes_on_one_document_are_all_committed() {
    let (memory, store) = slow_store();
    let (one, other) = (engine(&store), engine(&store));

    let ask = |n: u32| {
        let engine = if n.is_multiple_of(2) { &one } else { &other };
        tokio::spawn(enter(engine.clone(), n.to_string()))
    };
    for asked in (0..200).map(ask).collect::<Vec<_>>() {
        asked.await.unwrap().unwrap();
    }

    assert_eq!(document::<Register>(&memory).await.names.len(), 200);
}

/// The first try has no queue; after a conflict, decisions queue.
#[tokio::test]
async fn decisions_on_any_document_queue_once_they_conflict() {
    let (memory, store) = slow_store();
    let engine = engine(&store);

    let enter = |n: u32| {
        let engine = engine.clone();
        tokio::spawn(async move {
            let attempt = |view: &mut crate::View| {
                let mut plain = view.get::<Plain>("one")?.unwrap_or_default();
                plain.names.insert(n.to_string());
                view.put(&plain)
            };
            engine.transact(true, attempt).await
        })
    };
    for one in (0..200).map(enter).collect::<Vec<_>>() {
        one.await.unwrap().unwrap();
    }

    assert_eq!(document::<Plain>(&memory).await.names.len(), 200);
    assert!(store.commits() < 300, "{} commits for 200 decisions", store.commits());
}

/// A caller that is dropped, or whose decision panics, does not affect other decisions.
#[tokio::test]
async fn a_dropped_caller_does_not_affect_other_decisions() {
    let (memory, store) = slow_store();
    let engine = engine(&store);

    let crowd: Vec<_> = (0..100_u32)
        .map(|n| {
            let entering = enter(engine.clone(), n.to_string());
            let engine = engine.clone();
            tokio::spawn(async move {
                match n % 10 {
                    3 => drop(tokio::time::timeout(Duration::ZERO, entering).await),
                    7 => {
                        let broken = engine.transact(true, |view| -> Result<(), crate::Undecided> {
                            view.get::<Register>("one")?;
                            panic!("as told")
                        });
                        broken.await.unwrap();
                    }
                    _ => drop(entering.await.unwrap()),
                }
            })
        })
        .collect();
    let mut panicked = 0;
    for one in crowd {
        panicked += u32::from(one.await.is_err());
    }

    assert_eq!(panicked, 10, "only the intended ones");
    let there = document::<Register>(&memory).await.names;
    let stayed = (0..100_u32).filter(|n| ![3, 7].contains(&(n % 10)));
    assert!(stayed.map(|n| n.to_string()).all(|name| there.contains(&name)), "{there:?}");
}

/// Each decision of a commit has an entry with its operation and its author.
#[tokio::test]
async fn every_decision_of_a_commit_has_its_own_entry_in_the_history() {
    let (memory, store) = slow_store();
    let engine = engine(&store);

    let asked = (0..30).map(|n| {
        let of = AuditContext {
            by: format!("user-{n}"),
            operation: "POST /v1/names".into(),
            path: "/v1/names".into(),
        };
        tokio::spawn(with_actor(of, enter(engine.clone(), n.to_string())))
    });
    for one in asked.collect::<Vec<_>>() {
        one.await.unwrap().unwrap();
    }

    let entries = memory.history(None, 100).await.unwrap().items;
    let by: BTreeSet<String> = entries.into_iter().map(|(_, entry)| entry.actor).collect();
    assert_eq!(by.len(), 30);
}

/// Another process commits before each try. In the end the caller gets an error of the server, not of the request.
#[tokio::test]
async fn a_decision_that_always_conflicts_fails_as_unavailable_when_its_patience_ends() {
    let (memory, store) = (Arc::new(Memory::new()), Arc::new(ManualClock::starting_at(Timestamp(7))));
    let patience = Duration::from_millis(50);
    let engine = Engine::<()>::new(memory.clone(), store, ())
        .with_metrics(Metrics::default())
        .with_options(Options { patience, ..Options::default() });
    let count = AtomicU32::new(0);

    let forestalled = engine.transact(true, |view| {
        let register = view.get::<Register>("one")?.unwrap_or_default();
        let names = [count.fetch_add(1, Ordering::Relaxed).to_string()].into();
        let body = serde_json::to_vec(&Register { names }).ok();
        let put = Put { key: Key::new(Register::COLLECTION, "one"), body };
        super::contention::at_once(memory.commit(Commit { documents: vec![put], ..Commit::default() }))
            .unwrap();
        view.put(&register)
    });
    let error = forestalled.await.unwrap_err();

    assert!(matches!(error, Error::Crowded { .. }), "{error}");
    assert_eq!(error.fault(), store::Fault::Unavailable);
}
