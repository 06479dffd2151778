//! Converts live objects to specs.
//!
//! Only the live state counts: a field that others changed is read as they set it. A state that no action can request
//! becomes a value that no action uses, so that it never matches a request.

use crate::kubernetes::{
    client::discovery::At,
    labels::{LabelNames, SLICE, annotation, at as value_at, label, terminating, text, uid},
    objects::{
        admission_policy, limit_range,
        render::{ALLOWED, GPU, POD_SECURITY, TENANT, cohort_field, rule, toleration},
        specs::{
            AdmissionPolicySpec, Amount, ClusterQueueSpec, CohortSpec, LocalQueueSpec, NamespaceSpec,
            NetworkPolicySpec, ObjectSpec, PriorityClassSpec, ResourceFlavorSpec, ResourceGroupSpec,
            ResourceQuotaSpec, RoleBindingSpec,
        },
    },
    settings::KubernetesTarget,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use workflows::platform::{FoundObject, ObjectKind};

/// Converts a live object to the form that actions use.
pub(in crate::kubernetes) fn found(
    object: &Value,
    at: &At,
    target: &KubernetesTarget,
    marks: &LabelNames,
) -> FoundObject {
    FoundObject {
        uid: uid(object).to_owned(),
        tenant: label(object, &marks.tenant()).unwrap_or_default().to_owned(),
        step: annotation(object, &marks.step()).unwrap_or_default().to_owned(),
        spec: spec_of(object, at, target, marks).value(),
        terminating: terminating(object),
    }
}

/// Returns the spec of a live object.
pub(in crate::kubernetes) fn spec_of(
    object: &Value,
    at: &At,
    target: &KubernetesTarget,
    marks: &LabelNames,
) -> ObjectSpec {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let tenant = label(object, &marks.tenant()).unwrap_or_default();
    match at.place.kind {
        ObjectKind::Namespace => ObjectSpec::Namespace(namespace(object, marks)),
        ObjectKind::ResourceQuota => ObjectSpec::Quota(ResourceQuotaSpec { hard: amounts(spec.get("hard")) }),
        ObjectKind::LimitRange => ObjectSpec::Range(limit_range::words(object, marks)),
        ObjectKind::PriorityClass => ObjectSpec::Class(class(object)),
        ObjectKind::NetworkPolicy => ObjectSpec::Guard(guard(spec, tenant, marks)),
        ObjectKind::RoleBinding => ObjectSpec::People(people(object)),
        ObjectKind::ValidatingAdmissionPolicy => {
            ObjectSpec::Admission(admission(object, &at.place.name, marks))
        }
        ObjectKind::Cohort => ObjectSpec::Cohort(cohort(object, spec, target, marks)),
        ObjectKind::ResourceFlavor => ObjectSpec::Flavor(flavor(spec, tenant, target, marks)),
        ObjectKind::ClusterQueue => ObjectSpec::Queue(queue(spec, &at.version, target)),
        ObjectKind::LocalQueue => {
            ObjectSpec::Entrance(LocalQueueSpec { queue: text(spec, &["clusterQueue"]).to_owned() })
        }
    }
}

fn namespace(object: &Value, marks: &LabelNames) -> NamespaceSpec {
    let names = annotation(object, &marks.labels()).and_then(|text| serde_json::from_str(text).ok());
    let names: Vec<String> = names.unwrap_or_default();
    let labels = names.into_iter().filter_map(|name| {
        let value = label(object, &name)?.to_owned();
        Some((name, value))
    });
    let level = label(object, &format!("{POD_SECURITY}/enforce")).unwrap_or_default();
    NamespaceSpec { labels: labels.collect(), pod_security: level.to_owned() }
}

/// Reads a priority class. A global default class gets a preemption value that no action requests.
fn class(object: &Value) -> PriorityClassSpec {
    let preemption = match text(object, &["preemptionPolicy"]) {
        "" => "PreemptLowerPriority",
        said => said,
    };
    let everybody = object.get("globalDefault").and_then(Value::as_bool) == Some(true);
    PriorityClassSpec {
        value: object.get("value").and_then(Value::as_i64).unwrap_or_default(),
        preemption: if everybody { format!("{preemption}, every pod's") } else { preemption.to_owned() },
    }
}

pub(in crate::kubernetes) fn amounts(hard: Option<&Value>) -> BTreeMap<String, Amount> {
    let entries = hard.and_then(Value::as_object).into_iter().flatten();
    let amount = |value: &Value| match value {
        Value::String(text) => quantity(text).map_or_else(|| Amount::Text(text.clone()), Amount::Whole),
        Value::Number(number) => {
            number.as_u64().map_or_else(|| Amount::Text(number.to_string()), Amount::Whole)
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Amount::Text(value.to_string()),
    };
    entries.map(|(resource, value)| (resource.clone(), amount(value))).collect()
}

/// Parses a quantity with any suffix, such as `1k` or `2Gi`. Returns `None` if it is not whole, such as `1500m`.
pub(in crate::kubernetes) fn quantity(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(digits)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let (times, divided): (u128, u128) = match suffix {
        "" => (1, 1),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        _ => return None,
    };
    let scaled: u128 = format!("{whole}{part}").parse::<u128>().ok()?.checked_mul(times)?;
    let divided = divided.checked_mul(10_u128.checked_pow(u32::try_from(part.len()).ok()?)?)?;
    if !scaled.is_multiple_of(divided) {
        return None;
    }
    u64::try_from(scaled / divided).ok()
}

fn guard(spec: &Value, tenant: &str, marks: &LabelNames) -> NetworkPolicySpec {
    let list = |field: &str| spec.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let (mut ingress, mut egress) = (list("ingress"), list("egress"));
    let mut allow = Vec::new();
    for what in ALLOWED {
        let parts = [(&mut ingress, "from"), (&mut egress, "to")];
        let mut whole = true;
        for (rules, direction) in parts {
            let Some(wanted) = rule(what, direction, tenant, marks) else { continue };
            match rules.iter().position(|rule| *rule == wanted) {
                Some(at) => drop(rules.remove(at)),
                None => whole = false,
            }
        }
        if whole {
            allow.push(what.to_owned());
        }
    }
    allow.extend(ingress.iter().chain(&egress).map(|rule| format!("another rule: {rule}")));
    if value_at(spec, &["podSelector"]).is_some_and(|selector| *selector != json!({})) {
        allow.push("pods that are not selected".to_owned());
    }
    let types = list("policyTypes").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    NetworkPolicySpec { policy_types: types, allow }
}

fn people(object: &Value) -> RoleBindingSpec {
    let (kind, name) = (text(object, &["roleRef", "kind"]), text(object, &["roleRef", "name"]));
    let role = if kind == "ClusterRole" { name.to_owned() } else { format!("{kind} {name}") };
    let subjects = object.get("subjects").and_then(Value::as_array).into_iter().flatten();
    let groups = subjects.map(|subject| match text(subject, &["kind"]) {
        "Group" => text(subject, &["name"]).to_owned(),
        kind => format!("{kind} {}", text(subject, &["name"])),
    });
    RoleBindingSpec { role, groups: groups.collect() }
}

/// Returns the spec that the policy was made from, if its expressions still match it.
fn admission(object: &Value, name: &str, marks: &LabelNames) -> AdmissionPolicySpec {
    let asked = annotation(object, &marks.asked()).and_then(|text| serde_json::from_str(text).ok());
    let altered = || AdmissionPolicySpec {
        registries: vec!["altered expressions".to_owned()],
        tolerations: Vec::new(),
        failure_policy: text(object, &["spec", "failurePolicy"]).to_owned(),
    };
    let Some(asked) = asked else { return altered() };
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let image = annotation(object, &marks.probe_image());
    if contains(spec, &admission_policy::spec(&asked, name, image, marks)) { asked } else { altered() }
}

/// Returns true if `whole` contains all of `part`; servers add defaults.
pub(in crate::kubernetes) fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, wanted)| whole.get(key).is_some_and(|is| contains(is, wanted)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(is, wanted)| contains(is, wanted))
        }
        (whole, part) => whole == part,
    }
}

