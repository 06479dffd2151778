//! What a child process writes, read to its end and kept in part.

use std::{process::ExitStatus, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Child,
};

/// The output of a child that has ended: how, and the beginning of what it wrote to its standard output and error.
///
/// Nothing where it was not over `within` the time; it is killed then. More than `limit` bytes of either are read and dropped.
///
/// # Errors
/// That the system does not say how it ended.
pub async fn output(
    mut child: Child,
    limit: usize,
    within: Duration,
) -> std::io::Result<Option<(ExitStatus, Vec<u8>, Vec<u8>)>> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let reading = async { tokio::join!(child.wait(), beginning(stdout, limit), beginning(stderr, limit)) };
    let done = tokio::time::timeout(within, reading).await;
    let Ok((status, (stdout, _), (stderr, _))) = done else {
        // Whoever started it has it killed as it is dropped, with what it started itself.
        let _ended_meanwhile = child.start_kill();
        return Ok(None);
    };
    Ok(Some((status?, stdout, stderr)))
}

/// Reads to the end, and keeps the first `limit` bytes; whether there were more.
pub async fn beginning(from: Option<impl AsyncRead + Unpin>, limit: usize) -> (Vec<u8>, bool) {
    let (mut kept, mut too_much) = (Vec::new(), false);
    read(from, |bytes| {
        let room = limit - kept.len();
        too_much |= bytes.len() > room;
        kept.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    })
    .await;
    (kept, too_much)
}

/// Reads to the end, and keeps the last `limit` bytes.
pub async fn last_words(from: Option<impl AsyncRead + Unpin>, limit: usize) -> Vec<u8> {
    let mut kept = Vec::new();
    read(from, |bytes| {
        kept.extend_from_slice(bytes);
        let over = kept.len().saturating_sub(limit);
        kept.drain(..over);
    })
    .await;
    kept
}

async fn read(from: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut from) = from else { return };
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        take(buffer.get(..count).unwrap_or_default());
    }
}
