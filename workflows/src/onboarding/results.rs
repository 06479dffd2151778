//! Records the results of an onboarding's actions, and evaluates conditions on its data.

use super::Onboarding;
use crate::{
    ledger::{NodeClaim, RequestEvaluation, node_preparation::NodePreparation},
    placement::{CapacityShortage, Placement},
    platform::QualifyFinding,
    policy::Reason,
    tenancy::NodeId,
};

impl Onboarding {
    /// Records the result of `Evaluating`. The reasons for excluded clusters are in the decision, not here.
    pub(super) fn evaluated(&mut self, evaluated: RequestEvaluation) {
        let RequestEvaluation { verdict, reasons, terms, proposal, short } = evaluated;
        self.verdict = Some(verdict);
        self.reasons = reasons.into_iter().filter(Reason::counts).collect();
        self.terms = terms;
        self.proposal = proposal.map(|placement| Placement { considered: Vec::new(), ..placement });
        self.short = short.map(|short| CapacityShortage { considered: Vec::new(), ..short });
    }

    /// Records the claim. New nodes in it still need preparation.
    pub(super) fn claimed(&mut self, claim: NodeClaim) {
        self.fresh = NodePreparation::newly_claimed(self.claim.as_ref(), &claim);
        self.layouts.clear();
        self.claim = Some(claim);
    }

    pub(super) fn qualified(&mut self, found: QualifyFinding) {
        let unfit = self.new_nodes().unfit(&found);
        self.unfit.extend(unfit);
    }

    pub(super) fn quarantined(&mut self, all: Vec<NodeId>) {
        self.quarantined = all;
        self.unfit.clear();
    }

    pub(super) fn rejected(&self) -> bool {
        self.terms.is_none()
    }

    pub(super) fn waived(&self) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.waived)
    }

    /// Returns true if policy allows the replacement of this number of unfit nodes.
    pub(super) fn replaceable(&self) -> bool {
        let most = self.terms.as_ref().map_or(0, |terms| terms.max_replacements);
        u32::try_from(self.quarantined.len()).is_ok_and(|unfit| unfit <= most)
    }
}
