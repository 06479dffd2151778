//! Bounded bodies for HTTP clients other than `reqwest`.

use super::{LineTooLong, Lines, Unread};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use std::{collections::VecDeque, error::Error};

/// Returns the whole body of at most `limit` bytes. The caller limits the time.
///
/// # Errors
///
/// If the body is longer or incomplete.
pub async fn collected(body: Body, limit: usize) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    match Limited::new(body, limit).collect().await {
        Ok(whole) => Ok(whole.to_bytes().into()),
        Err(error) if error.is::<LengthLimitError>() => Err(Box::new(Unread::TooLong(limit))),
        Err(error) => Err(error),
    }
}

/// The lines of an endless body. The caller limits the time.
#[derive(Debug)]
pub struct Frames {
    body: Body,
    lines: Lines,
    come: VecDeque<String>,
}

impl Frames {
    /// Reads lines of at most `limit` bytes from the body.
    #[must_use]
    pub fn new(body: Body, limit: usize) -> Self {
        Self { body, lines: Lines::new(limit), come: VecDeque::new() }
    }

    /// Returns the next line; `None` after the end of the stream.
    ///
    /// # Errors
    ///
    /// If a line is too long.
    pub async fn next(&mut self) -> Result<Option<String>, LineTooLong> {
        while self.come.is_empty() {
            let Some(Ok(frame)) = self.body.frame().await else { return Ok(None) };
            let Ok(piece) = frame.into_data() else { continue };
            self.come.extend(self.lines.take(&piece)?);
        }
        Ok(self.come.pop_front())
    }
}