fn flavor(spec: &Value, tenant: &str, target: &KubernetesTarget, marks: &LabelNames) -> ResourceFlavorSpec {
    let labels = spec.get("nodeLabels").and_then(Value::as_object).into_iter().flatten();
    let words = labels.map(|(key, value)| {
        let word = match key {
            key if *key == marks.tenant() => TENANT.to_owned(),
            key if *key == target.gpu_label => GPU.to_owned(),
            other => other.clone(),
        };
        (word, value.as_str().unwrap_or_default().to_owned())
    });
    let mut node_labels: BTreeMap<String, String> = words.collect();
    let tolerated = spec.get("tolerations").cloned().unwrap_or_default();
    if tolerated != json!([toleration(tenant, marks)]) {
        node_labels.insert("altered tolerations".to_owned(), tolerated.to_string());
    }
    ResourceFlavorSpec { node_labels }
}

/// Returns a cohort. Bought GPUs follow its live quota, so that a change by others is found.
fn cohort(object: &Value, spec: &Value, target: &KubernetesTarget, marks: &LabelNames) -> CohortSpec {
    let quotas = annotation(object, &marks.quotas()).and_then(|text| serde_json::from_str(text).ok());
    let bought = annotation(object, &marks.bought()).and_then(|text| serde_json::from_str(text).ok());
    let mut words = CohortSpec { quotas: quotas.unwrap_or_default(), bought: bought.unwrap_or_default() };
    let live = resource_groups(spec, target);
    let expected: Vec<_> = words.bought.iter().map(|bought| words.pool(bought)).collect();
    let promised: Vec<u64> = words.bought.iter().map(|bought| words.promised(&bought.resource)).collect();
    for ((bought, pool), promised) in words.bought.iter_mut().zip(expected).zip(promised) {
        let Some(pool) = pool else { continue };
        let same = |group: &&ResourceGroupSpec| group.flavor == pool.flavor && group.profile == pool.profile;
        let nominal = live.iter().find(same).map_or(0, |group| group.nominal);
        if nominal != pool.nominal {
            bought.amount = nominal.saturating_add(promised);
        }
    }
    words
}

