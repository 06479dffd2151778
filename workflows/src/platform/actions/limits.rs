//! What a workspace may use, in every layer of a platform that says so: read, changed one layer after the other, and
//! kept.
//!
//! Each change is a comparison and a write in one call, so that nothing is overwritten that somebody else has set since
//! it was read; and an undo puts back what was read only while what it set still stands. A cohort's `quotas` are a
//! record: Kueue adds up the queues of a cohort by itself, and a nominal quota there would come on top of theirs.

pub(crate) mod quota_field;

use crate::platform::Platform;
use crate::platform::{
    FlavorQuota, Kind, Made, Place, PriorityClass, Stamp,
    actions::limits::quota_field::{At, Line, Path, change, entry, restore},
    at_cluster, codes, workspace_name,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One resource of one workspace, by the name that each layer has for it; `None` where a layer does not count it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitNames {
    /// In which cluster.
    pub cluster: String,
    /// Of which tenant.
    pub tenant: String,
    /// Of which of its workspaces.
    pub workspace: String,
    /// In the record of the tenant's cohort: `research/gpu/H100`.
    pub cohort: Option<String>,
    /// Of the queue's flavors: the GPU model.
    pub queue: Option<String>,
    /// In the namespace's resource quota: `requests.nvidia.com/gpu`.
    pub hard: Option<String>,
    /// In the association's `GrpTRES`: `gres/gpu:h100`.
    pub association: Option<String>,
}

/// What the layers say of one resource; `None` where one says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// In the record of the tenant's cohort.
    pub cohort: Option<u64>,
    /// In the workspace's queue.
    pub queue: Option<FlavorQuota>,
    /// In the namespace's resource quota, in Kubernetes' unit.
    pub hard: Option<u64>,
    /// In the association's `GrpTRES`, in Slurm's unit.
    pub association: Option<u64>,
}

/// Reads what every layer says of one resource: the pre-image of a change.
///
/// Safe to run twice; it changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadLimits {
    /// Of what.
    pub of: LimitNames,
}

impl Action for ReadLimits {
    const NAME: &'static str = "ReadLimits";
    type Platform = Platform;
    type Output = Limits;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Limits, ActionError> {
        read_limits(on, &self.of, &Stamp::of(self, call)).await
    }
}

/// What every layer says of one resource.
///
/// # Errors
/// `object.missing` and the like of the layer that cannot be read.
pub async fn read_limits(on: &Platform, of: &LimitNames, stamp: &Stamp) -> Result<Limits, ActionError> {
    let mut limits = Limits::default();
    for line in Line::all(of)? {
        let Some(found) = line.standing(on, &of.tenant, stamp).await? else { continue };
        limits.note(&line, of, line.of(&found.spec))?;
    }
    Ok(limits)
}

/// Makes sure that every layer says what it was set to, and sets again what does not.
///
/// Safe to run twice: what is right is left. A layer that had to be set again is a `quota.drifted`, transient, so that
/// it is looked at once more; the step's retries say how often that is worth it. It has nothing to undo of its own: the
/// steps that changed the layers have their undos.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeepLimits {
    /// Of what.
    pub of: LimitNames,
    /// What the layers are to say.
    pub limits: Limits,
}

/// The layers were read back, and say what they were set to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitKept {
    /// What was read.
    pub limits: Limits,
}

impl Action for KeepLimits {
    const NAME: &'static str = "KeepLimits";
    type Platform = Platform;
    type Output = LimitKept;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<LimitKept, ActionError> {
        let stamp = Stamp::of(self, call);
        let (mut seen, mut drifted) = (Limits::default(), Vec::new());
        for line in Line::all(&self.of)? {
            let Some(found) = line.standing(on, &self.of.tenant, &stamp).await? else { continue };
            let (now, wanted) = (line.of(&found.spec), line.wanted(&self.limits));
            seen.note(&line, &self.of, now.clone())?;
            if now != wanted {
                let part = stamp.part(&format!("{}-{}", line.field, call.attempt));
                line.set(on, &self.of.tenant, &found, wanted.clone(), &part).await?;
                drifted.push(format!("{} said {now} and was set to {wanted} again", line.name()));
            }
        }
        if drifted.is_empty() {
            return Ok(LimitKept { limits: seen });
        }
        Err(ActionError::transient(codes::QUOTA_DRIFTED, drifted.join("; ")))
    }
}

