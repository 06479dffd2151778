//! The journal's files: `journal/<first sequence>.log`, filled with zeros in advance and then with frames.
//!
//! Zeros are written, not reserved with `fallocate`: a write into a reserved but unwritten extent changes the file's
//! metadata, and the sync after it pays for that. Header, 64 bytes: `magic u64 | format u32 | zero u32 | first
//! sequence u64 | opens u64 | zeros | crc32c u32`. A segment that begins at sequence *n* voids all commits from *n*
//! on in earlier segments: so a write whose fate is unknown is undone, and a torn tail closed.

use crate::{Sequence, embedded::format::bytes::Cursor};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// `TENURE-J`.
const MAGIC: u64 = u64::from_le_bytes(*b"TENURE-J");
/// 2: frames may be packed. Segments of format 1 are read as they are.
const FORMAT: u32 = 2;
/// Length of a segment's header, in bytes.
pub(crate) const HEADER: usize = 64;

/// The folder of the segments.
pub(crate) fn folder(dir: &Path) -> PathBuf {
    dir.join("journal")
}

pub(crate) fn path(dir: &Path, first: Sequence) -> PathBuf {
    folder(dir).join(format!("{:020}.log", first.0))
}

/// Makes renames and removals in `folder` durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// All segments of the store in `dir`, by the first sequence in their names.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<(Sequence, PathBuf)>> {
    numbered(&folder(dir), "log")
}

/// The files named by a number in `folder`, in the order of the numbers.
pub(crate) fn numbered(folder: &Path, extension: &str) -> io::Result<Vec<(Sequence, PathBuf)>> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if path.extension().is_some_and(|found| found == extension)
            && let Some(first) = stem.and_then(|stem| stem.parse().ok())
        {
            found.push((Sequence(first), path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// A file of zeros that waits to become a segment.
pub(crate) struct BlankSegment {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl BlankSegment {
    /// Writes and syncs `bytes` zeros; `n` distinguishes unused blanks.
    pub(crate) fn make(dir: &Path, n: u64, bytes: u64) -> io::Result<Self> {
        let path = folder(dir).join(format!("{n}.blank"));
        let made = Self::fill(&path, bytes);
        if made.is_err() {
            // The space of a failed attempt must be freed on a full disk.
            let _ = std::fs::remove_file(&path);
        }
        made
    }

    /// Removes the file.
    pub(crate) fn discard(self) {
        // A remaining file is removed on the next opening.
        let _ = std::fs::remove_file(&self.path);
    }

    fn fill(path: &Path, bytes: u64) -> io::Result<Self> {
        // Page by page: longer writes are stored in larger folios of the page cache, and each small commit would make
        // a whole one dirty, which its sync must scan.
        const STEP: usize = 4 << 10;
        let mut file = OpenOptions::new().write(true).read(true).create(true).truncate(true).open(path)?;
        let zeros = vec![0; STEP];
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        while left > 0 {
            let step = left.min(STEP);
            file.write_all(zeros.get(..step).unwrap_or_default())?;
            left = left.saturating_sub(step);
        }
        file.sync_all()?;
        Ok(Self { file, path: path.to_owned(), bytes })
    }
}

/// The segment being written.
pub(crate) struct Segment {
    file: File,
    end: u64,
    bytes: u64,
}

impl Segment {
    /// Turns `blank` into the segment that begins at `first`. Durable when it returns.
    pub(crate) fn begin(blank: BlankSegment, dir: &Path, first: Sequence, opens: u64) -> io::Result<Self> {
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(&MAGIC.to_le_bytes());
        header.extend_from_slice(&FORMAT.to_le_bytes());
        header.extend_from_slice(&[0; 4]);
        header.extend_from_slice(&first.0.to_le_bytes());
        header.extend_from_slice(&opens.to_le_bytes());
        header.resize(HEADER - 4, 0);
        let crc = crc32c::crc32c(&header);
        header.extend_from_slice(&crc.to_le_bytes());
        blank.file.write_all_at(&header, 0)?;
        blank.file.sync_data()?;
        std::fs::rename(&blank.path, path(dir, first))?;
        sync_folder(&folder(dir))?;
        Ok(Self { file: blank.file, end: HEADER as u64, bytes: blank.bytes })
    }

    /// Returns true if `bytes` more fit into the prepared space.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.end.saturating_add(bytes as u64) <= self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.end == HEADER as u64
    }

    /// Appends `frame` with one write. Only a frame longer than a segment grows the file.
    pub(crate) fn append(&mut self, frame: &[u8]) -> io::Result<()> {
        self.file.write_all_at(frame, self.end)?;
        self.end = self.end.saturating_add(frame.len() as u64);
        Ok(())
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Removes unused zeros from segments that are complete. Each is given with the length of its content.
pub(crate) fn trim(surplus: &[(PathBuf, u64)]) -> io::Result<()> {
    surplus.iter().try_for_each(|(path, content)| {
        OpenOptions::new().write(true).open(path)?.set_len((*content).max(HEADER as u64))
    })
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) first: Sequence,
    pub(crate) opens: u64,
}

/// Why a header could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// It is incomplete.
    Damaged,
    /// It is complete and of a format that this version does not know.
    Newer(u32),
}

impl Header {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, HeaderError> {
        Self::parse(bytes).unwrap_or(Err(HeaderError::Damaged))
    }

    fn parse(bytes: &[u8]) -> Option<Result<Self, HeaderError>> {
        let header = bytes.get(..HEADER)?;
        let (content, crc) = header.split_last_chunk::<4>()?;
        let mut cursor = Cursor::new(content);
        let (magic, format, _) = (cursor.u64()?, cursor.u32()?, cursor.u32()?);
        if magic != MAGIC || crc32c::crc32c(content) != u32::from_le_bytes(*crc) {
            return None;
        }
        if format == 0 || format > FORMAT {
            return Some(Err(HeaderError::Newer(format)));
        }
        Some(Ok(Self { first: Sequence(cursor.u64()?), opens: cursor.u64()? }))
    }
}