/// Returns the resource groups of a queue or a cohort.
fn resource_groups(spec: &Value, target: &KubernetesTarget) -> Vec<ResourceGroupSpec> {
    let groups = spec.get("resourceGroups").and_then(Value::as_array).into_iter().flatten();
    let flavors = groups.filter_map(|group| group.get("flavors")?.as_array()).flatten();
    let groups = flavors.map(|flavor| {
        let resources = flavor.get("resources").and_then(Value::as_array).into_iter().flatten();
        let profile = |one: &Value| text(one, &["name"]).strip_prefix(SLICE).map(str::to_owned);
        let counted = |one: &&Value| text(one, &["name"]) == target.gpu_resource || profile(one).is_some();
        let gpus = resources.into_iter().find(counted);
        let limit = |field: &str| match gpus.and_then(|gpus| gpus.get(field))? {
            Value::String(text) => quantity(text),
            other => other.as_u64(),
        };
        ResourceGroupSpec {
            flavor: text(flavor, &["name"]).to_owned(),
            profile: gpus.and_then(profile),
            nominal: limit("nominalQuota").unwrap_or_default(),
            borrowing: limit("borrowingLimit"),
            lending: limit("lendingLimit"),
        }
    });
    groups.collect()
}

fn queue(spec: &Value, version: &str, target: &KubernetesTarget) -> ClusterQueueSpec {
    let stop = match text(spec, &["stopPolicy"]) {
        "" => "None",
        policy => policy,
    };
    ClusterQueueSpec {
        cohort: text(spec, &[cohort_field(version)]).to_owned(),
        groups: resource_groups(spec, target),
        stop_policy: stop.to_owned(),
    }
}
