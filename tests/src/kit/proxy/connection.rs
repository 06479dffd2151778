//! The handling of one connection: a request, its fault, and the answer.

use super::{Asked, Fault, Shared, lock, request::read};
use crate::kit::Trouble;
use reqwest::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use std::{
    io,
    sync::{Arc, atomic::Ordering},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub(super) async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let carrying = tokio::spawn(carry(stream, shared.clone()));
        let mut open = lock(&shared.open);
        open.retain(|open| !open.is_finished());
        open.push(carrying.abort_handle());
    }
}

/// Handles one connection with one request. A broken connection is closed.
async fn carry(mut stream: TcpStream, shared: Arc<Shared>) {
    let Ok(Some((asked, headers))) = read(&mut stream).await else { return };
    shared.seen.fetch_add(1, Ordering::AcqRel);
    shared.held(&asked).await;
    let _broke_off = meet(&mut stream, &shared, asked, headers).await;
}

async fn meet(
    stream: &mut TcpStream,
    shared: &Arc<Shared>,
    asked: Asked,
    headers: HeaderMap,
) -> io::Result<()> {
    let plain = "text/plain";
    match shared.meets(&asked) {
        Fault::Of(Trouble::Calm) => pass(stream, shared, asked, headers, usize::MAX).await,
        Fault::Of(Trouble::LoseRequest | Trouble::Down | Trouble::HalfDone) => Ok(()),
        Fault::Of(Trouble::LoseAnswer) => {
            let answer = forward(shared, asked, headers).await?;
            // Reads the answer to its end, so that the request has taken effect.
            answer.bytes().await.map_err(io::Error::other).map(drop)
        }
        Fault::Of(Trouble::Slow(span)) => {
            // A client that disconnects cancels a request that has not arrived yet.
            let mut byte = [0];
            tokio::select! {
                () = tokio::time::sleep(span) => pass(stream, shared, asked, headers, usize::MAX).await,
                _ = stream.read(&mut byte) => Ok(()),
            }
        }
        Fault::Of(Trouble::Throttle(span)) => {
            let seconds = span.as_millis().div_ceil(1_000);
            let head = format!("HTTP/1.1 429 Too Many Requests\r\nRetry-After: {seconds}\r\n");
            say(stream, &head, plain, b"slow down").await
        }
        Fault::Of(Trouble::Deny) => say(stream, "HTTP/1.1 403 Forbidden\r\n", plain, b"not permitted").await,
        Fault::Of(Trouble::Garbage) => {
            say(stream, "HTTP/1.1 200 OK\r\n", "application/json", b"{\"\x00<html>what?").await
        }
        Fault::Of(Trouble::NotSupported) => {
            say(stream, "HTTP/1.1 404 Not Found\r\n", plain, b"there is no such thing here").await
        }
        Fault::CutAfter(bytes) => pass(stream, shared, asked, headers, bytes).await,
    }
}

async fn say(stream: &mut TcpStream, head: &str, kind: &str, body: &[u8]) -> io::Result<()> {
    let more = format!("Content-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(format!("{head}{more}").as_bytes()).await?;
    stream.write_all(body).await?;
    stream.shutdown().await
}

async fn forward(shared: &Shared, asked: Asked, headers: HeaderMap) -> io::Result<reqwest::Response> {
    let url = format!("{}{}", shared.upstream, asked.target);
    let sent = shared.client.request(asked.method, url).headers(headers).body(asked.body).send().await;
    sent.map_err(io::Error::other)
}

/// Forwards the request, and streams up to `limit` bytes of its answer back.
async fn pass(
    stream: &mut TcpStream,
    shared: &Shared,
    asked: Asked,
    headers: HeaderMap,
    upto: usize,
) -> io::Result<()> {
    let mut answer = forward(shared, asked, headers).await?;
    let status = answer.status();
    let reason = status.canonical_reason().unwrap_or("Unknown");
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in answer.headers() {
        if ![CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH].contains(name) {
            head.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
    }
    let bare = status.is_informational() || status.as_u16() == 204 || status.as_u16() == 304;
    head.extend_from_slice(if bare { b"Connection: close\r\n\r\n" } else { CHUNKED });
    stream.write_all(&head).await?;
    let mut left = upto;
    while let Some(chunk) = answer.chunk().await.map_err(io::Error::other)? {
        let part = chunk.get(..left).unwrap_or(&chunk);
        left -= part.len();
        if !part.is_empty() {
            stream.write_all(format!("{:x}\r\n", part.len()).as_bytes()).await?;
            stream.write_all(part).await?;
            stream.write_all(b"\r\n").await?;
        }
        if left == 0 {
            return stream.flush().await;
        }
    }
    if !bare {
        stream.write_all(b"0\r\n\r\n").await?;
    }
    stream.shutdown().await
}

const CHUNKED: &[u8] = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
