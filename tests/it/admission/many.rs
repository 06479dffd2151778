//! Concurrent requests on a real store, and agreement with the planner's arithmetic.

use proptest::{collection::vec, option, prelude::*};
use std::sync::Arc;
use store::{Commit, Memory, Store, Timestamp};
use tests::books::account::{World, gpus, h100, job, tenant, workspace};
use workflows::{
    scheduling::{
        admission::{self, WorkloadRequest},
        planner::{Preemption, Quota, ResourceKind, Sharing, Snapshot},
    },
    tenancy::*,
};

/// Commits a decision as the engine does: decides again until nothing that it read has changed.
async fn submit(store: Arc<Memory>, now: Timestamp, request: WorkloadRequest) -> AdmissionVerdict {
    loop {
        let decided = engine::decide(&*store, now, |view| admission::submit(view, &request)).await.unwrap();
        let commit = Commit { reads: decided.reads, documents: decided.puts, ..Commit::default() };
        match store.commit(commit).await {
            Ok(_) => return decided.result.unwrap().admission.answer,
            Err(store::Error::Conflict { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn stored(world: &World) -> Arc<Memory> {
    let store = Arc::new(Memory::new());
    store.commit(Commit { documents: world.books.puts(), ..Commit::default() }).await.unwrap();
    store
}

/// S-43.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_one_of_64_workloads_gets_the_last_gpu() {
    let mut world = World::new(1).with(&[("a", gpus(8, None, None)), ("b", gpus(0, None, None))]);
    world.submit(&job("a", "most", 7)).unwrap();
    let store = stored(&world).await;

    let asking = (0..64).map(|n| {
        let request = job(["a", "b"][n % 2], &format!("n-{n}"), 1);
        tokio::spawn(submit(Arc::clone(&store), world.books.now, request))
    });
    let mut admitted = 0;
    for answer in asking.collect::<Vec<_>>() {
        admitted += u32::from(answer.await.unwrap() == AdmissionVerdict::Admit);
    }

    assert_eq!(admitted, 1);
}

fn limits() -> impl Strategy<Value = (u64, Option<u64>, Option<u64>, u64)> {
    (0..20_u64, option::of(0..20_u64), option::of(0..20_u64), 0..30_u64)
}

proptest! {
    #![proptest_config(tests::cases(2_000))]

    /// Admission and the reclaim planner count the same (4.1 of the specification), whatever was granted before.
    #[test]
    fn admission_and_the_planner_agree_on_what_is_available(all in vec(limits(), 1..6)) {
        let kind = ResourceKind::gpu("H100");
        let mut cohort = Cohort::new(tenant(), Timestamp(0));
        let mut snapshot = Snapshot::new();
        snapshot.add_cohort("acme", None, Sharing::default()).unwrap();
        for (n, (nominal, borrowing_limit, lending_limit, used)) in all.iter().enumerate() {
            let name = format!("w-{n}");
            let allowances = gpus(*nominal, *borrowing_limit, *lending_limit);
            cohort = cohort.with_allowances(&workspace(&name), WorkspaceClass::Batch, &allowances);
            let account = cohort.accounts.get_mut(&workspace(&name)).unwrap();
            account.balances.get_mut(&h100()).unwrap().used = *used;
            snapshot.add_workspace(&name, Some("acme"), Preemption::default(), Sharing::default()).unwrap();
            let quota = Quota { nominal: *nominal, borrowing_limit: *borrowing_limit, lending_limit: *lending_limit };
            snapshot.set_quota(&name, &kind, quota).unwrap();
            let usage = [(kind.clone(), *used)].into();
            snapshot.admit(workflows::scheduling::planner::Workload::new(&format!("x-{n}"), &name, usage)).unwrap();
        }
        for n in 0..all.len() {
            let name = format!("w-{n}");
            prop_assert_eq!(cohort.available(&workspace(&name), &h100()), snapshot.available(&name, &kind));
        }
    }
}
