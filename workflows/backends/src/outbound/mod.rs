//! What is read from outside the process: answers over HTTP, lines of streams, and output of child processes.
//!
//! Called by every client of this crate and of `api`. Invariant: whatever a peer sends, no more than a stated number of bytes of it is held,
//! and nobody waits for it longer than a stated time. Answers are read only here, which `tests/it/outside.rs` checks.

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

/// How long a connection may take, where a client says nothing else. Default 5 s.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long an answer may take, from the first byte of the request to its own last, where neither client nor request say anything else.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(300);
/// The longest answer that is a message and no list, in bytes: 1 MiB.
pub const MESSAGE: usize = 1 << 20;
/// The longest answer that is one page of a list, in bytes: 16 MiB.
pub const PAGE: usize = 16 << 20;
/// The longest answer that is a whole list, in bytes: 64 MiB.
pub const LIST: usize = 64 << 20;
/// How much is read of what is said with a refusal, in bytes: 64 KiB.
pub const EXCERPT: usize = 64 << 10;
/// For how long that is read.
const EXCERPT_WITHIN: Duration = Duration::from_secs(5);

/// Why an answer was not read whole.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// It is longer than may be read.
    #[error("the answer is longer than {0} bytes, which is all that is read of it")]
    TooLong(usize),
    /// It is compressed, though nothing but plain text was accepted.
    #[error("the answer is compressed ({0}), and only plain answers are read")]
    Compressed(String),
    /// The connection broke, or the time was up.
    #[error(transparent)]
    Broken(#[from] reqwest::Error),
}

/// A client that follows no redirect, unpacks nothing, and gives up on whoever is slow.
///
/// A caller may shorten the times, for all requests or for one, and add authorities.
pub fn client() -> ClientBuilder {
    // Another part of the process may have installed one before; any will do.
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

/// The whole body of an answer, which has at most `limit` bytes.
///
/// # Errors
/// That it is longer, compressed, or broke off. The connection is closed then.
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

/// The whole body of an answer as text; what is no UTF-8 in it is replaced.
///
/// # Errors
/// As [`body`].
pub async fn text(answer: Response, limit: usize) -> Result<String, Unread> {
    Ok(String::from_utf8_lossy(&body(answer, limit).await?).into_owned())
}

/// The beginning of what is said with a refusal, as far as it comes within 5 s; the rest is left.
pub async fn excerpt(answer: Response) -> Vec<u8> {
    start(answer, EXCERPT).await
}

/// The first `limit` bytes of an answer, as far as they come within 5 s; the rest is left.
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
    // What has come by then is what there is.
    let _late = tokio::time::timeout(EXCERPT_WITHIN, reading).await;
    kept
}

/// The same as text.
pub async fn excerpt_text(answer: Response) -> String {
    String::from_utf8_lossy(&excerpt(answer).await).into_owned()
}
