//! Changes to one layer, each a compare and a write in one call, and their undos.

use crate::platform::{
    CallMetadata, CreatedObject, FlavorQuota, LimitNames, LimitRestored, ObjectKind, ObjectRef, Platform,
    PriorityClass,
    actions::limits::quota_field::{FieldOwner, FieldPath, QuotaField, change, entry, restore},
    at_cluster, workspace_name,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// Sets the recorded quota of a workspace's resource in the cohort.
///
/// Safe to run twice: it sets a fixed value. Fails with `quota.drifted` if the record differs from the value that was read. Its undo,
/// [`RestoreCohortQuota`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeCohortQuota {
    /// The limit, by its name in each layer.
    pub of: LimitNames,
    /// The value that was read.
    pub from: Option<u64>,
    /// The value to set.
    pub to: Option<u64>,
}

/// Sets a queue's quota of one flavor.
///
/// Safe to run twice: it sets a fixed value. Fails with `quota.drifted` if the queue differs from the value that was read. Its undo,
/// [`RestoreQueueQuota`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeQueueQuota {
    /// The limit, by its name in each layer.
    pub of: LimitNames,
    /// The value that was read.
    pub from: Option<FlavorQuota>,
    /// The value to set.
    pub to: Option<FlavorQuota>,
}

/// Sets one hard limit of a workspace's namespace. If containers are limited, it sets the container maximum as well, which never exceeds the hard
/// limit. Usage above the limit stays, because Kubernetes evicts no pod for a quota.
///
/// Safe to run twice: it sets a fixed value. Fails with `quota.drifted` if the limit differs from the value that was read. Its undo,
/// [`RestoreResourceQuota`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeResourceQuota {
    /// The limit, by its name in each layer.
    pub of: LimitNames,
    /// The value that was read.
    pub from: Option<u64>,
    /// The value to set.
    pub to: Option<u64>,
}

/// Sets one `GrpTRES` value of a workspace's association.
///
/// Safe to run twice: it sets a fixed value. Fails with `quota.drifted` if the limit differs from the value that was read. Its undo,
/// [`RestoreAssociationLimit`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeAssociationLimit {
    /// The limit, by its name in each layer.
    pub of: LimitNames,
    /// The value that was read.
    pub from: Option<u64>,
    /// The value to set.
    pub to: Option<u64>,
}

/// Restores the recorded quota of a cohort. Safe to run twice. As an undo it tolerates that nothing was changed, and leaves a value that another
/// client has set since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreCohortQuota {
    /// The change to undo.
    pub change: ChangeCohortQuota,
}

/// Restores a queue's quota. Safe to run twice. As an undo it tolerates that nothing was changed, and leaves a value that another client has set
/// since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreQueueQuota {
    /// The change to undo.
    pub change: ChangeQueueQuota,
}

/// Restores a hard limit. Safe to run twice. As an undo it tolerates that nothing was changed, and leaves a value that another client has set since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreResourceQuota {
    /// The change to undo.
    pub change: ChangeResourceQuota,
}

/// Restores an association's limit. Safe to run twice. As an undo it tolerates that nothing was changed, and leaves a value that another client has
/// set since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreAssociationLimit {
    /// The change to undo.
    pub change: ChangeAssociationLimit,
}

impl Action for ChangeCohortQuota {
    const NAME: &'static str = "ChangeCohortQuota";
    type Platform = Platform;
    type Output = CreatedObject;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let line = QuotaField::cohort(&self.of)?;
        change(on, &self.of, line, (json!(self.from), json!(self.to)), &CallMetadata::for_action(self, call))
            .await
    }
}

impl Action for RestoreCohortQuota {
    const NAME: &'static str = "RestoreCohortQuota";
    type Platform = Platform;
    type Output = LimitRestored;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.change.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<LimitRestored, ActionError> {
        let ChangeCohortQuota { of, from, to } = &self.change;
        restore(
            on,
            of,
            QuotaField::cohort(of)?,
            (json!(from), json!(to)),
            &CallMetadata::for_action(self, call),
        )
        .await
    }
}

impl Action for ChangeQueueQuota {
    const NAME: &'static str = "ChangeQueueQuota";
    type Platform = Platform;
    type Output = CreatedObject;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let lines = (entry(&self.of, self.from.as_ref())?, entry(&self.of, self.to.as_ref())?);
        change(on, &self.of, QuotaField::queue(&self.of)?, lines, &CallMetadata::for_action(self, call)).await
    }
}

impl Action for RestoreQueueQuota {
    const NAME: &'static str = "RestoreQueueQuota";
    type Platform = Platform;
    type Output = LimitRestored;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.change.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<LimitRestored, ActionError> {
        let ChangeQueueQuota { of, from, to } = &self.change;
        let lines = (entry(of, from.as_ref())?, entry(of, to.as_ref())?);
        restore(on, of, QuotaField::queue(of)?, lines, &CallMetadata::for_action(self, call)).await
    }
}

