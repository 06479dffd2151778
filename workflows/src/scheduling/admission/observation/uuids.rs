//! Follows barred GPUs by the UUIDs in observations.

use crate::{
    scheduling::admission::unit_of_work::AdmissionTx,
    tenancy::{NodeUse, SeenGpu, SeenWorkload, UuidsByNode},
};
use engine::{Undecided, View};

impl AdmissionTx {
    /// Moves the bars of GPUs that were observed at other indexes. Skips nodes without such bars.
    pub(super) fn follow_bars(&mut self, view: &mut View, running: &[SeenWorkload]) -> Result<(), Undecided> {
        let mut seen = UuidsByNode::new();
        for fact in running {
            let named = fact.gpus.iter().filter_map(SeenGpu::whole);
            seen.entry(fact.node.clone()).or_default().extend(named);
        }
        seen.retain(|_, uuids| !uuids.is_empty());
        view.prefetch::<NodeUse>(seen.keys().map(ToString::to_string))?;
        let mut moved = Vec::new();
        for (id, uuids) in &seen {
            if self.node(view, id)?.is_none_or(|node| node.bars.knows(uuids)) {
                continue;
            }
            self.change_node(view, id, |node| node.observe_uuids(uuids))?;
            moved.push(id.clone());
        }
        // An earmark on a GPU that is now barred moves to another GPU.
        if moved.is_empty() { Ok(()) } else { self.drop_earmarks(view, &moved) }
    }
}
