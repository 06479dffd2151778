//! What actions ask of objects, in their own words.

use engine::ActionError;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::collections::BTreeMap;
use workflows::platform::{Kind, codes};

/// What an action asks of one object: the `spec` of a manifest, in its normal form.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::kubernetes) enum Words {
    Namespace(NamespaceWords),
    Quota(QuotaWords),
    Range(RangeWords),
    Class(ClassWords),
    Guard(GuardWords),
    People(PeopleWords),
    Admission(AdmissionWords),
    Cohort(CohortWords),
    Flavor(FlavorWords),
    Queue(QueueWords),
    Entrance(EntranceWords),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct NamespaceWords {
    #[serde(default)]
    pub(in crate::kubernetes) labels: BTreeMap<String, String>,
    #[serde(rename = "podSecurity")]
    pub(in crate::kubernetes) pod_security: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct QuotaWords {
    #[serde(default)]
    pub(in crate::kubernetes) hard: BTreeMap<String, Amount>,
}

/// What each container may have: by default, and at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct RangeWords {
    #[serde(default)]
    pub(in crate::kubernetes) request: BTreeMap<String, Amount>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(in crate::kubernetes) max: BTreeMap<String, Amount>,
}

/// How pods of a class are ranked, and whose place they may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct ClassWords {
    pub(in crate::kubernetes) value: i64,
    pub(in crate::kubernetes) preemption: String,
}

/// A quantity, as a number where it is a whole one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(in crate::kubernetes) enum Amount {
    Whole(u64),
    Text(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct GuardWords {
    #[serde(rename = "policyTypes")]
    pub(in crate::kubernetes) policy_types: Vec<String>,
    pub(in crate::kubernetes) allow: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct PeopleWords {
    pub(in crate::kubernetes) role: String,
    pub(in crate::kubernetes) groups: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct AdmissionWords {
    pub(in crate::kubernetes) registries: Vec<String>,
    pub(in crate::kubernetes) tolerations: Vec<String>,
    #[serde(rename = "failurePolicy")]
    pub(in crate::kubernetes) failure_policy: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct CohortWords {
    #[serde(default)]
    pub(in crate::kubernetes) quotas: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct FlavorWords {
    #[serde(rename = "nodeLabels")]
    pub(in crate::kubernetes) node_labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct QueueWords {
    pub(in crate::kubernetes) cohort: String,
    #[serde(rename = "resourceGroups", default)]
    pub(in crate::kubernetes) groups: Vec<GroupWords>,
    #[serde(rename = "stopPolicy")]
    pub(in crate::kubernetes) stop_policy: String,
}

/// A flavor's part of a queue, in GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct GroupWords {
    pub(in crate::kubernetes) flavor: String,
    #[serde(rename = "nominalQuota")]
    pub(in crate::kubernetes) nominal: u64,
    #[serde(rename = "borrowingLimit")]
    pub(in crate::kubernetes) borrowing: Option<u64>,
    #[serde(rename = "lendingLimit")]
    pub(in crate::kubernetes) lending: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::kubernetes) struct EntranceWords {
    #[serde(rename = "clusterQueue")]
    pub(in crate::kubernetes) queue: String,
}

impl Words {
    /// The words of a manifest's spec. A field that is null counts as absent.
    ///
    /// # Errors
    /// `platform.refused`, permanent, for what this backend does not know how to say.
    pub(in crate::kubernetes) fn read(kind: Kind, spec: &Value) -> Result<Self, ActionError> {
        let mut spec = spec.clone();
        if let Value::Object(fields) = &mut spec {
            fields.retain(|_, value| !value.is_null());
        }
        Ok(match kind {
            Kind::Namespace => Self::Namespace(words(kind, spec)?),
            Kind::ResourceQuota => Self::Quota(words(kind, spec)?),
            Kind::LimitRange => Self::Range(words(kind, spec)?),
            Kind::PriorityClass => Self::Class(words(kind, spec)?),
            Kind::NetworkPolicy => Self::Guard(words(kind, spec)?),
            Kind::RoleBinding => Self::People(words(kind, spec)?),
            Kind::ValidatingAdmissionPolicy => Self::Admission(words(kind, spec)?),
            Kind::Cohort => Self::Cohort(words(kind, spec)?),
            Kind::ResourceFlavor => Self::Flavor(words(kind, spec)?),
            Kind::ClusterQueue => Self::Queue(words(kind, spec)?),
            Kind::LocalQueue => Self::Entrance(words(kind, spec)?),
        })
    }

    /// The words as the `spec` of an object found.
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

fn words<T: DeserializeOwned>(kind: Kind, spec: Value) -> Result<T, ActionError> {
    let kind: &str = kind.into();
    serde_json::from_value(spec)
        .map_err(|e| ActionError::permanent(codes::REFUSED, format!("spec of {kind}: {e}")))
}
