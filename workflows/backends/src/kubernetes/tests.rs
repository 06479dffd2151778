//! Specs survive conversion to objects and back, and errors get the right class. The JSON is from a real server.

use crate::kubernetes::{
    client::{
        discovery::{At, resource},
        error::Refusal,
    },
    labels::LabelNames,
    nodes::NodeOwner,
    objects::{
        admission_policy,
        call_history::{CallHistory, PastCall},
        deletion,
        parse::{found, quantity, spec_of},
        render,
        specs::ObjectSpec,
    },
    settings::KubernetesTarget,
};
use engine::Class;
use serde_json::{Value, json};
use std::time::Duration;
use store::Epoch;
use workflows::platform::{CallMetadata, Manifest, ObjectKind, ObjectRef};

fn stamp(step: &str, epoch: u64) -> CallMetadata {
    CallMetadata {
        action: "Test",
        step: step.into(),
        key: format!("{step}/key"),
        epoch: Epoch(epoch),
        undo: false,
        deadline: Duration::from_secs(1),
        dry_run: false,
    }
}

fn at(kind: ObjectKind, version: &str) -> At {
    let place = match kind {
        ObjectKind::ResourceQuota
        | ObjectKind::LimitRange
        | ObjectKind::NetworkPolicy
        | ObjectKind::RoleBinding
        | ObjectKind::LocalQueue => ObjectRef::within("eu-1", kind, "t-acme--prod", "tenure"),
        ObjectKind::Namespace
        | ObjectKind::PriorityClass
        | ObjectKind::ValidatingAdmissionPolicy
        | ObjectKind::Cohort
        | ObjectKind::ResourceFlavor
        | ObjectKind::ClusterQueue => ObjectRef::new("eu-1", kind, "t-acme--prod"),
    };
    At { place, resource: resource(kind), version: version.into() }
}

fn asked() -> Vec<(ObjectKind, Value)> {
    vec![
        (ObjectKind::Namespace, json!({ "labels": { "class": "batch" }, "podSecurity": "restricted" })),
        (
            ObjectKind::ResourceQuota,
            json!({ "hard": { "requests.nvidia.com/gpu": 8, "requests.cpu": 2000 } }),
        ),
        (
            ObjectKind::NetworkPolicy,
            json!({ "policyTypes": ["Ingress", "Egress"], "allow": ["same-tenant", "dns"] }),
        ),
        (ObjectKind::RoleBinding, json!({ "role": "edit", "groups": ["acme-admins", "acme-members"] })),
        (
            ObjectKind::ValidatingAdmissionPolicy,
            json!({ "registries": ["registry.example/a'b"], "tolerations": ["acme"], "failurePolicy": "Fail" }),
        ),
        (ObjectKind::Cohort, json!({ "quotas": { "prod/gpu/H100": 8 } })),
        (
            ObjectKind::Cohort,
            json!({
                "quotas": { "prod/gpu/H100": 8, "lab/gpu/H100": 3, "lab/gpu/H100/1g.10gb": 2 },
                "bought": [
                    { "resource": "gpu/H100", "flavor": "t-acme--h100", "amount": 16 },
                    { "resource": "gpu/A100/1g.10gb", "flavor": "t-acme--a100", "sliceProfile": "1g.10gb", "amount": 7 },
                ],
            }),
        ),
        (ObjectKind::ResourceFlavor, json!({ "nodeLabels": { "tenant": "acme", "gpu": "H100" } })),
        (
            ObjectKind::ClusterQueue,
            json!({
                "cohort": "t-acme",
                "resourceGroups": [
                    { "flavor": "t-acme--h100", "nominalQuota": 8, "borrowingLimit": 2, "lendingLimit": null },
                    { "flavor": "t-acme--a100", "nominalQuota": 0, "borrowingLimit": null, "lendingLimit": 1 },
                ],
                "stopPolicy": "Hold",
            }),
        ),
        (ObjectKind::LocalQueue, json!({ "clusterQueue": "t-acme--prod" })),
        (
            ObjectKind::LimitRange,
            json!({ "request": { "cpu": 1, "memory": 4_u64 << 30 }, "max": { "cpu": 64 } }),
        ),
        (ObjectKind::PriorityClass, json!({ "value": 100, "preemption": "Never" })),
    ]
}

