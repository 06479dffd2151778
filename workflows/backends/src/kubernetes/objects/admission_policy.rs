//! The admission policy of a workspace, as expressions of the Common Expression Language that the API server evaluates.

use crate::kubernetes::{labels::LabelNames, objects::specs::AdmissionPolicySpec};
use serde_json::{Value, json};

/// The fields of a pod that list containers.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Returns the policy: only images of these registries, and only tolerations for the tenant's own nodes. The image of
/// the isolation probes is also allowed.
pub(in crate::kubernetes) fn spec(
    words: &AdmissionPolicySpec,
    namespace: &str,
    probe_image: Option<&str>,
    marks: &LabelNames,
) -> Value {
    let probes = probe_image.map(|image| format!("c.image == {} || ", quote(image))).unwrap_or_default();
    let mut validations: Vec<Value> = CONTAINERS
        .iter()
        .map(|list| {
            let from = "c.image.startsWith(r + '/')";
            let all =
                format!("object.spec.{list}.all(c, {probes}{}.exists(r, {from}))", quoted(&words.registries));
            json!({
                "expression": format!("!has(object.spec.{list}) || {all}"),
                "message": format!("{list}: images come from {} only", words.registries.join(", ")),
            })
        })
        .collect();
    validations.push(json!({
        "expression": tolerated(&words.tolerations, marks),
        "message": format!("tolerations: name their key, none of {}, and {} only of this tenant", marks.cordon(), marks.tenant()),
    }));
    json!({
        "failurePolicy": words.failure_policy,
        "matchConstraints": {
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
            "resourceRules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["pods", "pods/ephemeralcontainers"],
            }],
        },
        "validations": validations,
    })
}

/// Returns the binding that enforces the policy.
pub(in crate::kubernetes) fn binding_spec(name: &str) -> Value {
    json!({ "policyName": name, "validationActions": ["Deny"] })
}

/// A toleration without a key tolerates every taint. A toleration of the tenant taint must name a tenant.
fn tolerated(tenants: &[String], marks: &LabelNames) -> String {
    let (cordon, tenant) = (marks.cordon(), marks.tenant());
    let own = format!("(t.key != '{tenant}' || (has(t.value) && t.value in {}))", quoted(tenants));
    format!(
        "!has(object.spec.tolerations) || object.spec.tolerations.all(t, has(t.key) && t.key != '' && t.key != '{cordon}' && {own})"
    )
}

fn quoted(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(", "))
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
