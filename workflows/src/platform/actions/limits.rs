//! Reads, changes and checks a workspace's limits in every layer of the platform, one layer at a time.
//!
//! Each change compares and writes in one call, so that it never overwrites a value that another client has set since the read. An undo restores the
//! value that was read, but only while the value set by the change is in effect. A cohort's `quotas` are only a record. Kueue sums up the queues of a
//! cohort, and would add a nominal quota of the cohort to that sum.

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

/// Reads one limit in every layer, so that a change can be undone.
///
/// Safe to run twice: it changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadLimits {
    /// The limit, by its name in each layer.
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

/// Returns the value of one limit in every layer.
///
/// # Errors
/// Fails with the error of a layer that cannot be read, such as `object.missing`.
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

/// Checks that every layer has its value, and sets the values that differ.
///
/// Safe to run twice: correct values are left unchanged. After a repair it fails with `quota.drifted`, which is transient, so that the value is
/// checked again. The step's retry policy limits the number of checks. It has no undo; the steps that changed the layers have theirs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeepLimits {
    /// The limit, by its name in each layer.
    pub of: LimitNames,
    /// The expected values.
    pub limits: LayerLimits,
}

/// Result of a check: every layer has its expected value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitKept {
    /// The values that were read.
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
                drifted.push(format!("{} had {now}, and was set to {wanted} again", line.name()));
            }
        }
        if drifted.is_empty() {
            return Ok(LimitKept { limits: seen });
        }
        Err(ActionError::transient(codes::QUOTA_DRIFTED, drifted.join("; ")))
    }
}
