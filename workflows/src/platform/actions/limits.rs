//! What a workspace may use, in every layer of a platform that says so: read, changed one layer after the other, and
//! kept.
//!
//! Each change is a comparison and a write in one call, so that nothing is overwritten that somebody else has set since
//! it was read; and an undo puts back what was read only while what it set still stands. A cohort's `quotas` are a
//! record: Kueue adds up the queues of a cohort by itself, and a nominal quota there would come on top of theirs.

mod change;
mod layers;
mod quota_field;

pub use change::{
    ChangeAssociationLimit, ChangeCohortQuota, ChangeNamespaceLabels, ChangeQueueQuota, ChangeResourceQuota,
    RestoreAssociationLimit, RestoreCohortQuota, RestoreNamespaceLabels, RestoreQueueQuota,
    RestoreResourceQuota,
};
pub use layers::{LayerLimits, LimitNames, LimitRestored};

use crate::platform::{CallMetadata, Platform, actions::limits::quota_field::QuotaField, at_cluster, codes};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};

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
    type Output = LayerLimits;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<LayerLimits, ActionError> {
        read_limits(on, &self.of, &CallMetadata::for_action(self, call)).await
    }
}

/// What every layer says of one resource.
///
/// # Errors
/// `object.missing` and the like of the layer that cannot be read.
pub async fn read_limits(
    on: &Platform,
    of: &LimitNames,
    stamp: &CallMetadata,
) -> Result<LayerLimits, ActionError> {
    let mut limits = LayerLimits::default();
    for line in QuotaField::all(of)? {
        let Some(found) = line.read_owned(on, &of.tenant, stamp).await? else { continue };
        limits.note(&line, of, line.value_in(&found.spec))?;
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
    pub limits: LayerLimits,
}

/// The layers were read back, and say what they were set to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitKept {
    /// What was read.
    pub limits: LayerLimits,
}

impl Action for KeepLimits {
    const NAME: &'static str = "KeepLimits";
    type Platform = Platform;
    type Output = LimitKept;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.of.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<LimitKept, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let (mut seen, mut drifted) = (LayerLimits::default(), Vec::new());
        for line in QuotaField::all(&self.of)? {
            let Some(found) = line.read_owned(on, &self.of.tenant, &stamp).await? else { continue };
            let (now, wanted) = (line.value_in(&found.spec), line.desired_value(&self.limits));
            seen.note(&line, &self.of, now.clone())?;
            if now != wanted {
                let part = stamp.for_part(&format!("{}-{}", line.field, call.attempt));
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
