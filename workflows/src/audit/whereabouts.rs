//! The workspace and the cluster of an entry, if its plan or its documents name exactly one. Pure.

use engine::Plan;
use serde_json::Value;
use std::{collections::BTreeSet, fmt};

/// The workspace and the cluster. `None` if it does not name exactly one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Whereabouts {
    pub(super) cluster: Option<String>,
    pub(super) workspace: Option<String>,
}

/// Collections whose document ids begin with a cluster.
const OF_CLUSTERS: &[&str] = &["cluster-classes", "cluster-keys", "clusters"];
/// Collections whose document ids begin with a tenant and a workspace.
const OF_WORKSPACES: &[&str] = &["lines", "quotas", "usages", "workspaces"];

impl Whereabouts {
    /// Returns the place from the decisions or the placement of a plan.
    pub(super) fn of_plan(plan: &Plan) -> Self {
        let named = |name: &str| {
            let top = plan.decides.get(name).and_then(Value::as_str).map(str::to_owned);
            let claimed = plan.placement.get("claimed");
            top.or_else(|| claimed.and_then(|claimed| only(claimed, name)))
                .or_else(|| only(&plan.decides, name))
        };
        Self { cluster: named("cluster"), workspace: named("workspace") }
    }

    /// Returns the place of changed documents.
    pub(super) fn of_documents<'a>(documents: impl Iterator<Item = &'a String>) -> Self {
        let (mut clusters, mut workspaces) = (BTreeSet::new(), BTreeSet::new());
        for name in documents {
            let mut parts = name.split('/');
            let (Some(collection), Some(first)) = (parts.next(), parts.next()) else { continue };
            if OF_CLUSTERS.contains(&collection) {
                clusters.insert(first.to_owned());
            }
            if let Some(second) = parts.next().filter(|_| OF_WORKSPACES.contains(&collection)) {
                workspaces.insert(second.to_owned());
            }
        }
        let one = |mut names: BTreeSet<String>| if names.len() == 1 { names.pop_first() } else { None };
        Self { cluster: one(clusters), workspace: one(workspaces) }
    }
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(workspace) = &self.workspace {
            write!(f, " in workspace {workspace}")?;
        }
        if let Some(cluster) = &self.cluster {
            write!(f, " for cluster {cluster}")?;
        }
        Ok(())
    }
}

/// Returns the text with this name in `of`, if all occurrences are equal.
fn only(of: &Value, name: &str) -> Option<String> {
    let mut found = BTreeSet::new();
    gather(of, name, &mut found);
    let mut found = found.into_iter();
    found.next().filter(|_| found.next().is_none()).map(str::to_owned)
}

fn gather<'a>(of: &'a Value, name: &str, found: &mut BTreeSet<&'a str>) {
    match of {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(text) if field == name => {
                        found.insert(text);
                    }
                    inner => gather(inner, name, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, name, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