/// What an undo of a change learns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restored {
    /// It is as it was before the change.
    Before,
    /// Somebody has set it to something else since: it was left so.
    Left {
        /// What it says.
        now: Value,
    },
}

/// Sets what the cohort's record says of a workspace's resource.
///
/// Safe to run twice: set is set. It is refused with `quota.drifted` when the record is not as it was read. Its undo,
/// [`RestoreCohortQuota`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeCohortQuota {
    /// Of what.
    pub of: LimitNames,
    /// What was read.
    pub from: Option<u64>,
    /// What it is to be.
    pub to: Option<u64>,
}

/// Sets what a queue may use of one flavor.
///
/// Safe to run twice: set is set. It is refused with `quota.drifted` when the queue is not as it was read. Its undo,
/// [`RestoreQueueQuota`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeQueueQuota {
    /// Of what.
    pub of: LimitNames,
    /// What was read.
    pub from: Option<FlavorQuota>,
    /// What it is to be.
    pub to: Option<FlavorQuota>,
}

/// Sets one hard limit of a workspace's namespace, and with it how large a container may be, where containers are limited: never
/// looser than the limit above it. Usage above it stays: Kubernetes never evicts for a quota.
///
/// Safe to run twice: set is set. It is refused with `quota.drifted` when the limit is not as it was read. Its undo,
/// [`RestoreResourceQuota`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeResourceQuota {
    /// Of what.
    pub of: LimitNames,
    /// What was read.
    pub from: Option<u64>,
    /// What it is to be.
    pub to: Option<u64>,
}

/// Sets one `GrpTRES` of a workspace's association.
///
/// Safe to run twice: set is set. It is refused with `quota.drifted` when the limit is not as it was read. Its undo,
/// [`RestoreAssociationLimit`], tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeAssociationLimit {
    /// Of what.
    pub of: LimitNames,
    /// What was read.
    pub from: Option<u64>,
    /// What it is to be.
    pub to: Option<u64>,
}

/// Puts the record of a cohort back. Safe to run twice; as an undo it tolerates that nothing was changed, and leaves
/// what somebody else has set since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreCohortQuota {
    /// What was to be done.
    pub change: ChangeCohortQuota,
}

/// Puts a queue's quota back. Safe to run twice; as an undo it tolerates that nothing was changed, and leaves what
/// somebody else has set since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreQueueQuota {
    /// What was to be done.
    pub change: ChangeQueueQuota,
}

/// Puts a hard limit back. Safe to run twice; as an undo it tolerates that nothing was changed, and leaves what somebody
/// else has set since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreResourceQuota {
    /// What was to be done.
    pub change: ChangeResourceQuota,
}

/// Puts an association's limit back. Safe to run twice; as an undo it tolerates that nothing was changed, and leaves
/// what somebody else has set since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreAssociationLimit {
    /// What was to be done.
    pub change: ChangeAssociationLimit,
}

impl Action for ChangeCohortQuota {
    const NAME: &'static str = "ChangeCohortQuota";
    type Platform = Platform;
    type Output = Made;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Made, ActionError> {
        let line = Line::cohort(&self.of)?;
        change(on, &self.of, line, (json!(self.from), json!(self.to)), &Stamp::of(self, call)).await
    }
}

impl Action for RestoreCohortQuota {
    const NAME: &'static str = "RestoreCohortQuota";
    type Platform = Platform;
    type Output = Restored;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.change.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Restored, ActionError> {
        let ChangeCohortQuota { of, from, to } = &self.change;
        restore(on, of, Line::cohort(of)?, (json!(from), json!(to)), &Stamp::of(self, call)).await
    }
}

impl Action for ChangeQueueQuota {
    const NAME: &'static str = "ChangeQueueQuota";
    type Platform = Platform;
    type Output = Made;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Made, ActionError> {
        let lines = (entry(&self.of, self.from.as_ref())?, entry(&self.of, self.to.as_ref())?);
        change(on, &self.of, Line::queue(&self.of)?, lines, &Stamp::of(self, call)).await
    }
}