fn object(kind: ObjectKind, spec: &Value, version: &str) -> Value {
    let (at, marks) = (at(kind, version), LabelNames::new("tenure.dev"));
    let manifest = Manifest { place: at.place.clone(), tenant: "acme".into(), spec: spec.clone() };
    let words = ObjectSpec::read(kind, spec).unwrap();
    let content = render::content(&words, "acme", &at, &KubernetesTarget::default(), &marks);
    render::object(&manifest, &at, content, &marks, "e-1/Making/0/0", "[]")
}

#[test]
fn labels_are_read_back_as_they_were_written() {
    for (kind, spec) in asked() {
        for version in ["v1beta1", "v1beta2"] {
            let object = object(kind, &spec, version);
            let found = found(
                &object,
                &at(kind, version),
                &KubernetesTarget::default(),
                &LabelNames::new("tenure.dev"),
            );

            assert_eq!(found.spec, spec, "{kind:?} of {version}: {object}");
            assert_eq!((found.tenant.as_str(), found.step.as_str()), ("acme", "e-1/Making/0/0"));
        }
    }
}

#[test]
fn changes_by_others_never_count_as_the_requested_state() {
    let tampered = [
        (ObjectKind::ResourceQuota, "/spec/hard/requests.cpu", json!("3k")),
        (ObjectKind::NetworkPolicy, "/spec/ingress/0/from", json!([])),
        (ObjectKind::NetworkPolicy, "/spec/egress/1/ports/0/port", json!(443)),
        (ObjectKind::RoleBinding, "/subjects/0/name", json!("everybody")),
        (ObjectKind::RoleBinding, "/roleRef/name", json!("admin")),
        (ObjectKind::ValidatingAdmissionPolicy, "/spec/validations/0/expression", json!("true")),
        (ObjectKind::ResourceFlavor, "/spec/tolerations/0/key", json!("")),
        (ObjectKind::ClusterQueue, "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota", json!("9")),
        (ObjectKind::LocalQueue, "/spec/clusterQueue", json!("other")),
        (ObjectKind::Namespace, "/metadata/labels/pod-security.kubernetes.io~1enforce", json!("privileged")),
        (ObjectKind::LimitRange, "/spec/limits/0/max/cpu", json!("65")),
        (ObjectKind::LimitRange, "/spec/limits/0/default/cpu", json!("2")),
        (ObjectKind::LimitRange, "/spec/limits/0/defaultRequest/memory", json!("1Mi")),
        (ObjectKind::LimitRange, "/spec/limits/0/type", json!("Pod")),
        (ObjectKind::PriorityClass, "/value", json!(101)),
        (ObjectKind::PriorityClass, "/preemptionPolicy", json!("PreemptLowerPriority")),
    ];
    for (kind, pointer, value) in tampered {
        let spec = asked().into_iter().find(|(of, _)| *of == kind).unwrap().1;
        let mut object = object(kind, &spec, "v1beta1");
        *object.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;

        let is = spec_of(
            &object,
            &at(kind, "v1beta1"),
            &KubernetesTarget::default(),
            &LabelNames::new("tenure.dev"),
        );
        assert_ne!(is, ObjectSpec::read(kind, &spec).unwrap(), "{kind:?} {pointer}");
    }
}

