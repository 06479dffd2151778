//! Reads the journal back: finds its complete commits and its damage.

use super::{
    frame::{self, Frame},
    segment::{self, HeaderError},
};
use crate::{Error, Sequence};
use std::{
    fmt,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

/// A stretch of the journal that cannot be read although readable bytes follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    /// The first commit that is affected.
    pub(crate) from: Sequence,
    /// The first commit that is not.
    pub(crate) to: Sequence,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, offset, from, to } = self;
        let last = to.0.saturating_sub(1);
        write!(
            f,
            "{} is damaged at byte {offset}: commits {} to {last} cannot be read there",
            path.display(),
            from.0
        )
    }
}

/// The content of the whole journal.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The first sequence that any segment covers; `None` if there is no segment.
    pub(crate) begins: Option<Sequence>,
    /// The last commit that can be read.
    pub(crate) last: Sequence,
    /// Frames that can be read.
    pub(crate) frames: u64,
    /// Commits in them.
    pub(crate) commits: u64,
    /// The greatest count of openings in a segment's header.
    pub(crate) opens: u64,
    /// The gaps between commits.
    pub(crate) damage: Vec<Damage>,
    /// Bytes that are not zero behind the last readable frame, and where they begin.
    pub(crate) torn: Option<(PathBuf, u64, u64)>,
    /// Segments whose header is damaged; their frames are read anyway.
    pub(crate) headers: Vec<PathBuf>,
    /// How many segments there are.
    pub(crate) segments: usize,
    /// Segments that end in unused zeros, each with the length of its content.
    pub(crate) surplus: Vec<(PathBuf, u64)>,
    /// The bytes of frames, in parts: each with the last commit in it.
    parts: Vec<(Sequence, u64)>,
}

/// The shortest part of [`Survey::bytes_after`], in bytes.
const PART: u64 = 64 << 10;

