//! Each dimension of a decision can be the only reason for a refusal (S-37 to S-42), and other answers of policy.

use engine::ActionError;
use std::time::Duration;
use tests::books::account::{World, gpus, h100, job, tenant, workspace};
use workflows::{
    policy::{PlatformPolicy, publish, resource_named},
    scheduling::admission::{Rules, WorkloadRequest, admit, cut_gpus, serve_nodes},
    tenancy::*,
};

/// Returns the failed dimension with its codes; no other dimension fails.
fn against(admission: &Admission) -> Vec<(Dimension, String)> {
    let against = admission.weighed.iter().filter(|finding| finding.answer != AdmissionVerdict::Admit);
    against.map(|finding| (finding.dimension, finding.code.clone())).collect()
}

fn one(dimension: Dimension, code: &str) -> Vec<(Dimension, String)> {
    vec![(dimension, code.to_owned())]
}

#[test]
fn quota_can_be_the_only_obstacle() {
    let mut world = World::new(2).with(&[("a", gpus(4, Some(0), None)), ("b", gpus(8, None, None))]);

    let never = world.submit(&job("a", "never", 5)).unwrap().admission;
    world.submit(&job("a", "first", 3)).unwrap();
    let pods = Allowance::fixed(1);
    let both = [(h100(), Allowance::fixed(8)), (Resource::Pods, pods)].into();
    world.allow("c", WorkspaceClass::Batch, both);
    let mut two_pods = job("c", "pods", 1);
    two_pods.requests.insert(Resource::Pods, 2);
    let two_pods = world.submit(&two_pods).unwrap().admission;

    assert_eq!(never.answer, AdmissionVerdict::Reject);
    assert!(against(&never).contains(&(Dimension::Quota, "quota.exceeded".into())), "{:?}", against(&never));
    assert_eq!(two_pods.answer, AdmissionVerdict::Reject);
    assert_eq!(against(&two_pods), one(Dimension::Quota, "quota.exceeded"));
    let pods = two_pods.weighed.iter().find(|finding| finding.code == "quota.exceeded").unwrap();
    assert_eq!(pods.resource, Some(Resource::Pods), "the component is named");
    assert_eq!((pods.value, pods.limit), (Some(2), Some(1)));
}

/// Only if no GPU is free: an owner never waits while GPUs are idle.
#[test]
fn an_owner_waits_for_its_lent_gpus_if_none_are_free() {
    let mut world = World::new(1).with(&[("a", gpus(8, None, None)), ("b", gpus(0, None, None))]);
    world.submit(&job("b", "borrower", 8)).unwrap();

    let lent = world.submit(&job("a", "owner", 4)).unwrap();

    assert_eq!(lent.admission.answer, AdmissionVerdict::Queue);
    let busy = (Dimension::Availability, "gpus.busy".to_owned());
    let lent_out = (Dimension::Reservation, "reservation.lent".to_owned());
    assert_eq!(against(&lent.admission), [lent_out, busy]);
    assert_eq!(lent.news.demands.len(), 1, "and the loan is reclaimed at once");
}

#[test]
fn borrowable_capacity_can_be_the_only_obstacle() {
    let mut world = World::new(3).with(&[("a", gpus(8, None, Some(2))), ("b", gpus(4, Some(8), None))]);

    let much = world.submit(&job("b", "much", 7)).unwrap().admission;
    let little = world.submit(&job("b", "little", 6)).unwrap().admission;
    let later = world.submit(&job("b", "later", 1)).unwrap().admission;

    assert_eq!(
        (much.answer, against(&much)),
        (AdmissionVerdict::Reject, one(Dimension::Borrowable, "borrow.never"))
    );
    assert_eq!(little.answer, AdmissionVerdict::Admit);
    assert_eq!(
        (later.answer, against(&later)),
        (AdmissionVerdict::Queue, one(Dimension::Borrowable, "borrow.none_idle"))
    );
}

#[test]
fn ownership_can_be_the_only_obstacle() {
    let mut world = World::new(1).with(&[("a", gpus(16, None, None))]);

    let admission = world.submit(&job("a", "wide", 16)).unwrap().admission;

    assert_eq!(
        (admission.answer, against(&admission)),
        (AdmissionVerdict::Queue, one(Dimension::Ownership, "nodes.too_few"))
    );
}

