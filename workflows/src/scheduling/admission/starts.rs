//! Each admission asks for the start of its workload in its own commit, whichever change of the books admitted it.

use crate::{
    scheduling::admission::unit_of_work::AdmissionTx,
    tenancy::Admission,
    workload_start::{SYSTEM_ACTOR, WorkloadStart},
};
use engine::{Undecided, View};

impl AdmissionTx {
    /// Notes that a workload was admitted by `admission`, so that the commit asks for its start.
    pub(super) fn note_start(&mut self, admission: &Admission) {
        let decision = Admission::key(&self.tenant.id, admission.number);
        let start = WorkloadStart::new(self.tenant.id.clone(), admission.workload.clone(), decision);
        self.effects.starts.push(start);
    }

    /// Asks for the start of each workload that was admitted, except of the one that the caller starts itself.
    pub(super) fn ask_for_starts(&mut self, view: &mut View) -> Result<(), Undecided> {
        for start in std::mem::take(&mut self.effects.starts) {
            view.start(&start, SYSTEM_ACTOR, &start.key())?;
        }
        Ok(())
    }
}
