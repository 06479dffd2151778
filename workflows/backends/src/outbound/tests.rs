//! Peers with endless, slow or compressed answers: memory and waiting time stay bounded.

use super::{LineStream, Lines, Unread, body, client, excerpt, output, start};
use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// The buffers of sockets and of the client, in addition to the bytes that are read.
const BUFFERED: usize = 12 << 20;
const LIMIT: usize = 64 << 10;

/// A peer that answers every request with this head, then repeats a block without end, with a pause after each.
async fn peer(head: &'static str, block: Vec<u8>, pause: Duration) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (block, count) = (block.clone(), count.clone());
            tokio::spawn(async move {
                let mut asked = [0_u8; 4096];
                let _asked = stream.read(&mut asked).await;
                let _head = stream.write_all(head.as_bytes()).await;
                while stream.write_all(&block).await.is_ok() {
                    count.fetch_add(block.len(), Ordering::Relaxed);
                    tokio::time::sleep(pause).await;
                }
            });
        }
    });
    (url, sent)
}

async fn endless(head: &'static str) -> (String, Arc<AtomicUsize>) {
    peer(head, vec![b'x'; 64 << 10], Duration::ZERO).await
}

async fn asked(url: &str) -> reqwest::Response {
    client().no_proxy().build().unwrap().get(url).send().await.unwrap()
}

#[tokio::test]
async fn an_endless_answer_is_read_only_up_to_the_limit() {
    let (url, sent) = endless("HTTP/1.1 200 OK\r\n\r\n").await;

    let read = body(asked(&url).await, LIMIT).await;

    assert!(matches!(read, Err(Unread::TooLong(LIMIT))), "{read:?}");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(sent.load(Ordering::Relaxed) < LIMIT + BUFFERED);
}

#[tokio::test]
async fn only_the_start_of_an_endless_error_is_stored() {
    let (url, sent) = endless("HTTP/1.1 500 Oh\r\n\r\n").await;

    assert_eq!(start(asked(&url).await, 1_000).await.len(), 1_000);
    assert_eq!(excerpt(asked(&url).await).await.len(), super::EXCERPT);

    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(sent.load(Ordering::Relaxed) < 2 * (LIMIT + BUFFERED));
}

#[tokio::test]
async fn an_answer_with_a_content_length_above_the_limit_is_not_read() {
    let (url, _) =
        peer("HTTP/1.1 200 OK\r\ncontent-length: 70000\r\n\r\n", vec![b'x'], Duration::from_secs(60)).await;

    let read = body(asked(&url).await, LIMIT).await;

    assert!(matches!(read, Err(Unread::TooLong(LIMIT))), "{read:?}");
}

#[tokio::test]
async fn an_answer_within_the_limit_is_read_completely() {
    let (url, _) =
        peer("HTTP/1.1 200 OK\r\ncontent-length: 65536\r\n\r\n", vec![b'x'; LIMIT], Duration::from_secs(60))
            .await;

    assert_eq!(body(asked(&url).await, LIMIT).await.unwrap().len(), LIMIT);
}

#[tokio::test]
async fn a_compressed_answer_is_refused_and_never_unpacked() {
    let (url, _) = endless("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n").await;

    let read = body(asked(&url).await, LIMIT).await;

    assert!(matches!(&read, Err(Unread::Compressed(coding)) if coding == "gzip"), "{read:?}");
}

#[tokio::test]
async fn a_peer_that_sends_single_bytes_slowly_times_out() {
    let (url, sent) = peer("HTTP/1.1 200 OK\r\n\r\n", vec![b'x'], Duration::from_millis(50)).await;
    let slow = client().no_proxy().timeout(Duration::from_millis(400)).build().unwrap();
    let began = engine::Stopwatch::start();

    let read = body(slow.get(&url).send().await.unwrap(), LIMIT).await;

    assert!(matches!(&read, Err(Unread::Broken(error)) if error.is_timeout()), "{read:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(sent.load(Ordering::Relaxed) < 100);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (url, _) = peer(
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        Vec::new(),
        Duration::from_secs(60),
    )
    .await;

    assert_eq!(asked(&url).await.status().as_u16(), 302);
}

#[tokio::test]
async fn a_line_without_an_end_ends_the_stream() {
    let (url, sent) = endless("HTTP/1.1 200 OK\r\n\r\n").await;

    let mut lines = LineStream::new(asked(&url).await, LIMIT);

    assert_eq!(lines.next(Duration::from_secs(5)).await, None);
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(lines);
    assert!(sent.load(Ordering::Relaxed) < LIMIT + BUFFERED);
}

#[test]
fn lines_are_assembled_from_chunks_of_any_size() {
    let text = "a\r\n\nlong er\nrest";
    for size in 1..=text.len() {
        let mut lines = Lines::new(7);
        let read: Vec<String> =
            text.as_bytes().chunks(size).flat_map(|piece| lines.take(piece).unwrap()).collect();
        assert_eq!(read, ["a", "", "long er"], "{size}");
    }
    assert!(Lines::new(6).take(b"long er\n").is_err());
}

#[tokio::test]
async fn a_child_process_with_endless_output_is_killed_and_little_is_stored() {
    let child = |script: &str| {
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true).spawn().unwrap()
    };
    let began = engine::Stopwatch::start();

    let endless = output(child("exec yes"), 100, Duration::from_millis(300)).await.unwrap();
    let (status, stdout, stderr) =
        output(child("yes | head -c 1000000; echo no >&2"), 100, Duration::from_secs(30))
            .await
            .unwrap()
            .unwrap();

    assert!(endless.is_none());
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(status.success());
    assert_eq!((stdout.len(), stderr.as_slice()), (100, &b"no\n"[..]));
}
