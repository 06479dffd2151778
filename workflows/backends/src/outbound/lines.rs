//! Splits an endless stream into lines.

use reqwest::Response;
use std::{collections::VecDeque, time::Duration};

/// A line is longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line is longer than {0} bytes")]
pub struct LineTooLong(pub usize);

/// Splits received pieces into lines.
#[derive(Debug)]
pub struct Lines {
    rest: Vec<u8>,
    limit: usize,
}

impl Lines {
    /// Creates a splitter for lines of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { rest: Vec::new(), limit }
    }

    /// Returns the lines that end in this piece, without their line endings.
    ///
    /// # Errors
    ///
    /// If a line is too long.
    pub fn take(&mut self, mut piece: &[u8]) -> Result<Vec<String>, LineTooLong> {
        let mut whole = Vec::new();
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = piece.split_at(end);
            self.keep(line)?;
            let line = std::mem::take(&mut self.rest);
            whole.push(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned());
            piece = rest.get(1..).unwrap_or_default();
        }
        self.keep(piece)?;
        Ok(whole)
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), LineTooLong> {
        if part.len() > self.limit - self.rest.len() {
            return Err(LineTooLong(self.limit));
        }
        self.rest.extend_from_slice(part);
        Ok(())
    }
}

/// The lines of an endless answer.
#[derive(Debug)]
pub struct LineStream {
    answer: Response,
    lines: Lines,
    come: VecDeque<String>,
}

impl LineStream {
    /// Reads lines of at most `limit` bytes from the answer.
    #[must_use]
    pub fn new(answer: Response, limit: usize) -> Self {
        Self { answer, lines: Lines::new(limit), come: VecDeque::new() }
    }

    /// Returns the next line. Returns `None` at the end of the stream, after a silence of this length, or for a line
    /// that is too long.
    pub async fn next(&mut self, silence: Duration) -> Option<String> {
        while self.come.is_empty() {
            let piece = tokio::time::timeout(silence, self.answer.chunk()).await.ok()?.ok()??;
            self.come.extend(self.lines.take(&piece).ok()?);
        }
        self.come.pop_front()
    }
}
