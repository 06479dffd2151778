//! The content of an entry, and the secrets that it must not have.

use super::*;
use crate::{
    audit::render::{ExecutionContext, audit_entry},
    policy::PolicyRef,
};
use engine::{ApprovalRecord, AuditContext, Plan, PlanDigest};

fn known() -> ExecutionContext {
    ExecutionContext { record: Some(record(1, "acme")), ..ExecutionContext::default() }
}

fn case(digest: &str, opened_at: u64) -> ApprovalRecord {
    ApprovalRecord {
        id: format!("{}.2", id(1)),
        execution: id(1),
        workflow: "onboarding".into(),
        tenant: "acme".into(),
        subject: "tenant/acme".into(),
        state: "AwaitingApproval".into(),
        plan: Plan {
            decides: json!({ "policy": { "name": "house", "version": 3, "digest": "sha256:aa" } }),
            ..Plan::default()
        },
        digest: PlanDigest(digest.into()),
        seats: vec![],
        votes: vec![],
        requested_by: "ada".into(),
        opened_at: Timestamp(opened_at),
        deadline: None,
        ruling: Some("granted".into()),
        closed_at: None,
        procedure: engine::Procedure::default(),
        history: vec![],
    }
}

fn vote(verdict: &str) -> store::Entry {
    let person = json!({ "name": "bob", "roles": ["platform_ops", "security"] });
    let vote = json!({ "person": person, "verdict": verdict, "reason": "order 4711", "at": NOON });
    entry(1, "bob", "voted", &json!({ "event": { "voted": { "vote": vote, "digest": "sha256:p1" } } }))
}

/// Design 20: who, in which tenant, approved what, when, under which policy version and plan digest, with which outcome.
#[test]
fn a_vote_shows_voter_subject_plan_and_policy() {
    let known = ExecutionContext { cases: vec![case("sha256:p0", NOON), case("sha256:p1", NOON)], ..known() };

    let entry = audit_entry(&vote("approve"), 0, &known);

    assert_eq!(
        entry.says,
        "bob approved, as platform_ops and security, the plan of onboarding of tenant/acme, which went from \
         AwaitingApproval to Registering; because: order 4711"
    );
    assert_eq!((entry.tenant.as_str(), entry.outcome.as_deref()), ("acme", Some("approved")));
    assert_eq!(entry.plan, Some(EffectivePlan { digest: "sha256:p1".into(), by: PlanSource::Vote }));
    let policy = PolicyRef { name: "house".into(), version: 3, digest: "sha256:aa".into() };
    assert_eq!(entry.policy, Some(policy));
    assert_eq!(audit_entry(&vote("refuse"), 0, &known).outcome.as_deref(), Some("refused"));
}

#[test]
fn work_is_listed_under_the_plan_approved_at_its_time() {
    let later = case("sha256:p2", NOON + 3_600_000);
    let known = ExecutionContext { cases: vec![case("sha256:p1", NOON), later], ..known() };

    let entry = audit_entry(&entry(1, "engine", "settled", &json!({})), 0, &known);

    assert_eq!(entry.plan, Some(EffectivePlan { digest: "sha256:p1".into(), by: PlanSource::Approval }));
}

#[test]
fn an_end_and_a_failure_show_their_outcome() {
    let over = Record {
        open: false,
        reason: Some("rolled_back".into()),
        updated_at: Timestamp(NOON + 1_000),
        attributes: Default::default(),
        ..record(1, "acme")
    };
    let known = ExecutionContext { record: Some(over), ..ExecutionContext::default() };
    let failed = json!({ "event": { "settled": { "result": { "Err": { "code": "gpu.busy", "message": "no" } } } },
        "phase": "compensating -> finished" });
    let last = audit_entry(&entry(1, "engine", "settled", &failed), 0, &known);
    assert_eq!(last.outcome.as_deref(), Some("rolled_back"));
    assert!(last.says.contains("gpu.busy") && last.says.contains("and ended: rolled_back"), "{}", last.says);
    let earlier = store::Entry { at: Timestamp(NOON), ..entry(1, "engine", "settled", &failed) };
    assert_eq!(audit_entry(&earlier, 0, &known).outcome.as_deref(), Some("gpu.busy"));
}

#[test]
fn a_late_result_is_shown_as_a_refusal() {
    let entry =
        audit_entry(&entry(1, "engine-7", "fenced", &json!({ "task": "t", "epoch": 4 })), 0, &known());
    assert_eq!(entry.outcome.as_deref(), Some("refused"));
    assert!(entry.says.starts_with("engine-7 was refused a late result"), "{}", entry.says);
}