#[test]
fn availability_can_be_the_only_obstacle() {
    let mut world = World::new(2).with(&[("a", gpus(24, None, None))]);
    for (name, gpus) in [("x", 6), ("y", 6)] {
        world.submit(&WorkloadRequest { together: gpus, ..job("a", name, gpus) }).unwrap();
    }

    let apart = world.submit(&WorkloadRequest { together: 4, ..job("a", "apart", 4) }).unwrap().admission;
    let busy = world.submit(&job("a", "busy", 5)).unwrap().admission;
    world.pass(Duration::from_secs(121));
    let stale = world.submit(&job("a", "stale", 1)).unwrap().admission;

    assert_eq!(against(&apart), one(Dimension::Availability, "gpus.fragmented"));
    assert_eq!(against(&busy), one(Dimension::Availability, "gpus.busy"));
    assert_eq!(against(&stale), one(Dimension::Availability, "facts.stale"));
    world.see();
    assert_eq!(world.workload("stale").state, WorkloadState::Admitted, "observed again, admitted at once");
}

/// I-11, S-62: a workload that may not be evicted never borrows.
#[test]
fn policy_can_be_the_only_obstacle() {
    let mut world = World::new(2).with(&[("a", gpus(8, None, None)), ("b", gpus(4, None, None))]);
    let stays = |name: &str, gpus| WorkloadRequest { preemptible: false, ..job("b", name, gpus) };

    let never = world.submit(&stays("never", 5)).unwrap().admission;
    world.submit(&stays("own", 3)).unwrap();
    let later = world.submit(&stays("later", 2)).unwrap().admission;
    let service = WorkloadRequest { class: WorkloadClass::Service, ..job("b", "service", 2) };
    let service = world.submit(&service).unwrap().admission;

    assert_eq!(
        (never.answer, against(&never)),
        (AdmissionVerdict::Reject, one(Dimension::Policy, "policy.not_preemptible"))
    );
    assert_eq!(
        (later.answer, against(&later)),
        (AdmissionVerdict::Queue, one(Dimension::Policy, "policy.not_preemptible"))
    );
    assert_eq!(against(&service), one(Dimension::Policy, "policy.work_borrows_not"));
}

/// Puts a policy with these changes into force.
fn amend(world: &mut World, changes: &[(&str, &str)]) -> Result<(), ActionError> {
    let text = PlatformPolicy::amended(changes).unwrap();
    world.decide(|view| publish(view, &text, "test")).map(drop)
}

/// S-14: research does not borrow from production, although GPUs are idle.
#[test]
fn classes_that_policy_separates_lend_each_other_nothing_and_share_no_node() {
    let rule = "anti_colocate: [{region: eu-west, class_a: production, class_b: research}]";
    let mut world = World::new(2);
    amend(&mut world, &[("anti_colocate: []", rule)]).unwrap();
    world.allow("prod", WorkspaceClass::Production, gpus(8, None, None));
    world.allow("lab", WorkspaceClass::Research, gpus(4, None, None));
    world.submit(&job("prod", "serving", 2)).unwrap();

    let own = world.submit(&job("lab", "own", 2)).unwrap();
    let refused = world.submit(&job("lab", "greedy", 5)).unwrap().admission;

    assert_eq!(own.admission.answer, AdmissionVerdict::Admit);
    assert_ne!(own.placed[0].node, world.workload("serving").placed[0].node, "not next to production");
    assert_eq!(
        (refused.answer, against(&refused)),
        (AdmissionVerdict::Reject, one(Dimension::Policy, "policy.kept_apart"))
    );
    world.allow("jobs", WorkspaceClass::Batch, gpus(4, None, None));
    let from_batch = world.submit(&job("lab", "third", 4)).unwrap().admission;
    assert_eq!(from_batch.answer, AdmissionVerdict::Admit, "{:?}", against(&from_batch));
    assert_eq!(world.books.all::<Loan>()[0].lender, workspace("jobs"));
}

/// S-13.
#[test]
fn a_pinned_workload_is_admitted_in_no_other_cluster() {
    let mut world = World::new(1).with(&[("a", gpus(8, None, None))]);
    amend(&mut world, &[("pins: []", "pins: [{label: hipaa, cluster: south-1}]")]).unwrap();

    let pinned = WorkloadRequest { labels: ["hipaa".to_owned()].into(), ..job("a", "pinned", 1) };
    let pinned = world.submit(&pinned).unwrap().admission;

    assert_eq!(
        (pinned.answer, against(&pinned)),
        (AdmissionVerdict::Reject, one(Dimension::Policy, "policy.pinned"))
    );
}

/// S-49.
#[test]
fn a_fraction_of_a_gpu_is_refused_with_a_suggestion() {
    let mut request = serde_json::to_value(job("a", "half", 1)).unwrap();
    request["requests"]["gpu/H100"] = serde_json::json!(0.5);

    let error = serde_json::from_value::<WorkloadRequest>(request).unwrap_err().to_string();

    assert!(error.contains("gpu/H100/1g.10gb"), "{error}");
}