#[test]
fn a_queue_has_all_its_gpus_in_one_resource_group() {
    let spec = asked().into_iter().find(|(kind, _)| *kind == ObjectKind::ClusterQueue).unwrap().1;
    let old = object(ObjectKind::ClusterQueue, &spec, "v1beta1");
    let new = object(ObjectKind::ClusterQueue, &spec, "v1beta2");

    assert_eq!(old["spec"]["resourceGroups"].as_array().unwrap().len(), 1);
    assert_eq!(old["spec"]["cohort"], "t-acme");
    assert_eq!(new["spec"]["cohortName"], "t-acme");
    assert_eq!(old["spec"]["namespaceSelector"]["matchLabels"]["tenure.dev/tenant"], "acme");
}

/// A container without a request is counted with the default request and gets the same limit. A resource without a
/// maximum has no default limit, because it would reject containers that request more and set no limit.
#[test]
fn a_container_without_requests_gets_the_counted_defaults() {
    let range = |max: Value| {
        let spec = json!({ "request": { "cpu": 4, "memory": 4_u64 << 30 }, "max": max });
        object(ObjectKind::LimitRange, &spec, "v1")["spec"]["limits"].clone()
    };

    assert_eq!(
        range(json!({ "cpu": 64 })),
        json!([{
            "type": "Container",
            "defaultRequest": { "cpu": "4", "memory": "4294967296" },
            "default": { "cpu": "4" },
            "max": { "cpu": "64" },
        }])
    );
    assert_eq!(
        range(json!({ "cpu": 2 }))[0]["defaultRequest"]["cpu"],
        "2",
        "a default above the maximum is refused"
    );
    assert_eq!(range(json!({}))[0].get("default"), None);
}

#[test]
fn a_limit_range_is_equal_in_every_notation_of_the_server() {
    let spec = json!({ "request": { "cpu": 1, "memory": 4_u64 << 30 }, "max": { "cpu": 2000 } });
    let mut written = object(ObjectKind::LimitRange, &spec, "v1");
    *written.pointer_mut("/spec/limits/0/max/cpu").unwrap() = json!("2k");
    *written.pointer_mut("/spec/limits/0/defaultRequest/memory").unwrap() = json!("4Gi");
    let read = |object: &Value| {
        spec_of(
            object,
            &at(ObjectKind::LimitRange, "v1"),
            &KubernetesTarget::default(),
            &LabelNames::new("tenure.dev"),
        )
    };

    assert_eq!(read(&written), ObjectSpec::read(ObjectKind::LimitRange, &spec).unwrap());
    // Changes by others are visible, and a change of the maximum does not write them again.
    written["spec"]["limits"][0]["min"] = json!({ "cpu": "1" });
    let (altered, at) = (read(&written), at(ObjectKind::LimitRange, "v1"));
    assert_ne!(altered, ObjectSpec::read(ObjectKind::LimitRange, &spec).unwrap());
    let content =
        render::content(&altered, "acme", &at, &KubernetesTarget::default(), &LabelNames::new("tenure.dev"));
    assert_eq!(content.body["spec"], object(ObjectKind::LimitRange, &spec, "v1")["spec"]);
}

/// A survey of a tenant's objects must not find shared objects; otherwise its offboarding would delete them for all
/// tenants.
#[test]
fn shared_objects_have_the_mark_of_no_tenant() {
    let (at, marks) = (at(ObjectKind::PriorityClass, "v1"), LabelNames::new("tenure.dev"));
    let spec = json!({ "value": 100, "preemption": "Never" });
    let manifest = Manifest { place: at.place.clone(), tenant: String::new(), spec: spec.clone() };
    let asked = ObjectSpec::read(ObjectKind::PriorityClass, &spec).unwrap();
    let content = render::content(&asked, "", &at, &KubernetesTarget::default(), &marks);
    let object = render::object(&manifest, &at, content, &marks, "e-1/Making/0/0", "[]");

    assert_eq!(object["metadata"]["labels"], json!({}));
    assert_eq!((&object["value"], &object["preemptionPolicy"]), (&json!(100), &json!("Never")));
    assert_eq!(found(&object, &at, &KubernetesTarget::default(), &marks).tenant, "");
}

