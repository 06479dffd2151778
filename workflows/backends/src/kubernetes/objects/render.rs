//! Converts specs to Kubernetes objects.

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

/// The prefix of a namespace's pod security labels: enforce, audit and warn.
pub(in crate::kubernetes) const POD_SECURITY: &str = "pod-security.kubernetes.io";
/// The names for the two labels of a flavor.
pub(in crate::kubernetes) const TENANT: &str = "tenant";
pub(in crate::kubernetes) const GPU: &str = "gpu";

/// The content of an object in addition to its owner labels.
#[derive(Debug, Default)]
pub(in crate::kubernetes) struct Content {
    pub(in crate::kubernetes) labels: Map<String, Value>,
    pub(in crate::kubernetes) annotations: Map<String, Value>,
    /// `spec`, or the fields of kinds without a spec.
    pub(in crate::kubernetes) body: Map<String, Value>,
}

/// Returns the content of an object with this spec for `tenant`.
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
            let mut spec = json!({});
            if !words.bought.is_empty() {
                content.annotate(&marks.bought(), &json!(words.bought));
            }
            let pools = words.pools();
            if !pools.is_empty() {
                spec = json!({ "resourceGroups": resource_groups(&pools, target) });
            }
            content.spec(spec);
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

/// Returns a policy that denies all traffic except the allowed rules.
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

/// The names of rules that can be allowed.
pub(in crate::kubernetes) const ALLOWED: [&str; 2] = ["same-tenant", "dns"];

/// Returns the rule `what` for one direction (`from` or `to`), if it exists.
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

/// Kueue copies the flavor's node labels and toleration to its pods.
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

/// Returns the toleration for the tenant's nodes.
pub(in crate::kubernetes) fn toleration(tenant: &str, marks: &LabelNames) -> Value {
    json!({ "key": marks.tenant(), "operator": "Equal", "value": tenant, "effect": "NoSchedule" })
}

/// Returns the name of a queue's cohort field in an API version.
pub(in crate::kubernetes) fn cohort_field(version: &str) -> &'static str {
    if matches!(version, "v1alpha1" | "v1beta1") { "cohort" } else { "cohortName" }
}

/// Returns the resource groups of a queue or a cohort.
fn resource_groups(groups: &[ResourceGroupSpec], target: &KubernetesTarget) -> Value {
    let resource_of = |group: &ResourceGroupSpec| {
        let slices = group.profile.as_ref().map(|profile| format!("{SLICE}{profile}"));
        slices.unwrap_or_else(|| target.gpu_resource.clone())
    };
    let covered: BTreeSet<String> = groups.iter().map(resource_of).collect();
    let flavors = groups.iter().map(|group| {
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
    if flavors.is_empty() { json!([]) } else { json!([{ "coveredResources": covered, "flavors": flavors }]) }
}

/// Kueue allows a resource in only one group of a queue, so all GPU flavors share a group.
fn queue(
    words: &ClusterQueueSpec,
    tenant: &str,
    at: &At,
    target: &KubernetesTarget,
    marks: &LabelNames,
) -> Value {
    json!({
        cohort_field(&at.version): words.cohort,
        "namespaceSelector": { "matchLabels": { marks.tenant(): tenant } },
        "resourceGroups": resource_groups(&words.groups, target),
        "stopPolicy": words.stop_policy,
    })
}

/// Returns the complete object with owner labels.
pub(in crate::kubernetes) fn object(
    manifest: &Manifest,
    at: &At,
    content: Content,
    marks: &LabelNames,
    step: &str,
    calls: &str,
) -> Value {
    let Content { mut labels, mut annotations, body } = content;
    // Shared objects have no tenant label, so that no tenant's offboarding removes them.
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