impl Action for RestoreQueueQuota {
    const NAME: &'static str = "RestoreQueueQuota";
    type Platform = Platform;
    type Output = Restored;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.change.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Restored, ActionError> {
        let ChangeQueueQuota { of, from, to } = &self.change;
        let lines = (entry(of, from.as_ref())?, entry(of, to.as_ref())?);
        restore(on, of, Line::queue(of)?, lines, &Stamp::of(self, call)).await
    }
}

impl Action for ChangeResourceQuota {
    const NAME: &'static str = "ChangeResourceQuota";
    type Platform = Platform;
    type Output = Made;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Made, ActionError> {
        let (stamp, says) = (Stamp::of(self, call), || (json!(self.from), json!(self.to)));
        let (hard, range, part) = (Line::hard(&self.of)?, Line::range(&self.of)?, stamp.part("range"));
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
    type Output = Restored;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.change.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Restored, ActionError> {
        let ChangeResourceQuota { of, from, to } = &self.change;
        let (stamp, says) = (Stamp::of(self, call), || (json!(from), json!(to)));
        let (hard, range, part) = (Line::hard(of)?, Line::range(of)?, stamp.part("range"));
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
    type Output = Made;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Made, ActionError> {
        let line = Line::association(&self.of)?;
        change(on, &self.of, line, (json!(self.from), json!(self.to)), &Stamp::of(self, call)).await
    }
}

impl Action for RestoreAssociationLimit {
    const NAME: &'static str = "RestoreAssociationLimit";
    type Platform = Platform;
    type Output = Restored;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.change.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Restored, ActionError> {
        let ChangeAssociationLimit { of, from, to } = &self.change;
        restore(on, of, Line::association(of)?, (json!(from), json!(to)), &Stamp::of(self, call)).await
    }
}

/// Whether a limit of `to` is tighter than one of `from`; `None` for no limit.
fn lowers(from: Option<u64>, to: Option<u64>) -> bool {
    to.is_some_and(|to| from.is_none_or(|from| to < from))
}

/// Sets the labels of a namespace that say what its tenant was promised, and before that makes the priority class that they
/// stand for, where the cluster has none.
///
/// Safe to run twice: set is set. It is refused with `quota.drifted` when the labels are not as they were. Its undo,
/// [`RestoreNamespaceLabels`], tolerates that it never ran, and leaves the class, which is for all tenants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeNamespaceLabels {
    /// In which cluster.
    pub cluster: String,
    /// Of which tenant.
    pub tenant: String,
    /// Of which of its workspaces.
    pub workspace: String,
    /// What they are.
    pub from: BTreeMap<String, String>,
    /// What they are to be.
    pub to: BTreeMap<String, String>,
    /// The class by which the tenant's pods may be ranked from then on, if there is to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<PriorityClass>,
}

/// Puts the labels of a namespace back. Safe to run twice; as an undo it tolerates that nothing was changed, and leaves
/// what somebody else has set since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreNamespaceLabels {
    /// What was to be done.
    pub change: ChangeNamespaceLabels,
}

impl ChangeNamespaceLabels {
    fn line(&self) -> Result<(LimitNames, Line), ActionError> {
        let name = workspace_name(&self.tenant, &self.workspace)?;
        let at = At::Object(Place::new(&self.cluster, Kind::Namespace, &name));
        let of = LimitNames { tenant: self.tenant.clone(), ..LimitNames::default() };
        Ok((of, Line { at, field: "labels", path: Path::Whole }))
    }
}

impl Action for ChangeNamespaceLabels {
    const NAME: &'static str = "ChangeNamespaceLabels";
    type Platform = Platform;
    type Output = Made;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Made, ActionError> {
        let ((of, line), stamp) = (self.line()?, Stamp::of(self, call));
        if let Some(class) = &self.priority_class {
            class.made(on, &self.cluster, &stamp).await?;
        }
        change(on, &of, Some(line), (json!(self.from), json!(self.to)), &stamp).await
    }
}

impl Action for RestoreNamespaceLabels {
    const NAME: &'static str = "RestoreNamespaceLabels";
    type Platform = Platform;
    type Output = Restored;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.change.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Restored, ActionError> {
        let ((of, line), change) = (self.change.line()?, &self.change);
        restore(on, &of, Some(line), (json!(change.from), json!(change.to)), &Stamp::of(self, call)).await
    }
}
