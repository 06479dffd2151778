//! Finds a tenant's objects in a cluster, by label in every kind that the server lists.
//!
//! Objects in a tenant's own namespaces are deleted with them. Of those, the survey lists only kinds that Tenure
//! creates, and volumes and snapshots, whose data remains after the namespace is deleted.

use crate::kubernetes::{
    cluster::KubernetesCluster,
    labels::{at, label, terminating, text, uid},
    objects::deletion,
    tenant_resources::{
        admit::CLOSED,
        kinds::{BINDING, ListedKind, NAMESPACE, NODE, POLICY, QUOTA},
        read::{Reader, Selector},
        volumes::Storage,
    },
};
use engine::ActionError;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokio::task::JoinSet;
use workflows::platform::{ObservedResource, TenantResource, codes, tenant_name};

/// The number of kinds that are listed at once. Clusters have hundreds of kinds.
const AT_ONCE: usize = 8;

/// A kind with its objects.
type Found = (ListedKind, Vec<Value>);

/// Returns the namespace of an object, if it has one.
pub(in crate::kubernetes) fn namespace_of(object: &Value) -> Option<&str> {
    Some(text(object, &["metadata", "namespace"])).filter(|name| !name.is_empty())
}

impl KubernetesCluster {
    pub(in crate::kubernetes) async fn surveyed(
        &self,
        tenant: &str,
        reader: &Reader,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        let own = format!("{}--", tenant_name(tenant)?);
        let kinds = reader.kinds().await?.into_iter();
        let kinds = kinds.filter(|kind| !self.target.survey_skips.contains(&kind.name()));
        let found = self.listed(kinds.collect(), tenant, reader).await?;
        let named = |word: &str| -> BTreeSet<String> {
            let of = found.iter().filter(|(kind, _)| kind.word == word).flat_map(|(_, objects)| objects);
            of.filter(|object| label(object, &self.marks.tenant()) == Some(tenant))
                .map(|object| text(object, &["metadata", "name"]).to_owned())
                .collect()
        };
        let (namespaces, policies) = (named(NAMESPACE), named(POLICY));
        let mut all: BTreeMap<String, ObservedResource> = BTreeMap::new();
        for (kind, objects) in &found {
            for object in objects {
                let name = text(object, &["metadata", "name"]);
                // An object without a uid is computed at the request and is not stored.
                if uid(object).is_empty() || all.contains_key(uid(object)) {
                    continue;
                }
                let theirs = match Storage::of(&kind.word) {
                    Some(storage) => self.is_stored_for(tenant, &namespaces, storage, object, reader).await?,
                    None => self.is_marked(kind, object, tenant),
                };
                let within = namespace_of(object).is_some_and(|name| namespaces.contains(name));
                let part = within && (!kind.is_made_within() || (kind.word == QUOTA && name == CLOSED));
                // The binding of a policy is created and removed with it.
                if !theirs || part || (kind.word == BINDING && policies.contains(name)) {
                    continue;
                }
                all.insert(uid(object).to_owned(), self.seen(kind, object, tenant));
            }
        }
        let mut all: Vec<ObservedResource> = all.into_values().collect();
        if let Some(webhook) = &self.target.admission_webhook {
            let guarded = namespaces.iter().filter(|name| name.starts_with(&own));
            all.extend(guarded.map(|name| self.guarded(name, tenant, webhook)));
        }
        all.sort_by(|a, b| a.thing.cmp(&b.thing));
        Ok(all)
    }

    /// Returns every kind with objects that may belong to the tenant, in the order of kinds.
    async fn listed(
        &self,
        kinds: Vec<ListedKind>,
        tenant: &str,
        reader: &Reader,
    ) -> Result<Vec<Found>, ActionError> {
        // Dropping the set cancels the requests.
        let mut asked = JoinSet::new();
        let mut lists = BTreeMap::new();
        for (n, kind) in kinds.into_iter().enumerate() {
            if asked.len() >= AT_ONCE {
                lists.extend(joined(&mut asked).await?);
            }
            let which = self.which(&kind, tenant);
            let reader = reader.clone();
            asked.spawn(async move {
                let objects = reader.list(&kind, None, &which).await?;
                Ok((n, (kind, objects)))
            });
        }
        while !asked.is_empty() {
            lists.extend(joined(&mut asked).await?);
        }
        Ok(lists.into_values().collect())
    }

