//! Reads all input from outside the process: HTTP answers, lines of streams, and output of child processes.
//!
//! Used by every client of this crate and of `api`. Invariant: memory and waiting time for a peer are limited, whatever
//! it sends. Answers are read only here, which `tests/it/outside.rs` checks.

mod child;
#[cfg(feature = "kubernetes")]
mod frames;
mod lines;

#[cfg(test)]
mod tests;

pub use child::{beginning, last_words, output};
#[cfg(feature = "kubernetes")]
pub use frames::{Frames, collected};
pub use lines::{LineStream, LineTooLong, Lines};

use reqwest::{ClientBuilder, Response, header::CONTENT_ENCODING, redirect::Policy};
use std::time::Duration;

/// The default limit for connecting.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The default limit from the start of a request to the end of its answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(300);
/// The longest answer that is not a list, in bytes: 1 MiB.
pub const MESSAGE: usize = 1 << 20;
/// The longest page of a list, in bytes: 16 MiB.
pub const PAGE: usize = 16 << 20;
/// The longest answer that is a complete list, in bytes: 64 MiB.
pub const LIST: usize = 64 << 20;
/// The largest part of an error answer that is read, in bytes: 64 KiB.
pub const EXCERPT: usize = 64 << 10;
/// The limit for reading it.
const EXCERPT_WITHIN: Duration = Duration::from_secs(5);

/// The reason why an answer was not read completely.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The answer is longer than the limit.
    #[error("the answer is longer than {0} bytes, the limit")]
    TooLong(usize),
    /// The answer is compressed, although the client accepts only plain text.
    #[error("the answer is compressed ({0}), which is not supported")]
    Compressed(String),
    /// The connection broke, or the time is up.
    #[error(transparent)]
    Broken(#[from] reqwest::Error),
}

/// Returns a client builder with timeouts, without redirects and without decompression.
///
/// A caller may shorten the timeouts, for all requests or for one, and add certificate authorities.
pub fn client() -> ClientBuilder {
    // Another part of the process may have installed a provider; any provider is fine.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(Policy::none())
        .connect_timeout(CONNECT_WITHIN)
        .timeout(ANSWER_WITHIN)
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
}

/// Reads the whole body of at most `limit` bytes.
///
/// # Errors
///
/// If the body is longer, compressed or incomplete. The connection is then closed.
pub async fn body(mut answer: Response, limit: usize) -> Result<Vec<u8>, Unread> {
    let coded =
        answer.headers().get(CONTENT_ENCODING).map(|coding| String::from_utf8_lossy(coding.as_bytes()));
    if let Some(coding) =
        coded.filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
    {
        return Err(Unread::Compressed(coding.chars().take(32).collect()));
    }
    let told = answer.content_length().map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
    if told > limit {
        return Err(Unread::TooLong(limit));
    }
    let mut whole = Vec::with_capacity(told);
    while let Some(chunk) = answer.chunk().await? {
        if chunk.len() > limit - whole.len() {
            return Err(Unread::TooLong(limit));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole)
}

/// Reads the whole body as text. Invalid UTF-8 is replaced.
///
/// # Errors
///
/// As in [`body`].
pub async fn text(answer: Response, limit: usize) -> Result<String, Unread> {
    Ok(String::from_utf8_lossy(&body(answer, limit).await?).into_owned())
}

/// Reads the beginning of an error answer, at most for 5 s.
pub async fn excerpt(answer: Response) -> Vec<u8> {
    start(answer, EXCERPT).await
}

/// Reads the first `limit` bytes of an answer, at most for 5 s.
pub async fn start(mut answer: Response, limit: usize) -> Vec<u8> {
    let mut kept = Vec::new();
    let reading = async {
        while let Ok(Some(chunk)) = answer.chunk().await {
            let room = limit - kept.len();
            kept.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
            if kept.len() >= limit {
                break;
            }
        }
    };
    // After the timeout, the bytes read so far are returned.
    let _late = tokio::time::timeout(EXCERPT_WITHIN, reading).await;
    kept
}

/// Reads the beginning of an error answer as text.
pub async fn excerpt_text(answer: Response) -> String {
    String::from_utf8_lossy(&excerpt(answer).await).into_owned()
}
