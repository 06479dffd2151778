//! Who did what, sealed so that a later change of any byte shows: a chain of entries per tenant, and a chain of signed
//! checkpoints over the heads of those.
//!
//! The [`Auditor`] follows the journal of all executions in the order of commits; executions never wait for it. The format,
//! and what it proves and what not, is told in `docs/audit.md`; the reasons are in ADR 0009. Invariant: an entry is sealed
//! once and in its order, since the cursor moves in the commit that seals.

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
