//! The objects that say to Kubernetes what actions ask for.

use crate::kubernetes::{
    client::discovery::At,
    labels::{LabelNames, SLICE},
    objects::{
        admission_policy, limit_range,
        specs::{
            Amount, ClusterQueueSpec, NamespaceSpec, NetworkPolicySpec, ObjectSpec, ResourceFlavorSpec,
            ResourceGroupSpec, RoleBindingSpec,
        },
    },
    settings::KubernetesTarget,
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use workflows::platform::Manifest;

/// The level of a namespace's pod security is enforced, audited and warned of.
pub(in crate::kubernetes) const POD_SECURITY: &str = "pod-security.kubernetes.io";
/// The words of a flavor for its two labels.
pub(in crate::kubernetes) const TENANT: &str = "tenant";
pub(in crate::kubernetes) const GPU: &str = "gpu";

/// What an object says beyond its marks: its labels, annotations, and the rest of its body.
#[derive(Debug, Default)]
pub(in crate::kubernetes) struct Content {
    pub(in crate::kubernetes) labels: Map<String, Value>,
    pub(in crate::kubernetes) annotations: Map<String, Value>,
    /// `spec`, or what a kind has in place of one.
    pub(in crate::kubernetes) body: Map<String, Value>,
}

/// The object that says `words` for `tenant`.
pub(in crate::kubernetes) fn content(
    words: &ObjectSpec,
    tenant: &str,
    at: &At,
    target: &KubernetesTarget,
    marks: &LabelNames,
) -> Content {
    let mut content = Content::default();
    match words {
        ObjectSpec::Namespace(words) => namespace(words, marks, &mut content),
        ObjectSpec::Quota(words) => content.spec(json!({ "hard": quantities(&words.hard) })),
        ObjectSpec::Range(words) => {
            content.annotate(&marks.asked(), &json!(words.request));
            content.spec(limit_range::spec(words));
        }
        ObjectSpec::Class(words) => {
            content.body.insert("value".into(), words.value.into());
            content.body.insert("preemptionPolicy".into(), words.preemption.clone().into());
        }
        ObjectSpec::Guard(words) => content.spec(guard(words, tenant, marks)),
        ObjectSpec::People(words) => people(words, &mut content),
        ObjectSpec::Admission(words) => {
            content.annotate(&marks.asked(), &json!(words));
            let image = target.probe_image.as_deref();
            if let Some(image) = image {
                content.annotations.insert(marks.probe_image(), image.into());
            }
            content.spec(admission_policy::spec(words, &at.place.name, image, marks));
        }
        ObjectSpec::Cohort(words) => {
            content.annotate(&marks.quotas(), &json!(words.quotas));
            content.spec(json!({}));
        }
        ObjectSpec::Flavor(words) => content.spec(flavor(words, tenant, target, marks)),
        ObjectSpec::Queue(words) => content.spec(queue(words, tenant, at, target, marks)),
        ObjectSpec::Entrance(words) => content.spec(json!({ "clusterQueue": words.queue })),
    }
    content
}

impl Content {
    fn spec(&mut self, spec: Value) {
        self.body.insert("spec".into(), spec);
    }

    fn annotate(&mut self, key: &str, value: &Value) {
        self.annotations.insert(key.to_owned(), value.to_string().into());
    }
}

fn namespace(words: &NamespaceSpec, marks: &LabelNames, content: &mut Content) {
    for mode in ["enforce", "audit", "warn"] {
        content.labels.insert(format!("{POD_SECURITY}/{mode}"), words.pod_security.clone().into());
    }
    for (key, value) in &words.labels {
        content.labels.insert(key.clone(), value.clone().into());
    }
    let names: Vec<&String> = words.labels.keys().collect();
    content.annotate(&marks.labels(), &json!(names));
}

pub(in crate::kubernetes) fn quantities(hard: &BTreeMap<String, Amount>) -> Value {
    let said = hard.iter().map(|(resource, amount)| {
        let amount = match amount {
            Amount::Whole(number) => number.to_string(),
            Amount::Text(text) => text.clone(),
        };
        (resource.clone(), Value::from(amount))
    });
    Value::Object(said.collect())
}

/// Nothing goes in or out but what is allowed by name.
fn guard(words: &NetworkPolicySpec, tenant: &str, marks: &LabelNames) -> Value {
    let rules = |direction: &str| -> Vec<Value> {
        words.allow.iter().filter_map(|what| rule(what, direction, tenant, marks)).collect()
    };
    json!({
        "podSelector": {},
        "policyTypes": words.policy_types,
        "ingress": rules("from"),
        "egress": rules("to"),
    })
}

/// What may be allowed by name.
pub(in crate::kubernetes) const ALLOWED: [&str; 2] = ["same-tenant", "dns"];

/// The rule that allows `what` in one direction (`from` or `to`), if there is one.
pub(in crate::kubernetes) fn rule(
    what: &str,
    direction: &str,
    tenant: &str,
    marks: &LabelNames,
) -> Option<Value> {
    match (what, direction) {
        ("same-tenant", _) => Some(
            json!({ direction: [{ "namespaceSelector": { "matchLabels": { marks.tenant(): tenant } } }] }),
        ),
        ("dns", "to") => Some(json!({
            "to": [{
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "kube-system" } },
                "podSelector": { "matchLabels": { "k8s-app": "kube-dns" } },
            }],
            "ports": [{ "protocol": "UDP", "port": 53 }, { "protocol": "TCP", "port": 53 }],
        })),
        _ => None,
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

fn people(words: &RoleBindingSpec, content: &mut Content) {
    let subjects: Vec<Value> = words
        .groups
        .iter()
        .map(|group| json!({ "kind": "Group", "apiGroup": RBAC, "name": group }))
        .collect();
    content
        .body
        .insert("roleRef".into(), json!({ "apiGroup": RBAC, "kind": "ClusterRole", "name": words.role }));
    content.body.insert("subjects".into(), subjects.into());
}

/// The flavor's pods get the node's labels as selector and the taint's toleration from Kueue.
fn flavor(words: &ResourceFlavorSpec, tenant: &str, target: &KubernetesTarget, marks: &LabelNames) -> Value {
    let labels = words.node_labels.iter().map(|(word, value)| {
        let key = match word.as_str() {
            TENANT => marks.tenant(),
            GPU => target.gpu_label.clone(),
            other => other.to_owned(),
        };
        (key, Value::from(value.clone()))
    });
    json!({ "nodeLabels": labels.collect::<Map<_, _>>(), "tolerations": [toleration(tenant, marks)] })
}

/// What lets a pod onto the tenant's nodes.
pub(in crate::kubernetes) fn toleration(tenant: &str, marks: &LabelNames) -> Value {
    json!({ "key": marks.tenant(), "operator": "Equal", "value": tenant, "effect": "NoSchedule" })
}

/// The name of the field that holds a queue's cohort.
pub(in crate::kubernetes) fn cohort_field(version: &str) -> &'static str {
    if matches!(version, "v1alpha1" | "v1beta1") { "cohort" } else { "cohortName" }
}

