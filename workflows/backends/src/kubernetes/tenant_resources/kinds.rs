//! Lists all kinds of an API server and derives their names.
//!
//! Core kinds and kinds that Tenure creates have the plain kind as name (`Namespace`, `ClusterQueue`). All others
//! include their group, because groups may share a kind (`Job.batch`).

use crate::kubernetes::{
    client::{
        discovery::{is_served, versions},
        error::Fault,
        request::{ApiRequest, escaped},
    },
    labels::text,
    tenant_resources::read::{Reader, Selector},
};
use engine::ActionError;
use serde_json::Value;
use std::collections::BTreeSet;
use workflows::platform::{ObjectKind, codes};

/// Kinds outside of the core that Tenure creates, with their groups.
const OWN: [(&str, &str); 8] = [
    ("NetworkPolicy", "networking.k8s.io"),
    ("RoleBinding", "rbac.authorization.k8s.io"),
    ("ValidatingAdmissionPolicy", "admissionregistration.k8s.io"),
    (BINDING, "admissionregistration.k8s.io"),
    ("Cohort", "kueue.x-k8s.io"),
    ("ResourceFlavor", "kueue.x-k8s.io"),
    (QUEUE, "kueue.x-k8s.io"),
    ("LocalQueue", "kueue.x-k8s.io"),
];

pub(in crate::kubernetes) const NAMESPACE: &str = "Namespace";
pub(in crate::kubernetes) const NODE: &str = "Node";
pub(in crate::kubernetes) const POD: &str = "Pod";
pub(in crate::kubernetes) const QUOTA: &str = "ResourceQuota";
pub(in crate::kubernetes) const QUEUE: &str = "ClusterQueue";
pub(in crate::kubernetes) const POLICY: &str = "ValidatingAdmissionPolicy";
pub(in crate::kubernetes) const BINDING: &str = "ValidatingAdmissionPolicyBinding";
pub(in crate::kubernetes) const VOLUME: &str = "PersistentVolume";
pub(in crate::kubernetes) const CLAIM: &str = "PersistentVolumeClaim";
pub(in crate::kubernetes) const SNAPSHOT: &str = "VolumeSnapshot.snapshot.storage.k8s.io";
pub(in crate::kubernetes) const SNAPSHOT_CONTENT: &str = "VolumeSnapshotContent.snapshot.storage.k8s.io";

/// A kind that the server lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kubernetes) struct ListedKind {
    group: String,
    version: String,
    plural: String,
    /// The kind's name in surveys.
    pub(in crate::kubernetes) word: String,
    pub(in crate::kubernetes) namespaced: bool,
}