#[test]
fn only_whole_quantities_are_accepted() {
    for (text, wanted) in [
        ("8", Some(8)),
        ("1k", Some(1000)),
        ("2Gi", Some(2 << 30)),
        ("1.5Gi", Some(3 << 29)),
        ("2000m", Some(2)),
        ("1500m", None),
        ("0.1", None),
        ("", None),
        ("-1", None),
        ("1e3", None),
        ("99999999999999999999999", None),
    ] {
        assert_eq!(quantity(text), wanted, "{text:?}");
    }
}

#[test]
fn a_late_call_is_distinguished_from_the_newest_with_bounded_memory() {
    let remembered = |text: String| json!({ "metadata": { "annotations": { "tenure.dev/calls": text } } });
    let of = |object: &Value| CallHistory::of(object, "tenure.dev/calls").unwrap();
    let first = of(&remembered(CallHistory::default().with(&stamp("e-1", 5))));

    assert_eq!(first.check(&stamp("e-1", 4), "x").unwrap_err().code, "call.fenced");
    assert_eq!(first.check(&stamp("e-1", 5), "x").unwrap(), PastCall::Done);
    assert_eq!(first.check(&stamp("e-2", 1), "x").unwrap(), PastCall::New);
    assert!(first.is_newer(&stamp("e-1", 6)) && !first.is_newer(&stamp("e-2", 6)));

    let many = (0..100).fold(first, |calls, n| of(&remembered(calls.with(&stamp(&format!("f-{n}"), 1)))));
    assert_eq!(many.check(&stamp("f-99", 0), "x").unwrap_err().code, "call.fenced");
    assert_eq!(many.check(&stamp("f-1", 0), "x").unwrap(), PastCall::New);
    assert_eq!(
        CallHistory::of(&remembered("?".into()), "tenure.dev/calls").unwrap_err().code,
        "platform.unreadable"
    );
}

fn refusal(status: u16, body: &Value, changing: bool) -> Refusal {
    Refusal::read(status, None, body.to_string().as_bytes(), "PATCH /x".into(), changing)
}

#[test]
fn every_refusal_has_an_error_class() {
    let terminating = json!({
        "kind": "Status", "reason": "Forbidden",
        "message": "unable to create new content in namespace t because it is being terminated",
        "details": { "name": "x", "causes": [{ "reason": "NamespaceTerminating", "message": "" }] },
    });
    let named = json!({ "kind": "Status", "message": "m", "details": { "name": "x" } });
    for (status, body, changing, code) in [
        (401, json!({}), true, "platform.denied"),
        (403, named.clone(), true, "platform.denied"),
        (403, json!({ "message": "exceeded quota: tenure" }), true, "platform.refused"),
        (403, terminating, true, "object.terminating"),
        (404, named, true, "object.missing"),
        (404, json!("404 page not found"), true, "platform.unsupported"),
        (422, json!({}), true, "platform.refused"),
        (429, json!({}), true, "platform.unavailable"),
        (500, json!({}), true, "platform.no_answer"),
        (500, json!({}), false, "platform.unavailable"),
        (504, json!({}), true, "platform.no_answer"),
    ] {
        assert_eq!(refusal(status, &body, changing).error().code, code, "{status} {body}");
    }
    let later = Refusal::read(429, Some("7"), b"{}", String::new(), true).error();
    assert_eq!((later.class, later.retry_after), (Class::Transient, Some(Duration::from_secs(7))));
}

#[test]
fn a_conflict_names_the_other_manager_and_the_field() {
    let conflict = json!({
        "kind": "Status", "reason": "Conflict", "code": 409, "message": "Apply failed with 1 conflict",
        "details": { "causes": [{
            "reason": "FieldManagerConflict", "message": "conflict with \"argocd\"",
            "field": ".spec.hard.requests.nvidia.com/gpu",
        }] },
    });
    let refusal = refusal(409, &conflict, true);

    assert!(!refusal.is_outdated());
    assert_eq!(refusal.managers(), ["\"argocd\" (.spec.hard.requests.nvidia.com/gpu)"]);
}

