//! Answers of a client that is not `reqwest`: the same bounds on its bodies.

use super::{LineTooLong, Lines, Unread};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use std::{collections::VecDeque, error::Error};

/// The whole body, which has at most `limit` bytes. The caller bounds the time.
///
/// # Errors
/// That it is longer, or broke off.
pub async fn collected(body: Body, limit: usize) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    match Limited::new(body, limit).collect().await {
        Ok(whole) => Ok(whole.to_bytes().into()),
        Err(error) if error.is::<LengthLimitError>() => Err(Box::new(Unread::TooLong(limit))),
        Err(error) => Err(error),
    }
}

/// The lines of a body that goes on for as long as its sender likes. The caller bounds the time.
#[derive(Debug)]
pub struct Frames {
    body: Body,
    lines: Lines,
    come: VecDeque<String>,
}

impl Frames {
    /// The lines of this body, each of at most `limit` bytes.
    #[must_use]
    pub fn new(body: Body, limit: usize) -> Self {
        Self { body, lines: Lines::new(limit), come: VecDeque::new() }
    }

    /// The next line; `None` once the stream has ended or broke off.
    ///
    /// # Errors
    /// That a line has more bytes than it may.
    pub async fn next(&mut self) -> Result<Option<String>, LineTooLong> {
        while self.come.is_empty() {
            let Some(Ok(frame)) = self.body.frame().await else { return Ok(None) };
            let Ok(piece) = frame.into_data() else { continue };
            self.come.extend(self.lines.take(&piece)?);
        }
        Ok(self.come.pop_front())
    }
}
