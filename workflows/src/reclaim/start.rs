//! The start of the demand's workload: confirmed after the grant, then sent to its cluster.

use super::{Reclaim, ReclaimCause};
use crate::{
    platform::StartWorkload,
    workload_start::{ConfirmAdmission, RecordFailedStart, StartProblem},
};

impl Reclaim {
    fn demand(&self) -> &str {
        match &self.cause {
            ReclaimCause::Demand { workload, .. } => workload,
            ReclaimCause::Overdue | ReclaimCause::Excess { .. } => "",
        }
    }

    /// Returns the check that the grant still holds, which also returns the current start command. `None` for a grant without an admission.
    pub(super) fn confirmation(&self) -> Option<ConfirmAdmission> {
        let decision = self.grant.as_ref()?.decision.clone()?;
        Some(ConfirmAdmission { tenant: self.tenant.clone(), workload: self.demand().to_owned(), decision })
    }

    pub(super) fn confirmed(&mut self, start: Option<StartWorkload>) {
        if let Some(grant) = &mut self.grant {
            grant.start = start;
        }
    }

    pub(super) fn starts(&self) -> Vec<StartWorkload> {
        self.grant.iter().filter_map(|grant| grant.start.clone()).collect()
    }

    pub(super) fn not_started(&self, problem: StartProblem) -> RecordFailedStart {
        let workload = self.demand().to_owned();
        let decision = self.grant.as_ref().and_then(|grant| grant.decision.clone());
        RecordFailedStart { tenant: self.tenant.clone(), workload, decision, problem }
    }
}