impl ListedKind {
    /// Returns the resource name, such as `namespaces` or `jobs.batch`.
    pub(in crate::kubernetes) fn name(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Returns the path of all objects of the kind, or of those in a namespace.
    pub(in crate::kubernetes) fn collection(&self, namespace: Option<&str>) -> String {
        let root = path_of(&self.group, &self.version);
        let within = namespace.map(|name| format!("/namespaces/{}", escaped(name))).unwrap_or_default();
        format!("{root}{within}/{}", self.plural)
    }

    /// Returns the path of one object.
    pub(in crate::kubernetes) fn path(&self, namespace: Option<&str>, name: &str) -> String {
        format!("{}/{}", self.collection(namespace), escaped(name))
    }

    /// Returns true if Tenure creates objects of this kind in namespaces, so that surveys list each object.
    pub(in crate::kubernetes) fn is_made_within(&self) -> bool {
        self.namespaced && (self.word == QUOTA || OWN.iter().any(|(kind, _)| *kind == self.word))
    }
}

/// Returns the name of a kind.
pub(in crate::kubernetes) fn word(kind: &str, group: &str) -> String {
    if group.is_empty() || OWN.contains(&(kind, group)) { kind.to_owned() } else { format!("{kind}.{group}") }
}

/// Returns the group of a kind by its name.
fn group_of(word: &str) -> &str {
    let own = OWN.iter().find(|(kind, _)| *kind == word).map(|(_, group)| *group);
    own.unwrap_or_else(|| word.split_once('.').map_or("", |(_, group)| group))
}

/// Returns the object kind that actions create under this name.
pub(in crate::kubernetes) fn made(word: &str) -> Option<ObjectKind> {
    Some(match word {
        NAMESPACE => ObjectKind::Namespace,
        QUOTA => ObjectKind::ResourceQuota,
        "NetworkPolicy" => ObjectKind::NetworkPolicy,
        "RoleBinding" => ObjectKind::RoleBinding,
        POLICY => ObjectKind::ValidatingAdmissionPolicy,
        "Cohort" => ObjectKind::Cohort,
        "ResourceFlavor" => ObjectKind::ResourceFlavor,
        QUEUE => ObjectKind::ClusterQueue,
        "LocalQueue" => ObjectKind::LocalQueue,
        _ => return None,
    })
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

impl Reader {
    /// Returns every kind that can be listed, in its group's preferred version.
    ///
    /// # Errors
    ///
    /// The error of a group that does not answer, because its objects are then unknown.
    pub(in crate::kubernetes) async fn kinds(&self) -> Result<Vec<ListedKind>, ActionError> {
        let mut all = self.kinds_of("", &["v1".to_owned()]).await?;
        for (name, versions) in self.groups().await? {
            all.extend(self.kinds_of(&name, &versions).await?);
        }
        self.none_is_hidden(None, &all).await?;
        Ok(all)
    }

    /// Checks that every defined kind is served, in one group or in all. A server can report ready before it serves all
    /// kinds, but definitions are always listed.
    async fn none_is_hidden(&self, group: Option<&str>, known: &[ListedKind]) -> Result<(), ActionError> {
        let definitions = ListedKind {
            group: "apiextensions.k8s.io".into(),
            version: "v1".into(),
            plural: "customresourcedefinitions".into(),
            word: word("CustomResourceDefinition", "apiextensions.k8s.io"),
            namespaced: false,
        };
        let known: BTreeSet<String> = known.iter().map(ListedKind::name).collect();
        for one in self.list(&definitions, None, &Selector::Named).await? {
            let name = text(&one, &["metadata", "name"]);
            let of = name.split_once('.').map_or("", |(_, group)| group);
            if known.contains(name) || group.is_some_and(|group| group != of) {
                continue;
            }
            let Some(definition) = self.named(&definitions, None, name).await? else { continue };
            if is_served(&definition) {
                let why = format!(
                    "{name} are defined and not listed among what the server has: what there is of them is not known yet; if it stays so, mend or remove that definition"
                );
                return Err(ActionError::transient(codes::UNAVAILABLE, why));
            }
        }
        Ok(())
    }

    /// Returns every group with its versions, the preferred one first. Fails if the server is not ready: after a start
    /// it does not yet list groups defined by others, and their objects must not count as absent.
    async fn groups(&self) -> Result<Vec<(String, Vec<String>)>, ActionError> {
        if self.is_ready().await == Some(false) {
            let why = "GET /readyz: the server is not ready, and what it serves is not known yet";
            return Err(ActionError::transient(codes::UNAVAILABLE, why));
        }
        let listed = self.ask(&ApiRequest::get("/apis")).await?;
        let Some(groups) = listed.get("groups").and_then(Value::as_array) else {
            return Err(ActionError::transient(codes::UNREADABLE, "GET /apis: the answer lists no groups"));
        };
        let name = |group: &Value| group.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(groups.iter().map(|group| (name(group), versions(group))).collect())
    }

    /// Returns the kind with this name. Returns `None` if it is not served, so that no objects exist.
    pub(in crate::kubernetes) async fn kind(&self, word: &str) -> Result<Option<ListedKind>, ActionError> {
        let group = group_of(word);
        let of = if group.is_empty() {
            vec!["v1".to_owned()]
        } else {
            // Looked up in the list of groups, because a missing path can have many causes.
            let found = self.groups().await?.into_iter().find(|(name, _)| name == group);
            found.map(|(_, versions)| versions).unwrap_or_default()
        };
        let all = self.kinds_of(group, &of).await?;
        if let Some(kind) = all.iter().find(|one| one.word == word) {
            return Ok(Some(kind.clone()));
        }
        if !group.is_empty() {
            self.none_is_hidden(Some(group), &all).await?;
        }
        Ok(None)
    }

    /// Returns the kinds of one group. Each kind is taken from the first version that has it.
    async fn kinds_of(&self, group: &str, versions: &[String]) -> Result<Vec<ListedKind>, ActionError> {
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for version in versions {
            let path = path_of(group, version);
            let unknown = |fault: Fault| {
                let error = match fault {
                    // The group was listed just now, so the error is transient.
                    Fault::Refused(refusal) if refusal.status == 404 => {
                        ActionError::transient(codes::UNAVAILABLE, refusal.error().message)
                    }
                    fault => fault.into(),
                };
                let why = format!(
                    "the kinds of {group}/{version} cannot be listed, and what a tenant has of them is not known: {}; mend what serves it, or remove its APIService",
                    error.message
                );
                ActionError { message: why, ..error }
            };
            let listed = self.send(&ApiRequest::get(&path)).await.map_err(unknown)?;
            let resources = listed.get("resources").and_then(Value::as_array).cloned().unwrap_or_default();
            for resource in resources {
                let text = |field: &str| text(&resource, &[field]);
                let verbs = resource.get("verbs").and_then(Value::as_array);
                let lists = verbs.into_iter().flatten().any(|verb| verb == "list");
                let plural = text("name");
                if !lists || plural.contains('/') || !seen.insert(plural.to_owned()) {
                    continue;
                }
                all.push(ListedKind {
                    group: group.to_owned(),
                    version: version.clone(),
                    plural: plural.to_owned(),
                    word: word(text("kind"), group),
                    namespaced: resource.get("namespaced").and_then(Value::as_bool).unwrap_or_default(),
                });
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_every_kind_identifies_its_group() {
        for (kind, group) in
            OWN.into_iter().chain([("Namespace", ""), ("Job", "batch"), ("Queue", "scheduling.volcano.sh")])
        {
            assert_eq!(group_of(&word(kind, group)), group);
        }
        assert_ne!(word("Cohort", "example.org"), "Cohort", "a kind of others is not taken for ours");
    }
}
