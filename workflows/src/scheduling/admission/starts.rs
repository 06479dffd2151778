//! Requests the start of each admitted workload in the commit that admits it.

use crate::{
    scheduling::admission::unit_of_work::AdmissionTx,
    tenancy::Admission,
    workload_start::{SYSTEM_ACTOR, WorkloadStart},
};
use engine::{Undecided, View};

impl AdmissionTx {
    /// Records the admission of a workload, so that the commit requests its start.
    pub(super) fn note_start(&mut self, admission: &Admission) {
        let decision = Admission::key(&self.tenant.id, admission.number);
        let start = WorkloadStart::new(self.tenant.id.clone(), admission.workload.clone(), decision);
        self.effects.starts.push(start);
    }

    /// Requests the start of each admitted workload, except of the workload that the caller starts itself.
    pub(super) fn ask_for_starts(&mut self, view: &mut View) -> Result<(), Undecided> {
        for start in std::mem::take(&mut self.effects.starts) {
            view.start(&start, SYSTEM_ACTOR, &start.key())?;
        }
        Ok(())
    }
}
