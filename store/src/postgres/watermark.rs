//! What this machine has seen of a database, kept beside it: a database that was set back cannot tell that it was.
//!
//! The file holds one line, `LINEAGE SEQUENCE`. It is a little behind, and never ahead; without it nothing is noticed.

use super::Shared;
use crate::Sequence;
use std::{fs, io, path::Path, sync::atomic::Ordering};
use uuid::Uuid;

/// The last commit of the history `lineage` that was seen here.
pub(super) fn read(file: &Path, lineage: Uuid) -> Sequence {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut words = text.split_whitespace();
    let of = words.next().and_then(|word| word.parse::<Uuid>().ok());
    let sequence = words.next().and_then(|word| word.parse().ok());
    match (of, sequence) {
        (Some(of), Some(sequence)) if of == lineage => Sequence(sequence),
        _ => Sequence(0),
    }
}

pub(super) fn write(file: &Path, lineage: Uuid, sequence: Sequence) -> io::Result<()> {
    let temporary = file.with_extension("partial");
    fs::write(&temporary, format!("{lineage} {}\n", sequence.0))?;
    fs::rename(temporary, file)
}

impl Shared {
    /// Begins with what was seen here before.
    pub(super) fn recall(&self) {
        if let Some(file) = &self.options.witness {
            self.saw(read(file, self.lineage));
        }
    }

    /// Keeps what was seen.
    pub(super) fn remember(&self) {
        let seen = Sequence(self.seen.load(Ordering::Acquire));
        if let Some(file) = &self.options.witness
            && let Err(error) = write(file, self.lineage, seen)
        {
            tracing::warn!(%error, file = %file.display(), "what was seen of the database is not kept; if it is set back, nobody here notices");
        }
    }
}