/// S-45: slices of one GPU are shared by two workspaces only where the tenant allows it.
#[test]
fn slices_of_one_gpu_are_shared_only_where_the_tenant_allows_it() {
    let slice: Resource = "gpu/H100/1g.10gb".parse().unwrap();
    let allowances = [(slice.clone(), Allowance { nominal: 7, borrowing_limit: None, lending_limit: None })];
    let try_it = |sharing: bool| {
        let mut world = World::new(1);
        world
            .decide(|view| {
                let tenant = view.require::<Tenant>("acme")?;
                view.put(&Tenant { allow_gpu_sharing: sharing, ..tenant })
            })
            .unwrap();
        let node = "n-0000".parse().unwrap();
        let profile = "1g.10gb".parse().unwrap();
        world.decide(|view| cut_gpus(view, &tenant(), &node, &[0].into(), Some((&profile, 7)))).unwrap();
        world.see();
        for name in ["a", "b"] {
            world.allow(name, WorkspaceClass::Batch, allowances.clone().into());
            let request = WorkloadRequest { requests: [(slice.clone(), 2)].into(), ..job(name, name, 1) };
            world.submit(&request).unwrap();
        }
        assert_eq!(world.violations(), Vec::<String>::new());
        (world.workload("a").state, world.workload("b").state)
    };

    assert_eq!(try_it(true), (WorkloadState::Admitted, WorkloadState::Admitted));
    assert_eq!(try_it(false), (WorkloadState::Admitted, WorkloadState::Waiting));
}

/// S-49, S-66: the same decision is used for workloads, examples and explanations.
#[test]
fn slices_that_policy_forbids_a_tenant_are_rejected_with_the_rule() {
    let mut world = World::new(1).with(&[("a", gpus(8, None, None))]);
    for (name, kind, rule) in [
        ("unlisted", "gpu/H100/9g.99gb", "gpu_models.mig_profile"),
        ("unshared", "gpu/H100/1g.10gb", "sharing.consent"),
    ] {
        let slices = [(kind.parse().unwrap(), 1)].into();
        let request = WorkloadRequest { requests: slices, ..job("a", name, 1) };

        let admission = world.submit(&request).unwrap().admission;

        assert_eq!(admission.answer, AdmissionVerdict::Reject);
        let finding = admission.weighed.iter().find(|finding| finding.code == "policy.not_permitted");
        let why = &finding.unwrap_or_else(|| panic!("{:#?}", admission.weighed)).why;
        assert!(why.contains(rule) && why.contains("platform@"), "{why}");
    }
    assert_eq!(world.submit(&job("a", "whole", 1)).unwrap().admission.answer, AdmissionVerdict::Admit);
}

/// Existing slices of the tenant's GPUs are allowed, whatever the catalogue lists. Once the GPUs are whole again, policy decides.
#[test]
fn slices_of_a_tenant_are_accepted_until_its_gpus_are_whole_again() {
    let slice: Resource = "gpu/H100/9g.99gb".parse().unwrap();
    let mut world = World::new(1).with(&[("a", [(slice.clone(), Allowance::fixed(7))].into())]);
    let cut = |world: &mut World, slices: Option<u16>| {
        let node: NodeId = "n-0000".parse().unwrap();
        let profile: Profile = "9g.99gb".parse().unwrap();
        let cut = slices.map(|slices| (&profile, slices));
        world.decide(|view| cut_gpus(view, &tenant(), &node, &[0].into(), cut)).unwrap();
        world.see();
    };
    let asks = |name: &str| WorkloadRequest { requests: [(slice.clone(), 1)].into(), ..job("a", name, 1) };

    cut(&mut world, Some(7));
    let has = world.submit(&asks("has")).unwrap().admission;
    world.finish("has").unwrap();
    cut(&mut world, None);
    let had = world.submit(&asks("had")).unwrap().admission;

    assert_eq!(has.answer, AdmissionVerdict::Admit, "{:#?}", has.weighed);
    assert_eq!(had.answer, AdmissionVerdict::Reject);
    let finding = had.weighed.iter().find(|finding| finding.code == "policy.not_permitted");
    let why = &finding.unwrap_or_else(|| panic!("{:#?}", had.weighed)).why;
    assert!(why.contains("sharing.consent") && why.contains("gpu_models.mig_profile"), "{why}");
}

