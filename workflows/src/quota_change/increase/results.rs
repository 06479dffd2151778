//! Records the results of an increase's actions, and evaluates conditions on its data.

use super::QuotaIncrease;
use crate::{
    ledger::{NodeClaim, node_preparation::NodePreparation},
    platform::QualifyFinding,
    policy::Reason,
    quota_change::ChangeEvaluation,
};

impl QuotaIncrease {
    pub(super) fn evaluated(&mut self, evaluation: ChangeEvaluation) {
        let ChangeEvaluation { verdict, reasons, terms } = evaluation;
        self.verdict = Some(verdict);
        self.reasons = reasons.into_iter().filter(Reason::counts).collect();
        self.terms = terms;
    }

    /// Records the reserved nodes. New nodes among them still need preparation.
    pub(super) fn record_hold(&mut self, claim: Option<NodeClaim>) {
        let new = claim.as_ref().map(|claim| NodePreparation::newly_claimed(self.claim.as_ref(), claim));
        self.fresh = new.unwrap_or_default();
        self.layouts.clear();
        self.claim = claim;
    }

    pub(super) fn qualified(&mut self, found: QualifyFinding) {
        let unfit = self.new_nodes().unfit(&found);
        self.unfit.extend(unfit);
    }

    pub(super) fn quarantined(&mut self) {
        let unfit = u32::try_from(self.unfit.len()).unwrap_or(u32::MAX);
        self.quarantined = self.quarantined.saturating_add(unfit);
        self.unfit.clear();
    }

    pub(super) fn rejected(&self) -> bool {
        self.terms.is_none()
    }

    /// Returns true if policy allows the replacement of this number of unfit nodes.
    pub(super) fn replaceable(&self) -> bool {
        self.quarantined <= self.terms.as_ref().map_or(0, |terms| terms.max_replacements)
    }
}
