//! The audit: a chain of sealed entries for each tenant, and a chain of signed checkpoints over their heads. Any later change of a byte is detected.
//!
//! The [`Auditor`] follows the journal of all executions in the order of commits, and executions never wait for it. `docs/audit.md` describes the
//! format and the limits of its proof; ADR 0009 has the reasons. Invariant: each entry is sealed once and in order, because the sealing commit moves
//! the cursor.

mod auditor;
mod chain;
mod checkpoint;
mod denial;
mod entry;
mod event_text;
mod export;
mod export_line;
mod listing;
mod render;
mod sentence;
#[cfg(test)]
mod tests;
mod verify;
mod whereabouts;

pub use auditor::{Auditor, Lag, Pace};
pub use chain::{ChainHead, Cursor, PLATFORM, SealedHead, cursor, entries, head};
pub use checkpoint::{Checkpoint, SealedCheckpoint, checkpoints};
pub use denial::{Denial, Denied};
pub use entry::{ActorKind, Approver, Consent, EffectivePlan, Entry, JournalRef, PlanSource};
pub use export::{MOST_ENTRIES, Period, export};
pub use export_line::{End, Header};
pub use listing::{JournalPlace, newest_first};
pub use verify::{Problem, Verification, verify};
