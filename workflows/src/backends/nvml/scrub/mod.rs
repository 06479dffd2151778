//! Clearing a GPU's memory: nearly all of it is taken, looked at, filled with a pattern, read back, and left zero.
//!
//! It claims what it saw and no more: the bytes that it wrote and read back. What it could not take, the driver or another process
//! has, and was not cleared. Every 2 MiB have a pattern of their own, so that memory that answers for other memory is found out.

mod cuda;

use super::fault::{Fault, Kind};
use cuda::{Context, Cuda, Memory};
use engine::Stopwatch;
use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// What has one pattern, and is read back at once.
const BLOCK: usize = 2 << 20;
/// The most that is taken in one piece.
const PIECE: usize = 1 << 30;
/// What is looked at of each block before it is filled.
const SAMPLE: usize = 4 << 10;

/// What a scrub did and saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrub {
    /// The GPU's UUID.
    pub uuid: String,
    /// Which CUDA the driver speaks: 12080 is 12.8.
    pub cuda: i32,
    /// All memory, in bytes.
    pub bytes_total: u64,
    /// Bytes that were written and read back.
    pub bytes_covered: u64,
    /// Samples of 4 KiB, one of every 2 MiB, that were not zero before.
    pub leftovers: u64,
    /// Bytes that read back differently from what was written.
    pub mismatches: u64,
    /// How long it took.
    pub took: Duration,
}

impl Scrub {
    /// Share of all memory that was covered, in thousandths of a percent.
    #[must_use]
    pub fn coverage(&self) -> u64 {
        self.bytes_covered.saturating_mul(100_000).checked_div(self.bytes_total).unwrap_or(0)
    }
}

/// Clears the memory of a GPU that has `bytes` of it by NVML.
pub(super) fn scrub(library: &Path, uuid: &str, bytes: u64, stop: &AtomicBool) -> Result<Scrub, Fault> {
    let watch = Stopwatch::start();
    let cuda = Cuda::load(library)?;
    let version = cuda.version()?;
    let context = cuda.context(uuid)?;
    let (free, total) = context.memory()?;
    let pieces = take(&context, free)?;
    let work = Work { context: &context, pieces: &pieces, seed: fastrand::u64(..), stop };
    let leftovers = work.look()?;
    work.fill(true)?;
    let (covered, mismatches) = work.verify()?;
    // So that whoever has it next, and the next look at it, finds nothing.
    work.fill(false)?;
    Ok(Scrub {
        uuid: uuid.to_owned(),
        cuda: version,
        bytes_total: bytes.max(total as u64),
        bytes_covered: covered,
        leftovers,
        mismatches,
        took: watch.elapsed(),
    })
}

/// Takes as much memory as there is, in pieces that get smaller.
fn take<'a>(context: &Context<'a>, free: usize) -> Result<Vec<Memory<'a>>, Fault> {
    let (mut pieces, mut left, mut size) = (Vec::new(), free, PIECE.min(free) / BLOCK * BLOCK);
    while size >= BLOCK {
        if size > left {
            size = left / BLOCK * BLOCK;
            continue;
        }
        match context.take(size)? {
            Some(piece) => {
                left -= size;
                pieces.push(piece);
            }
            None => size = size / 2 / BLOCK * BLOCK,
        }
    }
    Ok(pieces)
}

struct Work<'a> {
    context: &'a Context<'a>,
    pieces: &'a [Memory<'a>],
    seed: u64,
    stop: &'a AtomicBool,
}

impl Work<'_> {
    /// Every block by its piece and place, as long as the caller is there.
    fn each(&self, mut act: impl FnMut(&Memory<'_>, usize) -> Result<(), Fault>) -> Result<(), Fault> {
        for piece in self.pieces {
            for offset in (0..piece.bytes).step_by(BLOCK) {
                if self.stop.load(Ordering::SeqCst) {
                    return Err(Fault::new("scrub", Kind::Stopped, "the caller went away"));
                }
                act(piece, offset)?;
            }
        }
        self.context.settle()
    }

    /// The pattern of a block: never zero, and another one for each.
    fn word(&self, piece: &Memory<'_>, offset: usize) -> u32 {
        let block = (piece.address + offset as u64) / BLOCK as u64;
        let mixed = (self.seed ^ block).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 32) as u32) | 1
    }

    /// How many samples are not zero.
    fn look(&self) -> Result<u64, Fault> {
        let (mut found, mut sample) = (0, vec![0; SAMPLE]);
        self.each(|piece, offset| {
            let within = self.word(piece, offset) as usize % (BLOCK / SAMPLE) * SAMPLE;
            piece.read(offset + within, &mut sample)?;
            found += u64::from(sample.iter().any(|byte| *byte != 0));
            Ok(())
        })?;
        Ok(found)
    }

    fn fill(&self, pattern: bool) -> Result<(), Fault> {
        self.each(|piece, offset| {
            piece.fill(offset, BLOCK, if pattern { self.word(piece, offset) } else { 0 })
        })
    }

    /// Bytes that were read back, and those that differ.
    fn verify(&self) -> Result<(u64, u64), Fault> {
        let (mut covered, mut differ, mut buffer) = (0, 0, vec![0; BLOCK]);
        self.each(|piece, offset| {
            let word = self.word(piece, offset).to_le_bytes();
            piece.read(offset, &mut buffer)?;
            covered += BLOCK as u64;
            for read in buffer.chunks_exact(word.len()).filter(|read| **read != word) {
                differ += read.iter().zip(word).filter(|(read, written)| **read != *written).count() as u64;
            }
            Ok(())
        })?;
        Ok((covered, differ))
    }
}