/// A name that becomes an alias keeps its old meaning for tenants that have GPUs under it. For all other tenants it
/// means the model.
#[test]
fn a_name_under_which_a_tenant_has_gpus_is_not_an_alias_for_the_tenant() {
    let big: Resource = "gpu/gpu-big".parse().unwrap();
    let mut world = World::new(1).with(&[("a", [(big.clone(), Allowance::fixed(8))].into())]);
    let id: NodeId = "n-0001".parse().unwrap();
    world
        .decide(|view| {
            let node = view.require::<Node>("n-0000")?;
            let gpu = Gpu { model: "gpu-big".parse().unwrap(), count: Gpus(8) };
            view.put(&Node { id: id.clone(), gpu, ..node })
        })
        .unwrap();
    world.decide(|view| serve_nodes(view, &tenant(), std::slice::from_ref(&id))).unwrap();
    world.see();
    let asks = |name: &str, model: &str| WorkloadRequest {
        requests: [(model.parse().unwrap(), 1)].into(),
        ..job("a", name, 1)
    };
    let before = world.submit(&asks("before", "gpu/gpu-big")).unwrap().admission;
    assert_eq!(before.answer, AdmissionVerdict::Admit, "{:#?}", before.weighed);
    amend(&mut world, &[("pins: []", "pins: []\naliases: {gpu-big: H200}")]).unwrap();

    let again = world.submit(&asks("before", "gpu/gpu-big")).unwrap().admission;
    let after = world.submit(&asks("after", "gpu/GPU-BIG")).unwrap().admission;

    assert_eq!(again.number, before.number, "the same request again");
    assert_eq!((after.answer, after.requests.get(&big)), (AdmissionVerdict::Admit, Some(&1)));
    let other = "globex".parse().unwrap();
    for (tenant, named) in [(tenant(), "gpu/gpu-big"), (other, "gpu/H200")] {
        let resource = world.decide(|view| resource_named(view, &tenant, &big)).unwrap();
        assert_eq!(resource.to_string(), named);
    }
}

/// A request still counts as the same if its model name became an alias and the tenant has no GPUs left under that name.
#[test]
fn a_repeated_request_may_name_its_model_by_an_alias() {
    let big: Resource = "gpu/gpu-big".parse().unwrap();
    let both = [(h100(), Allowance::fixed(8)), (big.clone(), Allowance::fixed(8))];
    let mut world = World::new(1).with(&[("a", both.into())]);
    let asks = WorkloadRequest { requests: [(big.clone(), 1)].into(), ..job("a", "waits", 1) };
    let first = world.submit(&asks).unwrap().admission;
    assert_eq!(first.answer, AdmissionVerdict::Queue, "{:#?}", first.weighed);
    world.allow("a", WorkspaceClass::Batch, [(h100(), Allowance::fixed(8))].into());
    amend(&mut world, &[("pins: []", "pins: []\naliases: {gpu-big: H200}")]).unwrap();

    let again = world.submit(&asks).unwrap().admission;

    assert_eq!(again.number, first.number);
}

/// An alias in a policy names its model; an unknown name is rejected with the field and the nearest names.
#[test]
fn an_alias_names_a_model_and_an_unknown_model_is_refused_with_the_nearest_name() {
    let mut world = World::new(1).with(&[("a", gpus(8, None, None))]);
    let text = PlatformPolicy::amended(&[("pins: []", "pins: []\naliases: {big-gpu: H100}")]).unwrap();
    world.decide(|view| publish(view, &text, "ada").map(drop)).unwrap();
    let asks = |name: &str, model: &str| WorkloadRequest {
        requests: [(model.parse().unwrap(), 1)].into(),
        ..job("a", name, 1)
    };

    let by_alias = asks("alias", "gpu/BIG-GPU");
    let first = world.submit(&by_alias).unwrap().admission;
    let again = world.submit(&by_alias).unwrap().admission;
    let refused = world.submit(&asks("typo", "gpu/h101")).unwrap().admission;

    assert_eq!((first.answer, first.requests.get(&h100())), (AdmissionVerdict::Admit, Some(&1)));
    assert_eq!(again.number, first.number, "the same request again");
    assert_eq!(refused.answer, AdmissionVerdict::Reject);
    let why = refused
        .weighed
        .iter()
        .find(|finding| finding.code == "policy.not_permitted")
        .map(|finding| &finding.why);
    assert!(why.unwrap().starts_with("requests: unknown model h101; did you mean H100?"), "{why:?}");
}

/// I-20: the decision is a function of its recorded grounds and policy.
#[test]
fn a_decision_can_be_repeated_from_its_stored_record() {
    let mut world = World::new(2).with(&[("a", gpus(8, None, None)), ("b", gpus(4, Some(2), None))]);
    for n in 0..6 {
        world.submit(&job("b", &format!("j-{n}"), n + 1)).unwrap();
    }
    let rules: Rules = world.books.weigh(Rules::in_force).unwrap().0;

    for decision in world.books.all::<Admission>() {
        assert_eq!(decision.policy, rules.policy);
        assert_eq!(admit(&decision.grounds, &rules), (decision.answer, decision.weighed));
    }
}
