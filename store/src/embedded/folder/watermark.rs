//! The watermark `HEAD`: the last acknowledged commit, rewritten in place about once a second and on closing.
//!
//! It is never ahead of durable commits and may be behind. So it can prove that commits are missing, but never that
//! none are. 32 bytes: `magic u32 | crc32c u32 (of what follows) | sequence u64 | opens u64 | zeros`.

use crate::{Sequence, embedded::format::bytes::Cursor};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

/// `TNHD`.
const MAGIC: u32 = 0x4448_4E54;

/// The content of the hint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watermark {
    pub(crate) sequence: Sequence,
    pub(crate) opens: u64,
}

impl Watermark {
    /// Reads the hint in `dir`. Returns `None` if it is missing or damaged.
    pub(crate) fn read(dir: &Path) -> Option<Self> {
        let bytes = std::fs::read(dir.join("HEAD")).ok()?;
        let mut cursor = Cursor::new(bytes.get(..32)?);
        let (magic, crc) = (cursor.u32()?, cursor.u32()?);
        let whole = magic == MAGIC && crc32c::crc32c(bytes.get(8..32)?) == crc;
        whole.then_some(Self { sequence: Sequence(cursor.u64()?), opens: cursor.u64()? })
    }
}

/// The open hint file.
pub(crate) struct Writer(File);

impl Writer {
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(dir.join("HEAD"))?;
        Ok(Self(file))
    }

    pub(crate) fn write(&self, head: Watermark) -> io::Result<()> {
        let mut content = Vec::with_capacity(24);
        content.extend_from_slice(&head.sequence.0.to_le_bytes());
        content.extend_from_slice(&head.opens.to_le_bytes());
        content.extend_from_slice(&[0; 8]);
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend_from_slice(&crc32c::crc32c(&content).to_le_bytes());
        bytes.extend_from_slice(&content);
        self.0.write_all_at(&bytes, 0)?;
        self.0.set_len(32)
    }
}