#[test]
fn a_stuck_namespace_names_its_finalizers() {
    let namespace = json!({
        "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" },
        "status": { "conditions": [
            { "type": "NamespaceDeletionContentFailure", "status": "False", "message": "no" },
            { "type": "NamespaceFinalizersRemaining", "status": "True", "message": "hold.example/x in 1 resource instances" },
        ] },
    });
    let said = deletion::of("Namespace t-acme--prod", &namespace);

    assert!(said.contains("NamespaceFinalizersRemaining: hold.example/x in 1 resource instances"), "{said}");
    assert!(!said.contains("ContentFailure"), "{said}");
}

#[test]
fn a_policy_quotes_the_text_of_operators() {
    let words = serde_json::from_value(asked()[4].1.clone()).unwrap();
    let spec = admission_policy::spec(&words, "t-acme--prod", None, &LabelNames::new("tenure.dev"));
    let images = spec["validations"][0]["expression"].as_str().unwrap();

    assert!(images.contains(r"['registry.example/a\'b']"), "{images}");
    assert_eq!(spec["failurePolicy"], "Fail");
}

#[test]
fn a_node_without_labels_is_free_and_invalid_labels_are_not_interpreted() {
    let marks = LabelNames::new("tenure.dev");
    assert_eq!(NodeOwner::of(&json!({}), &marks).unwrap(), NodeOwner::default());
    let broken = json!({ "metadata": { "annotations": { "tenure.dev/owner-epoch": "many" } } });
    assert_eq!(NodeOwner::of(&broken, &marks).unwrap_err().code, "platform.unreadable");
}

#[test]
fn settings_that_the_server_would_reject_are_refused_with_their_field() {
    let target = KubernetesTarget { prefix: "Tenure Dev".into(), ..KubernetesTarget::default() };
    assert!(target.checked().unwrap_err().to_string().starts_with("prefix: "));
    assert!(serde_json::from_value::<KubernetesTarget>(json!({ "kubconfig": "x" })).is_err());
}

/// GPUs that no workspace was promised are the cohort's own quota, so Kueue lets every workspace borrow them.
#[test]
fn a_cohort_has_the_bought_gpus_that_no_queue_has_as_its_own_quota() {
    let bought = json!([{ "resource": "gpu/H100", "flavor": "t-acme--h100", "amount": 16 }]);
    let own = |quotas: Value| {
        let cohort = object(ObjectKind::Cohort, &json!({ "quotas": quotas, "bought": bought }), "v1beta1");
        cohort["spec"].clone()
    };

    assert_eq!(
        own(json!({ "prod/gpu/H100": 8, "lab/gpu/H100": 3, "lab/gpu/H100/1g.10gb": 2 })),
        json!({ "resourceGroups": [{
            "coveredResources": ["nvidia.com/gpu"],
            "flavors": [{ "name": "t-acme--h100", "resources": [{ "name": "nvidia.com/gpu", "nominalQuota": "5" }] }],
        }] })
    );
    let exceeded = own(json!({ "prod/gpu/H100": 20 }));
    assert_eq!(exceeded["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"], "0");

    assert_eq!(own(json!({ "prod/gpu/H100/1g.10gb": 14 })), json!({}), "they were cut into slices since");

    let mut changed = object(ObjectKind::Cohort, &json!({ "quotas": {}, "bought": bought }), "v1beta1");
    changed["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = json!("99");
    let target = KubernetesTarget::default();
    let found = found(&changed, &at(ObjectKind::Cohort, "v1beta1"), &target, &LabelNames::new("tenure.dev"));
    assert_eq!(found.spec["bought"][0]["amount"], 99, "a change by others is found");
}
