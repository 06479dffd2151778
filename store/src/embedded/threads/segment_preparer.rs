//! The thread that makes journal files ahead of need, one at a time.

use crate::embedded::{
    journal::segment::Blank,
    shared::{Course, Shared},
};
use std::sync::{Arc, mpsc::SyncSender};

/// Makes blanks and hands each over; ends when the writer has gone.
pub(crate) fn run(shared: &Arc<Shared>, blanks: &SyncSender<Blank>) {
    let options = &shared.options;
    let mut n = 0_u64;
    let steered = shared.steered.count();
    while shared.course() == Course::Run {
        n = n.saturating_add(1);
        let made = options.faults.blank().and_then(|()| Blank::make(&shared.dir, n, options.segment_bytes));
        shared.space.note(made.as_ref().map(|_| ()));
        match made {
            Ok(blank) => {
                if let Err(unsent) = blanks.send(blank) {
                    unsent.0.discard();
                    return;
                }
            }
            Err(error) => {
                tracing::error!("no journal file can be made in {}: {error}", shared.dir.display());
                shared.steered.wait(steered, options.tick);
            }
        }
    }
}
