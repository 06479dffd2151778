//! Idle GPUs are used. An owner never waits while its tenant has free GPUs, unpromised GPUs are lent, and no workload is evicted
//! for a demand that fits.

use engine::Notification;
use std::time::Duration;
use store::ExecutionId;
use tests::books::account::{World, fencing, gpus, h100, job, tenant, workspace};
use workflows::{
    policy,
    reclaim::{PlanVerdict, PlannedReclaim, Reclaim, ReclaimCause, preview},
    scheduling::admission::{self, FenceOutcome, VictimExit, WorkloadRequest},
    tenancy::*,
};

/// One node of 8 GPUs, all of them bought, and two workspaces that were promised two each.
fn half_promised() -> World {
    let mut world = World::new(1);
    world.buy(8);
    world.with(&[("a", gpus(2, None, None)), ("b", gpus(2, None, None))])
}

fn planned(world: &World, owner: &str, workload: &str) -> PlannedReclaim {
    let cause = ReclaimCause::Demand { workspace: workspace(owner), workload: workload.to_owned() };
    let reclaim = Reclaim::new(tenant(), h100(), cause);
    world.books.weigh(|view| preview(view, &reclaim)).unwrap().0.planned.unwrap()
}

fn codes(admission: &Admission) -> Vec<&str> {
    let against = admission.weighed.iter().filter(|finding| finding.answer != AdmissionVerdict::Admit);
    against.map(|finding| finding.code.as_str()).collect()
}

