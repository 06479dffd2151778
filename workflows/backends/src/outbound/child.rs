//! Reads the output of a child process to its end and keeps a part.

use std::{process::ExitStatus, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Child,
};

/// Waits for a child and returns its exit status and the beginning of its standard output and standard error.
///
/// Returns `None` and kills the child if it does not end `within` the time. More than `limit` bytes of a stream are
/// read and dropped.
///
/// # Errors
///
/// If the system does not report the exit status.
pub async fn output(
    mut child: Child,
    limit: usize,
    within: Duration,
) -> std::io::Result<Option<(ExitStatus, Vec<u8>, Vec<u8>)>> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let reading = async { tokio::join!(child.wait(), beginning(stdout, limit), beginning(stderr, limit)) };
    let done = tokio::time::timeout(within, reading).await;
    let Ok((status, (stdout, _), (stderr, _))) = done else {
        // The caller kills the child's process group when it is dropped.
        let _ended_meanwhile = child.start_kill();
        return Ok(None);
    };
    Ok(Some((status?, stdout, stderr)))
}

/// Reads to the end and keeps the first `limit` bytes. Also returns true if there were more.
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

/// Reads to the end and keeps the last `limit` bytes.
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
