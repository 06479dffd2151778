//! Reads a request from a connection.

use super::Asked;
use reqwest::{
    Method,
    header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING},
};
use std::io;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The longest head of a request, in bytes.
const HEAD: usize = 64 << 10;
/// The longest body of a request, in bytes.
const BODY: usize = 64 << 20;

/// Returns the complete request; `None` if the connection ends before it begins.
pub(super) async fn read(stream: &mut TcpStream) -> io::Result<Option<(Asked, HeaderMap)>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if bytes.len() > HEAD || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let rest = bytes.split_off(end);
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let method = first.next().and_then(|text| Method::from_bytes(text.as_bytes()).ok()).ok_or_else(wrong)?;
    let target = first.next().ok_or_else(wrong)?.to_owned();
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
        headers.append(name, HeaderValue::from_str(value.trim()).map_err(|_| wrong())?);
    }
    if headers.get("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let body = match (headers.contains_key(TRANSFER_ENCODING), length) {
        (true, _) => dechunked(stream, rest).await?,
        (false, length) => exactly(stream, rest, length.unwrap_or(0)).await?,
    };
    for name in [HOST, CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH, HeaderName::from_static("expect")] {
        headers.remove(name);
    }
    Ok(Some((Asked { method, target, body }, headers)))
}

async fn exactly(stream: &mut TcpStream, mut body: Vec<u8>, length: usize) -> io::Result<Vec<u8>> {
    if length > BODY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    while body.len() < length {
        if stream.read_buf(&mut body).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    body.truncate(length);
    Ok(body)
}

async fn dechunked(stream: &mut TcpStream, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = loop {
            if let Some(at) = bytes.windows(2).position(|two| two == b"\r\n") {
                break at;
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let rest = bytes.split_off(line + 2);
        let size = String::from_utf8_lossy(&bytes).trim().split(';').next().unwrap_or("").to_owned();
        let size = usize::from_str_radix(&size, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        let whole = exactly_more(stream, rest, size + 2).await?;
        body.extend_from_slice(whole.get(..size).unwrap_or_default());
        bytes = whole.get(size + 2..).unwrap_or_default().to_vec();
        if size == 0 {
            return Ok(body);
        }
        if body.len() > BODY {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Reads until there are at least `least` bytes.
async fn exactly_more(stream: &mut TcpStream, mut bytes: Vec<u8>, least: usize) -> io::Result<Vec<u8>> {
    while bytes.len() < least {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(bytes)
}