#[test]
fn an_owner_gets_free_gpus_at_once_and_no_loan_is_recalled() {
    let mut world = half_promised();
    world.submit(&job("a", "a1", 4)).unwrap();

    let own = world.submit(&job("b", "b1", 1)).unwrap();

    assert_eq!(own.admission.answer, AdmissionVerdict::Admit, "{:?}", codes(&own.admission));
    assert!(own.news.demands.is_empty(), "{:?}", own.news.demands);
    assert_eq!(world.workload("a1").state, WorkloadState::Admitted);
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[test]
fn gpus_outside_every_quota_are_lent_to_any_workspace() {
    let mut world = half_promised();

    for (name, workload, asks) in [("a", "a1", 4), ("a", "a2", 2), ("b", "b1", 2)] {
        let admission = world.submit(&job(name, workload, asks)).unwrap().admission;
        assert_eq!(admission.answer, AdmissionVerdict::Admit, "{workload}: {:?}", codes(&admission));
    }

    let open: Vec<_> = world.books.all::<Loan>().into_iter().filter(|loan| !loan.state.is_ended()).collect();
    assert!(open.iter().all(|loan| loan.lender == Lender::Pool), "{open:?}");
    assert_eq!((world.balance("a").borrowed, world.balance("b").lent), (4, 0));
    assert_eq!(world.balance("a").over_quota(), 0);
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// GPUs that the tenant did not buy are not lent, and yet they keep no owner waiting.
#[test]
fn gpus_that_the_tenant_has_not_bought_are_never_lent() {
    let mut world = World::new(1);
    world.buy(4);
    let mut world = world.with(&[("a", gpus(2, None, None)), ("b", gpus(2, None, None))]);
    world.submit(&job("a", "a1", 4)).unwrap();

    let more = world.submit(&job("a", "a2", 1)).unwrap().admission;
    let own = world.submit(&job("b", "b1", 2)).unwrap().admission;

    assert_eq!((more.answer, codes(&more)), (AdmissionVerdict::Queue, vec!["borrow.none_idle"]));
    assert_eq!(own.answer, AdmissionVerdict::Admit, "{:?}", codes(&own));
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// The other workspaces use two GPUs themselves and have lent the rest to a workspace whose quota was lowered since.
#[test]
fn an_owner_gets_free_gpus_even_after_its_quota_was_lowered() {
    let mut world = World::new(1).with(&[
        ("a", gpus(4, None, None)),
        ("b", gpus(4, None, None)),
        ("c", gpus(0, None, Some(0))),
    ]);
    world.submit(&job("a", "a1", 4)).unwrap();
    world.submit(&job("b", "b1", 2)).unwrap();
    world.allow("a", WorkspaceClass::Batch, gpus(2, None, None));
    world.allow("c", WorkspaceClass::Batch, gpus(2, None, Some(0)));

    let own = world.submit(&job("b", "b2", 2)).unwrap();

    assert_eq!(own.admission.answer, AdmissionVerdict::Admit, "{:?}", codes(&own.admission));
    assert!(own.news.demands.is_empty());
    assert_eq!(world.balance("a").over_quota(), 2);
    assert_eq!(world.violations(), Vec::<String>::new());
    let late = world.submit(&job("c", "c1", 2)).unwrap();
    assert_eq!(codes(&late.admission), ["reservation.lent", "gpus.busy"]);
    assert_eq!(late.news.demands.len(), 1, "now a reclaim is needed");
}

/// Four of the six requested GPUs are free: two victims are enough, and no other workload is evicted.
#[test]
fn only_the_missing_part_of_a_demand_is_reclaimed() {
    let mut world = World::new(1).with(&[("a", gpus(4, None, None)), ("b", gpus(4, None, None))]);
    for n in 0..4 {
        world.submit(&job("a", &format!("a{n}"), 1)).unwrap();
    }
    world.allow("a", WorkspaceClass::Batch, gpus(0, None, None));
    world.allow("b", WorkspaceClass::Batch, gpus(6, None, None));
    let demand = world.submit(&job("b", "b1", 6)).unwrap();
    assert_eq!(demand.admission.answer, AdmissionVerdict::Queue);
    assert_eq!(demand.news.demands.len(), 1);

    let plan = planned(&world, "b", "b1");
    assert_eq!((plan.verdict, plan.victims.len()), (PlanVerdict::Evict, 2));

    let by = ExecutionId::from_bytes([7; 16]);
    let victims: Vec<String> = plan.victims.iter().map(|victim| victim.workload.name.clone()).collect();
    let fence = fencing(by, "b", "b1", victims.iter().cloned().collect());
    let fenced = world.decide(|view| admission::fence(view, &fence)).unwrap();
    assert_eq!(fenced, FenceOutcome::Done { aside: 4, wanted: 6 });
    for victim in &victims {
        world
            .decide(|view| admission::release_victim(view, &tenant(), by, victim, VictimExit::Evicted))
            .unwrap();
    }
    world.decide(|view| admission::grant(view, &tenant(), &h100(), by)).unwrap();
    assert_eq!(world.workload("b1").state, WorkloadState::Admitted);
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// It waits because the observation is stale, and not for GPUs of others.
#[test]
fn a_demand_that_fits_needs_no_plan_and_no_earmark() {
    let mut world = half_promised();
    world.submit(&job("a", "a1", 4)).unwrap();
    world.pass(Duration::from_secs(121));

    let stale = world.submit(&job("b", "b1", 1)).unwrap();

    assert_eq!(codes(&stale.admission), ["facts.stale"]);
    assert!(stale.news.demands.is_empty(), "{:?}", stale.news.demands);
    let plan = planned(&world, "b", "b1");
    assert_eq!((plan.verdict, plan.victims.len()), (PlanVerdict::Satisfied, 0));
    let fence = fencing(ExecutionId::from_bytes([7; 16]), "b", "b1", ["a1".to_owned()].into());
    let fenced = world.decide(|view| admission::fence(view, &fence)).unwrap();
    assert!(matches!(fenced, FenceOutcome::Stale { .. }), "{fenced:?}");
    world.see();
    assert_eq!(world.workload("b1").state, WorkloadState::Admitted);
}

/// Quotas can be raised again: only a new request is rejected because it can never fit.
#[test]
fn a_lower_quota_never_rejects_a_workload_that_is_queued_or_has_run() {
    let mut world = World::new(2).with(&[("owner", gpus(8, None, None)), ("batch", gpus(8, None, None))]);
    world.submit(&job("batch", "ran", 16)).unwrap();
    let demand = world.submit(&job("owner", "own", 1)).unwrap().news.demands.remove(0);
    let by = ExecutionId::from_bytes([7; 16]);
    let fence = fencing(by, demand.workspace.as_str(), &demand.workload, ["ran".to_owned()].into());
    world.decide(|view| admission::fence(view, &fence)).unwrap();
    world.allow("batch", WorkspaceClass::Batch, gpus(7, Some(0), None));

    world.decide(|view| admission::release_victim(view, &tenant(), by, "ran", VictimExit::Evicted)).unwrap();
    world.decide(|view| admission::grant(view, &tenant(), &h100(), by)).unwrap();

    assert_eq!(world.workload("ran").state, WorkloadState::Waiting);
    let new = world.submit(&job("batch", "new", 16)).unwrap().admission;
    assert_eq!(new.answer, AdmissionVerdict::Reject);
    world.finish("own").unwrap();
    world.allow("batch", WorkspaceClass::Batch, gpus(8, Some(8), None));
    world.pass(Duration::from_secs(11 * 60));
    world.see();
    assert_eq!(
        world.workload("ran").state,
        WorkloadState::Admitted,
        "it runs again when its quota is raised"
    );
    assert_eq!(world.violations(), Vec::<String>::new());
}

#[test]
fn a_workload_that_fits_no_node_waits_and_shows_the_reason() {
    let mut world = World::new(2).with(&[("a", gpus(16, None, None))]);

    let wide = world.submit(&WorkloadRequest { together: 9, ..job("a", "wide", 9) }).unwrap().admission;

    assert_eq!(wide.answer, AdmissionVerdict::Queue);
    let finding = wide.weighed.iter().find(|finding| finding.code == "nodes.too_small").unwrap();
    assert_eq!((finding.value, finding.limit), (Some(9), Some(8)));
    let told = world.books.all::<Notification>();
    assert_eq!((told.len(), told[0].kind.as_str()), (1, "workload.fits_no_node"));
    assert_eq!((told[0].about.as_str(), told[0].tenant.as_str()), ("acme/wide", "acme"));
}

#[test]
fn only_the_kind_that_is_missing_is_named() {
    let a100: Resource = "gpu/A100".parse().unwrap();
    let mut world = World::new(1);
    let limit = |nominal| Allowance { nominal, borrowing_limit: None, lending_limit: None };
    world.allow("a", WorkspaceClass::Batch, [(h100(), limit(8)), (a100.clone(), limit(1))].into());

    let both = WorkloadRequest { requests: [(h100(), 1), (a100.clone(), 1)].into(), ..job("a", "both", 1) };
    let admission = world.submit(&both).unwrap().admission;

    let against = admission.weighed.iter().filter(|finding| finding.answer != AdmissionVerdict::Admit);
    let named: Vec<_> = against.map(|finding| finding.resource.clone()).collect();
    assert_eq!(named, [Some(a100)], "{:?}", admission.weighed);
}

/// Kubernetes allows no such object name; Slurm and bare metal do.
#[test]
fn names_that_are_invalid_in_the_cluster_are_refused_on_submission() {
    let on = |kind: ClusterKind| {
        let mut world = World::new(1).with(&[("a", gpus(8, None, None))]);
        world.on(kind);
        world
    };
    for name in ["Ax", "a_bx", "-a2x", "a2x-", "a.b", &"b".repeat(64)] {
        let refused = on(ClusterKind::Kubernetes).submit(&job("a", name, 1)).unwrap_err();
        assert_eq!(refused.code.as_str(), "workload.invalid", "{name}");
        assert!(on(ClusterKind::Slurm).submit(&job("a", name, 1)).is_ok(), "{name}");
    }
    for name in ["a", "a-2", "0", &"b".repeat(63)] {
        assert!(on(ClusterKind::Kubernetes).submit(&job("a", name, 1)).is_ok(), "{name}");
    }
}

#[test]
fn gpus_outside_every_quota_cause_a_warning() {
    let text = |a: &str, b: &str| {
        format!(
            "name: lab2\ntenant: {{tier: research, isolation: dedicated, data_residency: any, allow_preemption: true, \
             allow_gpu_sharing: false}}\nworkspaces: [{{name: a, class: research{a}}}, {{name: b, class: dev{b}}}]\n\
             entitlement: {{gpu_model: H100, gpus: 8}}\n"
        )
    };
    let half = policy::warnings(&text(", quotas: {gpus: 2}", ", quotas: {gpus: 2}"));
    assert!(half[0].starts_with("4 of the 8 GPUs bought are promised to no workspace"), "{half:?}");
    for (a, b) in [(", quotas: {gpus: 2}", ", quotas: {gpus: 6}"), (", quotas: {gpus: 2}", "")] {
        assert_eq!(policy::warnings(&text(a, b)), Vec::<String>::new());
    }
}