#[test]
fn a_repair_shows_its_evidence_and_confirmation_but_not_its_data() {
    let repair = json!({ "kind": "mark_done", "slot": 2, "output": "hunter2", "evidence": "ticket 7" });
    let repaired =
        json!({ "repaired": { "repair": repair, "order": { "by": "ada", "reason": "done by hand" } } });
    let seconded = json!({ "event": { "seconded": { "event": repaired, "by": "bob" } } });

    let told = audit_entry(&entry(1, "ada", "repaired", &seconded), 0, &known());

    assert!(told.says.starts_with(
        "ada repaired onboarding of tenant/acme by mark done of slot 2, with the consent of bob"
    ));
    assert_eq!(told.reason.as_deref(), Some("done by hand; shown by: ticket 7"));
    assert!(!serde_json::to_string(&told).unwrap().contains("hunter2"));
}

/// S26.
#[test]
fn arguments_and_results_of_actions_are_not_in_the_audit() {
    let secret = "tn_0123_hunter2";
    let detail = json!({
        "event": { "settled": { "ticket": {}, "result": { "Ok": { "token": secret } } }, "arguments": secret },
        "left_behind": [{ "arguments": { "password": secret }, "output": secret }], "answer": secret,
    });
    for event in ["settled", "probed", "passed", "started", "edited", "voted"] {
        let entry = audit_entry(&entry(1, "engine", event, &detail), 0, &known());
        assert!(!serde_json::to_string(&entry).unwrap().contains("hunter2"), "{event}: {entry:?}");
    }
}

#[test]
fn a_change_without_an_execution_belongs_to_the_tenant_of_its_documents() {
    let asked = |wrote: &[&str], removed: &[&str]| {
        let detail = json!({ "asked": "POST /v1/holds", "at": "/v1/holds", "documents": wrote.len() + removed.len(),
            "wrote": wrote, "removed": removed, "asks": 0 });
        let entry = store::Entry {
            execution: AuditContext::no_execution(),
            ..entry(1, "ada", AuditContext::EVENT, &detail)
        };
        audit_entry(&entry, 0, &ExecutionContext::default())
    };
    let hold = asked(&["holds/acme"], &[]);
    assert_eq!(hold.tenant, "acme");
    assert_eq!(hold.says, "ada called POST /v1/holds at /v1/holds, which wrote holds/acme");
    assert_eq!(hold.reason, None, "none was given");
    assert_eq!(asked(&["users/bob"], &["tokens/1"]).tenant, "");
    assert_eq!(asked(&["holds/acme", "cohorts/zeta"], &[]).tenant, "", "of several it is the platform's");
    assert_eq!(asked(&["nodes/acme"], &[]).tenant, "", "a node may be called like a tenant");
    assert_eq!(asked(&["workloads/acme/train", "nodes/n-1"], &["lines/acme/default"]).tenant, "acme");
}

#[test]
fn a_refusal_shows_caller_request_address_reason_and_count() {
    let what = Denied {
        from: "10.0.0.7".into(),
        asked: "DELETE /v1/users/{name}".into(),
        token: Some("0011223344556677".into()),
        request: Some("r-1".into()),
        times: 1,
        since: Timestamp(NOON).into(),
        until: Timestamp(NOON + 5_000).into(),
    };
    let denial = Denial {
        who: "ada".into(),
        tenant: "acme".into(),
        path: "/v1/users/bob".into(),
        code: "auth.forbidden".into(),
        why: "ada may not".into(),
        what: what.clone(),
    };

    let once = audit_entry(&denial.entry(Timestamp(NOON)), 0, &ExecutionContext::default());
    let often = Denial { what: Denied { times: 9, ..what.clone() }, ..denial };
    let often = audit_entry(&often.entry(Timestamp(NOON)), 0, &ExecutionContext::default());

    assert_eq!(
        once.says,
        "ada was denied DELETE /v1/users/{name} at /v1/users/bob, asked from 10.0.0.7: auth.forbidden"
    );
    assert_eq!(
        (once.event.as_str(), once.tenant.as_str(), once.actor.as_str()),
        ("access.denied", "acme", "ada")
    );
    assert_eq!((once.subject.as_str(), once.outcome.as_deref()), ("/v1/users/bob", Some("auth.forbidden")));
    assert_eq!((once.reason.as_deref(), once.denied), (Some("ada may not"), Some(what)));
    assert!(
        often.says.ends_with("; 9 times, from 2026-11-21T13:08:11.000Z to 2026-11-21T13:08:16.000Z"),
        "{}",
        often.says
    );
}

