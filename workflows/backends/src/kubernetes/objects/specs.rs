//! Specs of objects, in the terms of actions.

use engine::ActionError;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::collections::BTreeMap;
use workflows::platform::{ObjectKind, codes};

/// The requested state of an object: the `spec` of a manifest in normal form.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::kubernetes) enum ObjectSpec {
    Namespace(NamespaceSpec),
    Quota(ResourceQuotaSpec),
    Range(LimitRangeSpec),
    Class(PriorityClassSpec),
    Guard(NetworkPolicySpec),
    People(RoleBindingSpec),
    Admission(AdmissionPolicySpec),
    Cohort(CohortSpec),
    Flavor(ResourceFlavorSpec),
    Queue(ClusterQueueSpec),
    Entrance(LocalQueueSpec),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct NamespaceSpec {
    #[serde(default)]
    pub(in crate::kubernetes) labels: BTreeMap<String, String>,
    #[serde(rename = "podSecurity")]
    pub(in crate::kubernetes) pod_security: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct ResourceQuotaSpec {
    #[serde(default)]
    pub(in crate::kubernetes) hard: BTreeMap<String, Amount>,
}

/// Default and maximum resources of each container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct LimitRangeSpec {
    #[serde(default)]
    pub(in crate::kubernetes) request: BTreeMap<String, Amount>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(in crate::kubernetes) max: BTreeMap<String, Amount>,
}

/// Value and preemption policy of a priority class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct PriorityClassSpec {
    pub(in crate::kubernetes) value: i64,
    pub(in crate::kubernetes) preemption: String,
}