/// Kueue lets a resource be in one group of a queue only, so all flavors of GPUs are in one.
fn queue(
    words: &ClusterQueueSpec,
    tenant: &str,
    at: &At,
    target: &KubernetesTarget,
    marks: &LabelNames,
) -> Value {
    let resource_of = |group: &ResourceGroupSpec| {
        let slices = group.profile.as_ref().map(|profile| format!("{SLICE}{profile}"));
        slices.unwrap_or_else(|| target.gpu_resource.clone())
    };
    let covered: BTreeSet<String> = words.groups.iter().map(resource_of).collect();
    let flavors = words.groups.iter().map(|group| {
        let mut resource = json!({ "name": resource_of(group), "nominalQuota": group.nominal.to_string() });
        if let Value::Object(fields) = &mut resource {
            let limits = [("borrowingLimit", group.borrowing), ("lendingLimit", group.lending)];
            fields.extend(
                limits
                    .into_iter()
                    .filter_map(|(key, limit)| Some((key.to_owned(), limit?.to_string().into()))),
            );
        }
        json!({ "name": group.flavor, "resources": [resource] })
    });
    let flavors: Vec<Value> = flavors.collect();
    let groups = if flavors.is_empty() {
        json!([])
    } else {
        json!([{ "coveredResources": covered, "flavors": flavors }])
    };
    json!({
        cohort_field(&at.version): words.cohort,
        "namespaceSelector": { "matchLabels": { marks.tenant(): tenant } },
        "resourceGroups": groups,
        "stopPolicy": words.stop_policy,
    })
}

/// The whole object, with marks.
pub(in crate::kubernetes) fn object(
    manifest: &Manifest,
    at: &At,
    content: Content,
    marks: &LabelNames,
    step: &str,
    calls: &str,
) -> Value {
    let Content { mut labels, mut annotations, body } = content;
    // What all tenants share bears no tenant's mark, so that none takes it along.
    if !manifest.tenant.is_empty() {
        labels.insert(marks.tenant(), manifest.tenant.clone().into());
    }
    annotations.insert(marks.step(), step.into());
    annotations.insert(marks.calls(), calls.into());
    let mut metadata = json!({ "name": at.place.name, "labels": labels, "annotations": annotations });
    if let (Value::Object(metadata), Some(namespace)) = (&mut metadata, &at.place.namespace) {
        metadata.insert("namespace".into(), namespace.clone().into());
    }
    let mut object =
        json!({ "apiVersion": at.api_version(), "kind": at.resource.kind, "metadata": metadata });
    if let Value::Object(object) = &mut object {
        object.extend(body);
    }
    object
}
