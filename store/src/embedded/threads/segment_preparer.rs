//! The thread that prepares journal files, one at a time.

use crate::embedded::{
    journal::segment::BlankSegment,
    shared::{RunMode, Shared},
};
use std::sync::{Arc, mpsc::SyncSender};

/// Prepares blanks and passes each on; ends when the writer has gone.
pub(crate) fn run(shared: &Arc<Shared>, blanks: &SyncSender<BlankSegment>) {
    let options = &shared.options;
    let mut n = 0_u64;
    let mode_changed = shared.mode_changed.count();
    while shared.run_mode() == RunMode::Run {
        n = n.saturating_add(1);
        let made =
            options.faults.blank().and_then(|()| BlankSegment::make(&shared.dir, n, options.segment_bytes));
        shared.space.note_segment(made.as_ref().map(|_| ()));
        match made {
            Ok(blank) => {
                if let Err(unsent) = blanks.send(blank) {
                    unsent.0.discard();
                    return;
                }
            }
            Err(error) => {
                tracing::error!("no journal file can be made in {}: {error}", shared.dir.display());
                shared.mode_changed.wait(mode_changed, options.tick);
            }
        }
    }
}