/// A quantity; a number if it is a whole one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(in crate::kubernetes) enum Amount {
    Whole(u64),
    Text(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct NetworkPolicySpec {
    #[serde(rename = "policyTypes")]
    pub(in crate::kubernetes) policy_types: Vec<String>,
    pub(in crate::kubernetes) allow: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct RoleBindingSpec {
    pub(in crate::kubernetes) role: String,
    pub(in crate::kubernetes) groups: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct AdmissionPolicySpec {
    pub(in crate::kubernetes) registries: Vec<String>,
    pub(in crate::kubernetes) tolerations: Vec<String>,
    #[serde(rename = "failurePolicy")]
    pub(in crate::kubernetes) failure_policy: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct CohortSpec {
    #[serde(default)]
    pub(in crate::kubernetes) quotas: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::kubernetes) bought: Vec<BoughtSpec>,
}

/// The GPUs that a tenant bought, in a cohort.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct BoughtSpec {
    /// The resource, as in the names of `quotas`.
    pub(in crate::kubernetes) resource: String,
    pub(in crate::kubernetes) flavor: String,
    /// The MIG profile, if slices are counted instead of whole GPUs.
    #[serde(rename = "sliceProfile", default, skip_serializing_if = "Option::is_none")]
    pub(in crate::kubernetes) profile: Option<String>,
    pub(in crate::kubernetes) amount: u64,
}

impl CohortSpec {
    /// Returns the sum of the queues' quotas of a resource.
    pub(in crate::kubernetes) fn promised(&self, resource: &str) -> u64 {
        let of =
            self.quotas.iter().filter(|(key, _)| key.split_once('/').is_some_and(|(_, of)| of == resource));
        of.fold(0, |sum: u64, (_, quota)| sum.saturating_add(*quota))
    }

    /// Returns the cohort's own quotas: the bought GPUs that no queue has.
    pub(in crate::kubernetes) fn pools(&self) -> Vec<ResourceGroupSpec> {
        self.bought.iter().filter_map(|bought| self.pool(bought)).collect()
    }

    /// Returns the cohort's own quota of a bought resource; `None` if the quotas count another kind of its model, because the GPUs were cut since.
    pub(in crate::kubernetes) fn pool(&self, bought: &BoughtSpec) -> Option<ResourceGroupSpec> {
        let resources = || self.quotas.keys().filter_map(|key| key.split_once('/')).map(|(_, of)| of);
        let is_counted = resources().any(|of| of == bought.resource);
        let was_cut = resources().any(|of| model_of(of) == model_of(&bought.resource)) && !is_counted;
        (!was_cut).then(|| ResourceGroupSpec {
            flavor: bought.flavor.clone(),
            profile: bought.profile.clone(),
            nominal: bought.amount.saturating_sub(self.promised(&bought.resource)),
            borrowing: None,
            lending: None,
        })
    }
}

/// Returns the model of a GPU resource, with or without a profile: `H100` of `gpu/H100/1g.10gb`.
fn model_of(resource: &str) -> Option<&str> {
    resource.split('/').nth(1)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct ResourceFlavorSpec {
    #[serde(rename = "nodeLabels")]
    pub(in crate::kubernetes) node_labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct ClusterQueueSpec {
    pub(in crate::kubernetes) cohort: String,
    #[serde(rename = "resourceGroups", default)]
    pub(in crate::kubernetes) groups: Vec<ResourceGroupSpec>,
    #[serde(rename = "stopPolicy")]
    pub(in crate::kubernetes) stop_policy: String,
}

/// A flavor's quota in a queue, in GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct ResourceGroupSpec {
    pub(in crate::kubernetes) flavor: String,
    /// The MIG profile, if slices are counted instead of whole GPUs.
    #[serde(rename = "sliceProfile", default, skip_serializing_if = "Option::is_none")]
    pub(in crate::kubernetes) profile: Option<String>,
    #[serde(rename = "nominalQuota")]
    pub(in crate::kubernetes) nominal: u64,
    #[serde(rename = "borrowingLimit")]
    pub(in crate::kubernetes) borrowing: Option<u64>,
    #[serde(rename = "lendingLimit")]
    pub(in crate::kubernetes) lending: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct LocalQueueSpec {
    #[serde(rename = "clusterQueue")]
    pub(in crate::kubernetes) queue: String,
}

impl ObjectSpec {
    /// Parses a manifest's spec. A null field counts as absent.
    ///
    /// # Errors
    ///
    /// `platform.refused` (permanent) for a spec that this backend does not support.
    pub(in crate::kubernetes) fn read(kind: ObjectKind, spec: &Value) -> Result<Self, ActionError> {
        let mut spec = spec.clone();
        if let Value::Object(fields) = &mut spec {
            fields.retain(|_, value| !value.is_null());
        }
        Ok(match kind {
            ObjectKind::Namespace => Self::Namespace(parse_spec(kind, spec)?),
            ObjectKind::ResourceQuota => Self::Quota(parse_spec(kind, spec)?),
            ObjectKind::LimitRange => Self::Range(parse_spec(kind, spec)?),
            ObjectKind::PriorityClass => Self::Class(parse_spec(kind, spec)?),
            ObjectKind::NetworkPolicy => Self::Guard(parse_spec(kind, spec)?),
            ObjectKind::RoleBinding => Self::People(parse_spec(kind, spec)?),
            ObjectKind::ValidatingAdmissionPolicy => Self::Admission(parse_spec(kind, spec)?),
            ObjectKind::Cohort => Self::Cohort(parse_spec(kind, spec)?),
            ObjectKind::ResourceFlavor => Self::Flavor(parse_spec(kind, spec)?),
            ObjectKind::ClusterQueue => Self::Queue(parse_spec(kind, spec)?),
            ObjectKind::LocalQueue => Self::Entrance(parse_spec(kind, spec)?),
        })
    }

    /// Returns the `spec` as JSON.
    pub(in crate::kubernetes) fn value(&self) -> Value {
        let value = match self {
            Self::Namespace(words) => serde_json::to_value(words),
            Self::Quota(words) => serde_json::to_value(words),
            Self::Range(words) => serde_json::to_value(words),
            Self::Class(words) => serde_json::to_value(words),
            Self::Guard(words) => serde_json::to_value(words),
            Self::People(words) => serde_json::to_value(words),
            Self::Admission(words) => serde_json::to_value(words),
            Self::Cohort(words) => serde_json::to_value(words),
            Self::Flavor(words) => serde_json::to_value(words),
            Self::Queue(words) => serde_json::to_value(words),
            Self::Entrance(words) => serde_json::to_value(words),
        };
        value.unwrap_or_default()
    }
}

fn parse_spec<T: DeserializeOwned>(kind: ObjectKind, spec: Value) -> Result<T, ActionError> {
    let kind: &str = kind.into();
    serde_json::from_value(spec)
        .map_err(|e| ActionError::permanent(codes::REFUSED, format!("spec of {kind}: {e}")))
}
