//! `cargo bench -p tests --bench admission`: what an admission and an end cost in a large tenant: 32 workspaces, 400 nodes, 2,500
//! workloads that run, on the in-memory store. Prints it; exits non-zero if such a pair takes longer than 5 ms.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};
use store::{Commit, Memory, Store};
use tests::books::account::{World, gpus, job, tenant};
use workflows::{
    scheduling::admission::{finish, submit},
    tenancy::{Admission, Answer, WorkspaceClass},
};

/// What must hold.
const EACH: Duration = Duration::from_millis(5);
const PAIRS: u32 = 2_000;

async fn decide<T>(
    store: &Memory,
    world: &World,
    attempt: impl FnMut(&mut engine::View) -> Result<T, engine::Undecided>,
) -> T {
    let decided = engine::decide(store, world.books.now, attempt).await.unwrap();
    let commit = Commit { reads: decided.reads, documents: decided.puts, ..Commit::default() };
    store.commit(commit).await.unwrap();
    decided.result.unwrap()
}

async fn ask(store: &Memory, world: &World, workspace: &str, name: &str) -> Admission {
    let request = job(workspace, name, 1);
    decide(store, world, |view| submit(view, &request)).await.admission
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let names: Vec<String> = (0..32).map(|n| format!("ws-{n:02}")).collect();
    let mut world = World::new(400);
    for name in &names {
        world.allow(name, WorkspaceClass::Batch, gpus(100, None, None));
    }
    let store = Memory::new();
    store.commit(Commit { documents: world.books.puts(), ..Commit::default() }).await.unwrap();
    // A quarter of the workspaces borrow.
    for n in 0..2_500 {
        let workspace = if n % 3 == 0 { n % 8 } else { n % 32 };
        let admission = ask(&store, &world, &names[workspace], &format!("run-{n:04}")).await;
        assert_eq!(admission.answer, Answer::Admit, "{n}: {:?}", admission.weighed);
    }

    let started = Instant::now();
    for n in 0..PAIRS {
        let name = format!("more-{n}");
        ask(&store, &world, &names[n as usize % 32], &name).await;
        decide(&store, &world, |view| finish(view, &tenant(), &name)).await;
    }
    let each = started.elapsed() / PAIRS;

    println!("an admission and an end beside 2,500 workloads: {each:?} (at most {EACH:?})");
    if each <= EACH { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
