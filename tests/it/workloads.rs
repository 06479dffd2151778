//! Workloads on the simulated platform: a request is not an effect, and a GPU is free only after an observation without
//! workloads on it.

use backends::simulated::{Fault, FaultKind, LocalWorld, Script, simulated_platform};
use engine::{Action, ActionError, Class};
use std::{collections::BTreeSet, sync::Arc};
use tests::actions::{
    calls::Calls,
    pairs::{start, workload},
};
use workflows::platform::*;

struct Bench {
    world: Arc<LocalWorld>,
    platform: Platform,
    calls: Calls,
}

impl Bench {
    async fn running() -> Self {
        let world = Arc::new(LocalWorld::new());
        let mut bench =
            Self { platform: simulated_platform(world.clone()), world, calls: Calls::new().await };
        bench.act(start("acme", "eu-1", "prod"), "start").await.unwrap();
        bench
    }

    fn script(&self, fault: Fault) {
        self.world.script(Script { faults: vec![fault.times(0)], random: None });
    }

    async fn act<A: Action<Platform = Platform>>(
        &mut self,
        action: A,
        step: &str,
    ) -> Result<A::Output, ActionError> {
        action.run(&self.platform, &self.calls.next(step, false)).await
    }

    async fn clients(&mut self) -> Vec<String> {
        let gpus = ObservedGpus::reported([("openb-node-0007".to_owned(), [0, 1].into())].into());
        self.act(ListGpuClients { cluster: "eu-1".into(), gpus: Some(gpus), earlier: GpuSet::new() }, "look")
            .await
            .unwrap()
    }

    async fn scrub(&mut self, level: ScrubLevel) -> Result<Scrubbed, ActionError> {
        let (cluster, node) = ("eu-1".to_owned(), "openb-node-0007".to_owned());
        self.act(ScrubGpus { cluster, node, gpus: [0, 1].into(), level }, "scrub").await
    }
}

/// An observation by an observer who has not seen it before.
fn nowhere_yet() -> ObserveGpus {
    ObserveGpus { workload: it(), before: ObservedGpus::default(), facts: ObservedGpus::default() }
}

fn it() -> WorkloadRef {
    workload("acme", "eu-1", "prod")
}

/// an accepted eviction keeps its GPUs until an observation without its pods.
#[tokio::test]
async fn an_evicted_workload_holds_its_gpus_until_its_pods_are_gone() {
    let mut bench = Bench::running().await;
    bench.act(EvictWorkload { workload: it() }, "evict").await.unwrap();

    let at_first = bench.act(AwaitGone { workload: it() }, "gone").await.unwrap_err();
    let open = bench.clients().await;
    bench.act(AwaitGone { workload: it() }, "gone").await.unwrap();

    assert_eq!(at_first.code, "workload.terminating");
    assert!(matches!(at_first.class, Class::Pending { .. }));
    assert_eq!(open, ["acme/train-1"]);
    assert_eq!(bench.clients().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_pod_that_does_not_end_is_removed_by_force_only_from_an_unreachable_node() {
    let mut bench = Bench::running().await;
    bench.script(Fault::on("EvictWorkload", FaultKind::WorkloadClings));
    bench.act(EvictWorkload { workload: it() }, "evict").await.unwrap();
    for _ in 0..5 {
        bench.act(AwaitGone { workload: it() }, "gone").await.unwrap_err();
    }

    bench.script(Fault::on("ForceWorkload", FaultKind::NodeAlive));
    let refused = bench.act(ForceWorkload { workload: it() }, "force").await.unwrap_err();
    let still = bench.clients().await;
    bench.world.script(Script::default());
    bench.act(ForceWorkload { workload: it() }, "force again").await.unwrap();

    assert_eq!((refused.code.as_str(), still.len()), ("workload.node_alive", 1));
    assert_eq!(bench.clients().await, Vec::<String>::new());
}

#[tokio::test]
async fn gpus_in_use_are_not_scrubbed_and_an_incomplete_scrub_does_not_count() {
    let mut bench = Bench::running().await;
    let busy = bench.scrub(ScrubLevel::Verified).await.unwrap_err();
    bench.act(EvictWorkload { workload: it() }, "evict").await.unwrap();
    while bench.act(AwaitGone { workload: it() }, "gone").await.is_err() {}

    bench.script(Fault::on("ScrubGpus", FaultKind::ScrubFallsShort));
    let short = bench.act(
        ScrubGpus {
            cluster: "eu-1".into(),
            node: "openb-node-0007".into(),
            gpus: BTreeSet::from([0]),
            level: ScrubLevel::Verified,
        },
        "short",
    );
    let short = short.await.unwrap_err();
    bench.world.script(Script::default());
    let whole = bench.scrub(ScrubLevel::Verified).await.unwrap();

    assert_eq!((busy.code.as_str(), short.code.as_str()), ("gpu.busy", "gpu.scrub_failed"));
    assert!(whole.covered_bytes >= whole.total_bytes / 100 * 95 && !whole.leftovers);
}

#[tokio::test]
async fn a_checkpointed_and_requeued_workload_can_run_again() {
    let mut bench = Bench::running().await;
    bench.act(SaveWork { workload: it() }, "save").await.unwrap();
    bench.act(EvictWorkload { workload: it() }, "evict").await.unwrap();
    while bench.act(AwaitGone { workload: it() }, "gone").await.is_err() {}

    bench.act(RequeueWorkload { workload: it() }, "requeue").await.unwrap();
    let nowhere = bench.act(nowhere_yet(), "look").await.unwrap();
    assert!(nowhere.is_empty(), "it is held until it is admitted, and does not run");
    let unknown = ListGpuClients { cluster: "eu-1".into(), gpus: None, earlier: GpuSet::new() };
    let refused = bench.act(unknown, "look at nothing").await.unwrap_err();
    assert_eq!(refused.code, "gpu.unobserved", "an unobserved GPU is not free");
    bench.act(start("acme", "eu-1", "prod"), "start again").await.unwrap();

    assert_eq!(bench.clients().await, ["acme/train-1"]);
    assert_eq!(bench.world.violations(), Vec::<String>::new());
}

/// An ended workload that stays on its GPUs would be reported as drift and block the tenant's offboarding.
#[tokio::test]
async fn an_ended_workload_leaves_nothing_on_the_simulated_platform() {
    let mut bench = Bench::running().await;
    assert_eq!(bench.clients().await, ["acme/train-1"]);

    let call = bench.calls.next("over", false);
    let stamp = CallMetadata::for_action(&AwaitGone { workload: it() }, &call);
    for _ in 0..2 {
        bench.platform.workloads.notify_ended(&it(), &stamp).await.unwrap();
    }

    assert_eq!(bench.clients().await, Vec::<String>::new());
    assert!(bench.world.snapshot().is_empty(), "{:?}", bench.world.snapshot());
}

/// Draining a queue ends the workloads of its tenant and of no other.
#[tokio::test]
async fn draining_a_queue_ends_the_workloads_of_its_tenant() {
    let mut bench = Bench::running().await;
    bench.world.run_workload(&start("other", "eu-1", "prod"));
    let queue = TenantResource::new("kubernetes", "eu-1", "ClusterQueue", "t-acme--prod");
    bench.world.furnish(&queue, "acme", serde_json::json!({}));

    let drain = SetAdmission { thing: queue, tenant: "acme".into(), admits: AccessMode::Nothing };
    bench.act(drain, "drain").await.unwrap();

    assert_eq!(bench.clients().await, ["other/train-1"]);
}