/// S-15. The sentence for the whole approval, from the fields of the entry that ended the execution.
#[test]
fn one_sentence_shows_approver_subject_place_time_and_result() {
    let over = Record {
        open: false,
        workflow: "tier_misplacement".into(),
        subject: "workload/w-7".into(),
        reason: Some("completed".into()),
        updated_at: Timestamp(NOON + 1_000),
        ..record(1, "gruve")
    };
    let person = engine::Person::new("sam", ["operator"]);
    let sam = engine::Vote::new(person, engine::Verdict::Approve, "", Timestamp(NOON));
    let asked =
        ApprovalRecord { votes: vec![sam], closed_at: Some(Timestamp(NOON)), ..case("sha256:p1", NOON) };
    let plan =
        Plan { decides: json!({ "workspace": "gruve", "cluster": "gpu-us-east-1" }), ..Plan::default() };
    let whereabouts = crate::audit::whereabouts::Whereabouts::of_plan(&plan);
    let known =
        ExecutionContext { record: Some(over), cases: vec![asked], whereabouts, ..Default::default() };
    let done =
        json!({ "event": { "settled": { "result": { "Ok": null } } }, "phase": "forward -> finished" });

    let entry = audit_entry(&entry(1, "engine", "settled", &done), 0, &known);

    assert!(
        entry.says.ends_with(
            "operator sam in workspace gruve approved tier_misplacement of workload/w-7 for cluster gpu-us-east-1 at \
             2026-11-21T13:08:11.000Z, actuated at 2026-11-21T13:08:12.000Z, outcome completed"
        ),
        "{}",
        entry.says
    );
    assert_eq!(entry.cluster.as_deref(), Some("gpu-us-east-1"));
    assert_eq!(entry.workspace.as_deref(), Some("gruve"));
    assert_eq!(entry.outcome.as_deref(), Some("completed"));
    assert_eq!(entry.actuated_at, Some(Timestamp(NOON + 1_000).into()));
    assert_eq!(entry.approved.len(), 1);
}

/// S-15. An execution that was rolled back has no time of effect, and its sentence mentions none.
#[test]
fn undone_work_does_not_count_as_actuated() {
    let over = Record {
        open: false,
        reason: Some("rolled_back".into()),
        updated_at: Timestamp(NOON + 1_000),
        ..record(1, "acme")
    };
    let person = engine::Person::new("sam", ["operator"]);
    let sam = engine::Vote::new(person, engine::Verdict::Approve, "", Timestamp(NOON));
    let asked =
        ApprovalRecord { votes: vec![sam], closed_at: Some(Timestamp(NOON)), ..case("sha256:p1", NOON) };
    let known = ExecutionContext { record: Some(over), cases: vec![asked], ..Default::default() };
    let failed = json!({ "event": { "settled": { "result": { "Err": { "code": "gpu.busy", "message": "no" } } } },
        "phase": "compensating -> finished" });

    let entry = audit_entry(&entry(1, "engine", "settled", &failed), 0, &known);

    assert_eq!(entry.actuated_at, None);
    assert!(entry.says.ends_with(", not actuated, outcome rolled_back"), "{}", entry.says);
}

#[test]
fn a_plan_with_two_clusters_shows_no_cluster() {
    let of = |decides| {
        let plan = Plan { decides, ..Plan::default() };
        crate::audit::whereabouts::Whereabouts::of_plan(&plan).cluster
    };
    assert_eq!(of(json!({ "nodes": [{ "cluster": "a" }, { "cluster": "a" }] })).as_deref(), Some("a"));
    assert_eq!(of(json!({ "nodes": [{ "cluster": "a" }, { "cluster": "b" }] })), None);
    assert_eq!(of(json!({ "cluster": "c", "nodes": [{ "cluster": "b" }] })).as_deref(), Some("c"));
}

#[test]
fn an_actor_is_a_user_a_service_or_the_engine() {
    let of = |actor, event, is_service| crate::audit::ActorKind::of(actor, event, is_service);
    use crate::audit::ActorKind::{Engine, Person, Service};
    assert_eq!(of("olga", "voted", Some(false)), Some(Person));
    assert_eq!(of("olga", "voted", None), Some(Person), "a user who was removed since");
    assert_eq!(of("oidc:olga", "voted", None), Some(Person));
    assert_eq!(of("ci", "started", Some(true)), Some(Service));
    assert_eq!(of("cluster:own-1", "asked", None), Some(Service));
    assert_eq!(of("engine-7", "fenced", None), Some(Engine));
    assert_eq!(of("tenure", "started", None), Some(Engine));
    assert_eq!(of("unknown", "access.denied", None), None);
}
