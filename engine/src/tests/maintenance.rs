//! A held store runs nothing, lists its pending work, and probes first after its release.

use crate::PendingWork;
use crate::tests::one_step::{Bench, OneStep};
use std::sync::atomic::Ordering;
use store::{Hold, Store as _, Timestamp};

#[tokio::test]
async fn work_scheduled_before_a_hold_is_listed_and_then_probed_first() {
    let bench = Bench::new();
    let id = bench.start(OneStep::of("acme", "dig")).await;
    bench.store.hold(Hold { since: Timestamp(3), why: "restored".into() }).await.unwrap();

    assert_eq!(bench.engine.run_until_idle().await.unwrap(), 0);

    let pending = bench.engine.pending_tasks(None, 10).await.unwrap();
    assert_eq!(pending.next, None);
    let called = pending.items.iter().find(|one| matches!(one.work, PendingWork::Calls { .. })).unwrap();
    assert_eq!((called.record.id, called.slot), (id, 0));
    let PendingWork::Calls { action, undo, untold } = &called.work else { unreachable!() };
    assert_eq!((action.as_str(), *undo, *untold), ("Dig", false, "parked"));
    assert!(bench.platform.begun().is_empty());
    assert!(!bench.engine.unhold(Timestamp(4)).await.unwrap());
    assert!(bench.engine.unhold(Timestamp(3)).await.unwrap());
    bench.engine.run_until_idle().await.unwrap();
    assert_eq!(bench.stands(id).await, "completed");
    assert!(bench.platform.probes.load(Ordering::SeqCst) > 0, "it was probed first");
    assert!(bench.engine.pending_tasks(None, 10).await.unwrap().items.is_empty());
}
