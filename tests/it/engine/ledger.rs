//! Decisions on our own documents under concurrent writes.

use super::job::Bench;
use engine::{ActionError, Entity, Undecided, View};
use serde::{Deserialize, Serialize};
use store::{Commit, Key, Put, Store};
use tokio::runtime::Handle;

#[derive(Clone, Serialize, Deserialize)]
struct Shelf {
    free: Vec<String>,
}
impl Entity for Shelf {
    const COLLECTION: &'static str = "shelves";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;
    fn id(&self) -> String {
        "one".into()
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Machine {
    name: String,
    taken: bool,
}
impl Entity for Machine {
    const COLLECTION: &'static str = "machines";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;
    fn id(&self) -> String {
        self.name.clone()
    }
}

async fn write(store: &dyn Store, free: &[&str], taken: bool) {
    let shelf = serde_json::to_vec(&Shelf { free: free.iter().map(|s| (*s).to_owned()).collect() });
    let machine = serde_json::to_vec(&Machine { name: "m".into(), taken });
    let put = |key, body: serde_json::Result<Vec<u8>>| Put { key, body: Some(body.unwrap()) };
    let documents = vec![put(Key::new("shelves", "one"), shelf), put(Key::new("machines", "m"), machine)];
    store.commit(Commit { documents, ..Commit::default() }).await.unwrap();
}

fn choose(view: &mut View) -> Result<Option<String>, Undecided> {
    let Some(name) = view.require::<Shelf>("one")?.free.first().cloned() else { return Ok(None) };
    if view.require::<Machine>(&name)?.taken {
        return Err(ActionError::permanent("machine.taken", "a machine on the shelf was taken").into());
    }
    Ok(Some(name))
}

/// With two hundred tenants at once, fifteen were wrongly rejected for good. The shelf was read before another execution's
/// claim, and the machine after it. A refusal must be checked against current documents, as an agreement is.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_based_on_documents_of_different_times_is_decided_again() {
    for keep in [true, false] {
        let bench = Bench::new();
        write(&*bench.store, &["m"], false).await;
        let mut calls = 0;

        let chosen = bench.engine.transact(keep, |view| {
            calls += 1;
            if calls == 2 {
                // The shelf has been read, and the machine has not: now another execution takes it.
                let taken = write(&*bench.store, &[], true);
                tokio::task::block_in_place(|| Handle::current().block_on(taken));
            }
            choose(view)
        });

        assert_eq!(chosen.await.unwrap(), None);
    }
}