impl Action for ChangeResourceQuota {
    const NAME: &'static str = "ChangeResourceQuota";
    type Platform = Platform;
    type Output = CreatedObject;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let (stamp, says) = (CallMetadata::for_action(self, call), || (json!(self.from), json!(self.to)));
        let (hard, range, part) =
            (QuotaField::hard(&self.of)?, QuotaField::range(&self.of)?, stamp.for_part("range"));
        if lowers(self.from, self.to) {
            change(on, &self.of, range, says(), &part).await?;
            return change(on, &self.of, hard, says(), &stamp).await;
        }
        let made = change(on, &self.of, hard, says(), &stamp).await?;
        change(on, &self.of, range, says(), &part).await?;
        Ok(made)
    }
}

impl Action for RestoreResourceQuota {
    const NAME: &'static str = "RestoreResourceQuota";
    type Platform = Platform;
    type Output = LimitRestored;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.change.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<LimitRestored, ActionError> {
        let ChangeResourceQuota { of, from, to } = &self.change;
        let (stamp, says) = (CallMetadata::for_action(self, call), || (json!(from), json!(to)));
        let (hard, range, part) = (QuotaField::hard(of)?, QuotaField::range(of)?, stamp.for_part("range"));
        if lowers(*to, *from) {
            restore(on, of, range, says(), &part).await?;
            return restore(on, of, hard, says(), &stamp).await;
        }
        let restored = restore(on, of, hard, says(), &stamp).await?;
        restore(on, of, range, says(), &part).await?;
        Ok(restored)
    }
}

impl Action for ChangeAssociationLimit {
    const NAME: &'static str = "ChangeAssociationLimit";
    type Platform = Platform;
    type Output = CreatedObject;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let line = QuotaField::association(&self.of)?;
        change(on, &self.of, line, (json!(self.from), json!(self.to)), &CallMetadata::for_action(self, call))
            .await
    }
}

impl Action for RestoreAssociationLimit {
    const NAME: &'static str = "RestoreAssociationLimit";
    type Platform = Platform;
    type Output = LimitRestored;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.change.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<LimitRestored, ActionError> {
        let ChangeAssociationLimit { of, from, to } = &self.change;
        restore(
            on,
            of,
            QuotaField::association(of)?,
            (json!(from), json!(to)),
            &CallMetadata::for_action(self, call),
        )
        .await
    }
}

/// Returns true if the limit `to` is lower than `from`. `None` means unlimited.
fn lowers(from: Option<u64>, to: Option<u64>) -> bool {
    to.is_some_and(|to| from.is_none_or(|from| to < from))
}

/// Sets the labels of a namespace that state its service level. First creates the priority class of the level if the cluster has none.
///
/// Safe to run twice: it sets fixed values. Fails with `quota.drifted` if the labels differ from `from`. Its undo, [`RestoreNamespaceLabels`],
/// tolerates that it never ran. It leaves the class, because all tenants share it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeNamespaceLabels {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
    /// The current labels.
    pub from: BTreeMap<String, String>,
    /// The labels to set.
    pub to: BTreeMap<String, String>,
    /// The new priority class for the tenant's pods, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<PriorityClass>,
}

/// Restores the labels of a namespace. Safe to run twice. As an undo it tolerates that nothing was changed, and leaves labels that another client has
/// set since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreNamespaceLabels {
    /// The change to undo.
    pub change: ChangeNamespaceLabels,
}

impl ChangeNamespaceLabels {
    fn line(&self) -> Result<(LimitNames, QuotaField), ActionError> {
        let name = workspace_name(&self.tenant, &self.workspace)?;
        let at = FieldOwner::Object(ObjectRef::new(&self.cluster, ObjectKind::Namespace, &name));
        let of = LimitNames { tenant: self.tenant.clone(), ..LimitNames::default() };
        Ok((of, QuotaField { at, field: "labels", path: FieldPath::Whole }))
    }
}

impl Action for ChangeNamespaceLabels {
    const NAME: &'static str = "ChangeNamespaceLabels";
    type Platform = Platform;
    type Output = CreatedObject;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let ((of, line), stamp) = (self.line()?, CallMetadata::for_action(self, call));
        if let Some(class) = &self.priority_class {
            class.ensure_exists(on, &self.cluster, &stamp).await?;
        }
        change(on, &of, Some(line), (json!(self.from), json!(self.to)), &stamp).await
    }
}

impl Action for RestoreNamespaceLabels {
    const NAME: &'static str = "RestoreNamespaceLabels";
    type Platform = Platform;
    type Output = LimitRestored;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.change.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<LimitRestored, ActionError> {
        let ((of, line), change) = (self.change.line()?, &self.change);
        restore(
            on,
            &of,
            Some(line),
            (json!(change.from), json!(change.to)),
            &CallMetadata::for_action(self, call),
        )
        .await
    }
}