    /// Returns the selector for a kind. Nodes and storage are listed without a label selector, because taints and
    /// claims are not labels. Namespaces are read completely, because their status shows what delays a deletion.
    fn which(&self, kind: &ListedKind, tenant: &str) -> Selector {
        let whole = kind.word == NODE || Storage::of(&kind.word).is_some();
        let marked = format!("{}={tenant}", self.marks.tenant());
        if whole {
            Selector::All
        } else if kind.word == NAMESPACE {
            Selector::Whole(marked)
        } else {
            Selector::Marked(marked)
        }
    }

    /// Returns the tenant that an object's label or taint names.
    pub(in crate::kubernetes) fn mark<'a>(&self, word: &str, object: &'a Value) -> &'a str {
        let key = self.marks.tenant();
        let taints = at(object, &["spec", "taints"]).filter(|_| word == NODE).and_then(Value::as_array);
        let taint = taints.into_iter().flatten().find(|taint| text(taint, &["key"]) == key);
        label(object, &key).or_else(|| taint.map(|taint| text(taint, &["value"]))).unwrap_or_default()
    }

    /// Returns true if the object's label names the tenant, or a node's taint does.
    fn is_marked(&self, kind: &ListedKind, object: &Value, tenant: &str) -> bool {
        let key = self.marks.tenant();
        let taints = at(object, &["spec", "taints"]).filter(|_| kind.word == NODE).and_then(Value::as_array);
        let tainted = taints
            .into_iter()
            .flatten()
            .any(|taint| text(taint, &["key"]) == key && text(taint, &["value"]) == tenant);
        tainted || label(object, &key) == Some(tenant)
    }

    /// Returns an object for the operator's webhook, which replaces the workspace's policy. It ends with the namespace.
    fn guarded(&self, namespace: &str, tenant: &str, webhook: &str) -> ObservedResource {
        ObservedResource {
            thing: TenantResource::new(
                crate::kubernetes::tenant_resources::SYSTEM,
                &self.name,
                POLICY,
                namespace,
            ),
            uid: format!("webhook/{webhook}"),
            tenant: tenant.to_owned(),
            spec: json!({ "webhook": webhook }),
            terminating: false,
        }
    }

    /// Converts an object for the survey. A terminating object includes the reasons for the delay.
    pub(in crate::kubernetes) fn seen(
        &self,
        kind: &ListedKind,
        object: &Value,
        tenant: &str,
    ) -> ObservedResource {
        let name = text(object, &["metadata", "name"]);
        let name = namespace_of(object).map_or_else(|| name.to_owned(), |within| format!("{within}/{name}"));
        let mut spec = Storage::of(&kind.word).map_or_else(|| json!({}), |storage| storage.spec(object));
        if let (true, Value::Object(said)) = (terminating(object), &mut spec) {
            said.insert("held".into(), deletion::of(&format!("{} {name}", kind.word), object).into());
        }
        ObservedResource {
            thing: TenantResource::new(
                crate::kubernetes::tenant_resources::SYSTEM,
                &self.name,
                &kind.word,
                &name,
            ),
            uid: uid(object).to_owned(),
            tenant: tenant.to_owned(),
            spec,
            terminating: terminating(object),
        }
    }
}

/// Returns the next finished list.
async fn joined(
    asked: &mut JoinSet<Result<(usize, Found), ActionError>>,
) -> Result<Option<(usize, Found)>, ActionError> {
    match asked.join_next().await {
        None => Ok(None),
        Some(Ok(listed)) => listed.map(Some),
        Some(Err(error)) => {
            Err(ActionError::transient(codes::UNAVAILABLE, format!("a list was interrupted: {error}")))
        }
    }
}
