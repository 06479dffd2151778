//! The common steps of both quota workflows, from data that their plans and steps share.

use super::{ChangeTerms, QuotaRequest, layer_names};
use crate::{
    onboarding::{Waits, default_seats},
    platform::{
        ChangeAssociationLimit, ChangeCohortQuota, ChangeQueueQuota, ChangeResourceQuota, KeepLimits,
        LayerLimits, LimitNames,
    },
    tenancy::Allowance,
};
use engine::{Procedure, Rule, Seat};

/// The data of a change. Without terms, its steps are empty.
pub(crate) struct LayerSteps<'a> {
    pub(crate) request: &'a QuotaRequest,
    pub(crate) terms: Option<&'a ChangeTerms>,
    /// The previous values of the layers.
    pub(crate) read: &'a LayerLimits,
}

impl LayerSteps<'_> {
    /// The rule that replaces an approval.
    pub(crate) fn rule(&self) -> Rule {
        let none = || Rule { name: String::new(), version: String::new() };
        self.terms.map_or_else(none, |terms| Rule {
            name: format!("{}/{}", terms.policy.name, terms.waived.as_deref().unwrap_or_default()),
            version: format!("{} {}", terms.policy.version, terms.policy.digest),
        })
    }

    pub(crate) fn waived(&self) -> bool {
        self.terms.is_some_and(|terms| terms.waived.is_some())
    }

    pub(crate) fn seats(&self) -> Vec<Seat> {
        self.terms.map_or_else(default_seats, |terms| terms.seats.clone())
    }

    pub(crate) fn patience_seats(&self) -> Vec<Seat> {
        self.terms.map_or_else(default_seats, |terms| terms.patience_seats.clone())
    }

    pub(crate) fn procedure(&self) -> Procedure {
        self.terms.map(|terms| terms.procedure.clone()).unwrap_or_default()
    }

    pub(crate) fn waits(&self) -> Waits {
        self.terms
            .map_or_else(Waits::default, |terms| Waits::new(terms.approve_within, terms.wait, terms.patience))
    }

    /// The allowance before and after.
    pub(crate) fn allowances(&self) -> (Allowance, Allowance) {
        self.terms.map_or_else(Default::default, |terms| (terms.before, terms.after))
    }

    pub(crate) fn names(&self) -> LimitNames {
        let request = self.request;
        self.terms.map_or_else(LimitNames::default, |terms| {
            layer_names(&terms.cluster, terms.kind, &request.tenant, &request.workspace, &request.resource)
        })
    }

    /// The required values of the layers.
    pub(crate) fn target_limits(&self) -> LayerLimits {
        let limits = |terms: &ChangeTerms| terms.limits(&self.request.resource, &terms.after);
        self.terms.map(limits).unwrap_or_default()
    }

    pub(crate) fn cohort(&self) -> Vec<ChangeCohortQuota> {
        let (of, from, to) = (self.names(), self.read.cohort, self.target_limits().cohort);
        let change = of.cohort.is_some().then_some(ChangeCohortQuota { of, from, to });
        change.into_iter().collect()
    }

    pub(crate) fn queue(&self) -> Vec<ChangeQueueQuota> {
        let (of, from, to) = (self.names(), self.read.queue.clone(), self.target_limits().queue);
        let change = of.queue.is_some().then_some(ChangeQueueQuota { of, from, to });
        change.into_iter().collect()
    }

    pub(crate) fn hard(&self) -> Vec<ChangeResourceQuota> {
        let (of, from, to) = (self.names(), self.read.hard, self.target_limits().hard);
        let change = of.hard.is_some().then_some(ChangeResourceQuota { of, from, to });
        change.into_iter().collect()
    }

    /// The change of the association on Slurm, where it is the only layer.
    pub(crate) fn association(&self) -> Option<ChangeAssociationLimit> {
        let (of, from, to) = (self.names(), self.read.association, self.target_limits().association);
        of.association.is_some().then_some(ChangeAssociationLimit { of, from, to })
    }

    pub(crate) fn keeping(&self) -> KeepLimits {
        KeepLimits { of: self.names(), limits: self.target_limits() }
    }
}
