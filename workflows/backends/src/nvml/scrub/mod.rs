//! Clears a GPU's memory: allocates nearly all of it, samples it, fills it with a pattern, reads it back, and leaves it
//! zero.
//!
//! The result counts only bytes that were written and read back. Memory held by the driver or another process is not
//! cleared. Every block of 2 MiB has its own pattern, so that aliased memory is detected.

mod cuda;

use crate::nvml::error::{Fault, Kind};
use cuda::{Context, Cuda, Memory};
use engine::Stopwatch;
use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// The size of a block with one pattern, in bytes.
const BLOCK: usize = 2 << 20;
/// The number of bytes that are read back at once. On an H200, reading single blocks is a fifth slower, and 64 MiB are
/// no faster.
const WINDOW: usize = 8 * BLOCK;
/// The largest single allocation, in bytes.
const PIECE: usize = 1 << 30;
/// The number of bytes per block that are sampled before it is filled.
const SAMPLE: usize = 4 << 10;

/// The result of a scrub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrub {
    /// The GPU's UUID.
    pub uuid: String,
    /// The CUDA version of the driver: 12080 is 12.8.
    pub cuda: i32,
    /// Total memory, in bytes.
    pub bytes_total: u64,
    /// Bytes that were written and read back.
    pub bytes_covered: u64,
    /// Samples of 4 KiB, one per 2 MiB, that were not zero before the scrub.
    pub leftovers: u64,
    /// Bytes that differ from the written pattern.
    pub mismatches: u64,
    /// The duration of the scrub.
    pub took: Duration,
}

impl Scrub {
    /// Returns the covered share of the memory, in thousandths of a percent.
    #[must_use]
    pub fn coverage(&self) -> u64 {
        self.bytes_covered.saturating_mul(100_000).checked_div(self.bytes_total).unwrap_or(0)
    }
}

/// Clears the memory of a GPU. `bytes` is its memory as NVML reports it.
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
    // Leaves zeros for the next user of the memory and for the next sample.
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

/// Allocates all free memory, in pieces of decreasing size.
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
    /// Calls `act` for every `bytes` bytes of each piece, with piece and offset, until the caller stops. The end of a
    /// piece can be shorter.
    fn each(
        &self,
        bytes: usize,
        mut act: impl FnMut(&Memory<'_>, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        for piece in self.pieces {
            for offset in (0..piece.bytes).step_by(bytes) {
                if self.stop.load(Ordering::SeqCst) {
                    return Err(Fault::new("scrub", Kind::Stopped, "the caller went away"));
                }
                act(piece, offset)?;
            }
        }
        self.context.settle()
    }

    /// Returns the pattern of a block. It is never zero and differs between blocks.
    fn word(&self, piece: &Memory<'_>, offset: usize) -> u32 {
        let block = (piece.address + offset as u64) / BLOCK as u64;
        let mixed = (self.seed ^ block).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 32) as u32) | 1
    }

    /// Returns the number of samples that are not zero.
    fn look(&self) -> Result<u64, Fault> {
        let (mut found, mut sample) = (0, vec![0; SAMPLE]);
        self.each(BLOCK, |piece, offset| {
            let within = self.word(piece, offset) as usize % (BLOCK / SAMPLE) * SAMPLE;
            piece.read(offset + within, &mut sample)?;
            found += u64::from(sample.iter().any(|byte| *byte != 0));
            Ok(())
        })?;
        Ok(found)
    }

    fn fill(&self, pattern: bool) -> Result<(), Fault> {
        self.each(BLOCK, |piece, offset| {
            piece.fill(offset, BLOCK, if pattern { self.word(piece, offset) } else { 0 })
        })
    }

    /// Returns the number of bytes read back, and the number of differing bytes.
    fn verify(&self) -> Result<(u64, u64), Fault> {
        let (mut covered, mut differ, mut window) = (0, 0, self.context.window(WINDOW)?);
        self.each(WINDOW, |piece, offset| {
            let bytes = WINDOW.min(piece.bytes - offset);
            let read = window.bytes().get_mut(..bytes).unwrap_or_default();
            piece.read(offset, read)?;
            covered += read.len() as u64;
            for (at, block) in (offset..).step_by(BLOCK).zip(read.chunks(BLOCK)) {
                differ += differing(block, self.word(piece, at).to_le_bytes());
            }
            Ok(())
        })?;
        Ok((covered, differ))
    }
}

/// Counts the bytes of a block that differ from the repeated word. A correct block equals itself shifted by one word;
/// that comparison is much faster than one by words.
fn differing(block: &[u8], word: [u8; 4]) -> u64 {
    let (before, after) = (block.len().checked_sub(4).and_then(|end| block.get(..end)), block.get(4..));
    if block.starts_with(&word) && before == after {
        return 0;
    }
    let of = |read: &[u8]| read.iter().zip(word).filter(|(read, written)| **read != *written).count() as u64;
    block.chunks(4).map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_differing_bytes_are_counted() {
        let word = [1, 2, 3, 4];
        let block = word.repeat(100);
        assert_eq!(differing(&block, word), 0);
        for at in 0..block.len() {
            let mut bad = block.clone();
            bad[at] ^= 1;
            assert_eq!(differing(&bad, word), 1, "{at}");
        }
        assert_eq!(
            differing(&[1, 2, 3, 5].repeat(100), word),
            100,
            "every word alike, and each of them wrong"
        );
        assert_eq!(differing(&[0; 400], word), 400);
    }
}