impl Survey {
    /// How many bytes of frames the journal has behind `applied`. Up to 64 KiB at or before it may be counted too.
    pub(crate) fn bytes_after(&self, applied: Sequence) -> u64 {
        self.parts
            .iter()
            .filter(|(last, _)| *last > applied)
            .fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    fn note_surplus(&mut self, path: &Path, window: &Window, end: usize) {
        if end < window.len {
            self.surplus.push((path.to_owned(), end as u64));
        }
    }

    fn add_bytes(&mut self, last: Sequence, more: u64) {
        match self.parts.last_mut() {
            Some((upto, bytes)) if *bytes < PART => (*upto, *bytes) = (last, bytes.saturating_add(more)),
            Some(_) | None => self.parts.push((last, more)),
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::Unavailable { why: format!("cannot read {}: {error}", path.display()) }
}

/// Reads every segment once and passes each complete, valid frame to `visit`, in order.
pub(crate) fn survey(dir: &Path, mut visit: impl FnMut(Frame) -> Result<(), Error>) -> Result<Survey, Error> {
    let folder = segment::folder(dir);
    let segments = segment::list(dir).map_err(|error| unreadable(&folder, &error))?;
    let mut survey = Survey {
        begins: segments.first().map(|(first, _)| *first),
        segments: segments.len(),
        ..Survey::default()
    };
    let mut expected = survey.begins.unwrap_or(Sequence(1));
    for (at, (first, path)) in segments.iter().enumerate() {
        let mut window = Window::open(path).map_err(|error| unreadable(path, &error))?;
        let header = window.bytes_at(0, segment::HEADER).map_err(|error| unreadable(path, &error))?;
        read_header(&mut survey, header, *first, path)?;
        if *first > expected {
            // The segment before ended early, for an unknown reason.
            let before =
                segments.get(at.saturating_sub(1)).map_or_else(|| path.clone(), |(_, path)| path.clone());
            let (path, offset) = survey.torn.take().map_or((before, 0), |(path, offset, _)| (path, offset));
            survey.damage.push(Damage { path, offset, from: expected, to: *first });
        }
        survey.torn = None;
        expected = *first;
        let void_from = segments.iter().skip(at.saturating_add(1)).map(|(first, _)| *first).min();
        expected = scan(&mut survey, path, &mut window, expected, void_from, &mut visit)?;
    }
    survey.last = Sequence(expected.0.saturating_sub(1));
    Ok(survey)
}

fn read_header(survey: &mut Survey, bytes: &[u8], first: Sequence, path: &Path) -> Result<(), Error> {
    match segment::Header::read(bytes) {
        Ok(header) if header.first == first => survey.opens = survey.opens.max(header.opens),
        Ok(header) => {
            return Err(Error::Refused {
                why: format!(
                    "{} begins at commit {}: it was renamed; give it back its name {:020}.log",
                    path.display(),
                    header.first.0,
                    header.first.0
                ),
            });
        }
        Err(HeaderError::Damaged) => survey.headers.push(path.to_owned()),
        Err(HeaderError::Newer(format)) => {
            return Err(Error::Refused {
                why: format!(
                    "{} has format {format}: it was written by a newer version of Tenure; use that version, or import \
                     its export",
                    path.display()
                ),
            });
        }
    }
    Ok(())
}

/// Reads one segment and returns the sequence expected after it.
fn scan(
    survey: &mut Survey,
    path: &Path,
    window: &mut Window,
    mut expected: Sequence,
    void_from: Option<Sequence>,
    visit: &mut impl FnMut(Frame) -> Result<(), Error>,
) -> Result<Sequence, Error> {
    let failed = |error: io::Error| unreadable(path, &error);
    let mut offset = segment::HEADER;
    loop {
        if void_from.is_some_and(|void| expected >= void) {
            let end = window.content_end(offset).map_err(failed)?.unwrap_or(offset);
            survey.note_surplus(path, window, end);
            return Ok(expected);
        }
        let mut found = window.frame_at(offset, expected).map_err(failed)?;
        if found.is_none() {
            found = window.search(offset, expected).map_err(failed)?;
        }
        let Some((at, frame)) = found else { break };
        let header = frame.header;
        if void_from.is_some_and(|void| header.first >= void) {
            break;
        }
        if header.first > expected {
            let (path, offset) = (path.to_owned(), offset as u64);
            survey.damage.push(Damage { path, offset, from: expected, to: header.first });
        }
        survey.frames = survey.frames.saturating_add(1);
        survey.commits = survey.commits.saturating_add(u64::from(header.commits));
        survey.add_bytes(header.last(), header.frame_bytes() as u64);
        expected = Sequence(header.last().0.saturating_add(1));
        offset = at.saturating_add(header.frame_bytes());
        visit(frame)?;
    }
    let end = window.content_end(offset).map_err(failed)?;
    survey.note_surplus(path, window, end.unwrap_or(offset));
    if let Some(end) = end {
        survey.torn = Some((path.to_owned(), offset as u64, end as u64));
    }
    Ok(expected)
}

/// How much of a file is in memory at once, unless one frame is longer.
const WINDOW: usize = 256 << 10;

/// A file of which a part is in memory.
struct Window {
    file: File,
    len: usize,
    /// Where `bytes` begins in the file.
    start: usize,
    bytes: Vec<u8>,
}

impl Window {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        Ok(Self { file, len, start: 0, bytes: Vec::new() })
    }

    /// Up to `wanted` bytes from `offset` on; fewer at the end of the file.
    fn bytes_at(&mut self, offset: usize, wanted: usize) -> io::Result<&[u8]> {
        let end = offset.saturating_add(wanted).min(self.len);
        if offset < self.start || end > self.start.saturating_add(self.bytes.len()) {
            let take = wanted.max(WINDOW).min(self.len.saturating_sub(offset));
            self.bytes.clear();
            self.bytes.resize(take, 0);
            self.start = offset;
            self.file.read_exact_at(&mut self.bytes, offset as u64)?;
        }
        let from = offset.saturating_sub(self.start);
        let to = end.saturating_sub(self.start).max(from);
        Ok(self.bytes.get(from..to).unwrap_or_default())
    }

    /// Returns the complete frame at `offset`, if its commits are not older than `expected`.
    fn frame_at(&mut self, offset: usize, expected: Sequence) -> io::Result<Option<(usize, Frame)>> {
        let Some(header) = frame::Header::read(self.bytes_at(offset, frame::HEADER)?) else {
            return Ok(None);
        };
        if header.first < expected || header.commits == 0 {
            return Ok(None);
        }
        let length = frame::HEADER.saturating_add(header.payload);
        if length > self.len.saturating_sub(offset) {
            return Ok(None);
        }
        let bytes = self.bytes_at(offset, length)?.to_vec();
        Ok(Frame::new(bytes).map(|frame| (offset, frame)))
    }

    /// Returns the first complete frame behind `offset`: its existence distinguishes damage from the end.
    fn search(&mut self, offset: usize, expected: Sequence) -> io::Result<Option<(usize, Frame)>> {
        let last = self.len.saturating_sub(frame::HEADER);
        for at in (offset.saturating_add(8)..=last).step_by(8) {
            let found = self.frame_at(at, expected)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Where the last byte that is not zero ends, behind `offset`.
    fn content_end(&mut self, offset: usize) -> io::Result<Option<usize>> {
        let (mut at, mut end) = (offset, None);
        while at < self.len {
            let part = self.bytes_at(at, WINDOW)?;
            end = part.iter().rposition(|byte| *byte != 0).map(|last| at + last + 1).or(end);
            at += part.len().max(1);
        }
        Ok(end)
    }
}
