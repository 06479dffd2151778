//! A conversation with a mail server, limited to 1 MiB of answers and 30 s.

use crate::notify::channel::PATIENCE;
use futures_util::io::{AsyncRead as _, AsyncWrite as _};
#[expect(deprecated, reason = "the only way to TLS from the first byte over a connection of our own")]
use lettre::transport::smtp::client::AsyncNetworkStream;
use lettre::{
    Message,
    transport::smtp::{
        Error,
        authentication::{Credentials, Mechanism},
        client::{AsyncSmtpConnection, AsyncTokioStream, Tls, TlsParameters},
        extension::ClientId,
        response::Response,
    },
};
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};

/// The maximum size of a server's answers, in bytes.
const MOST_HEARD: usize = 1 << 20;
/// The timeout of the whole conversation. Default 30 s.
const WITHIN: Duration = Duration::from_secs(30);

/// A mail server with its settings.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Tls,
    pub(super) credentials: Option<Credentials>,
}

/// The reason of a failed delivery.
#[derive(Debug)]
pub(super) enum Untaken {
    /// The server refused it, or its answer was invalid.
    Smtp(Error),
    /// The server is unreachable or too slow.
    Unreached(String),
}

impl From<Error> for Untaken {
    fn from(error: Error) -> Self {
        Self::Smtp(error)
    }
}

impl Server {
    /// Sends a message.
    pub(super) async fn deliver(&self, letter: &Message) -> Result<Response, Untaken> {
        self.deliver_within(letter, WITHIN).await
    }

    async fn deliver_within(&self, letter: &Message, within: Duration) -> Result<Response, Untaken> {
        let late = |_| Untaken::Unreached(format!("not finished within {} s", within.as_secs()));
        timeout(within, self.converse(letter)).await.map_err(late)?
    }

    async fn converse(&self, letter: &Message) -> Result<Response, Untaken> {
        let hello = ClientId::default();
        let mut connection = self.connect(&hello).await?;
        if let Some(credentials) = &self.credentials {
            connection.auth(&[Mechanism::Plain, Mechanism::Login], credentials).await?;
        }
        let taken = connection.send(letter.envelope(), &letter.formatted()).await?;
        connection.abort().await;
        Ok(taken)
    }

    async fn connect(&self, hello: &ClientId) -> Result<AsyncSmtpConnection, Untaken> {
        let unreached = |error: io::Error| Untaken::Unreached(format!("Connection error: {error}"));
        let connecting = timeout(PATIENCE, TcpStream::connect((self.host.as_str(), self.port)));
        let late = |_| Untaken::Unreached("Connection error: no answer".into());
        let stream = connecting.await.map_err(late)?.map_err(unreached)?;
        let stream = Box::new(Metered { stream, left: MOST_HEARD });
        match &self.tls {
            Tls::Wrapper(parameters) => {
                let stream = wrapped(stream, parameters.clone()).await?;
                Ok(AsyncSmtpConnection::connect_with_transport(Box::new(stream), hello).await?)
            }
            Tls::Required(parameters) => {
                let mut connection = AsyncSmtpConnection::connect_with_transport(stream, hello).await?;
                connection.starttls(parameters.clone(), hello).await?;
                Ok(connection)
            }
            Tls::None => Ok(AsyncSmtpConnection::connect_with_transport(stream, hello).await?),
            // Never configured: encryption must not depend on the server.
            Tls::Opportunistic(_) => {
                Err(Untaken::Unreached("Connection error: TLS is not configured".into()))
            }
        }
    }
}

#[expect(deprecated, reason = "as above")]
async fn wrapped(stream: Box<Metered>, parameters: TlsParameters) -> Result<Wrapped, Error> {
    let mut stream = AsyncNetworkStream::use_existing_tokio1(stream);
    stream.upgrade_tls(parameters).await?;
    Ok(Wrapped(stream))
}

/// A connection that fails when the answers exceed the limit.
#[derive(Debug)]
struct Metered {
    stream: TcpStream,
    left: usize,
}

impl AsyncTokioStream for Metered {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        match self.left.checked_sub(buf.filled().len() - before) {
            Some(left) => self.left = left,
            None => {
                return Poll::Ready(Err(io::Error::other(format!(
                    "the server sent more than {MOST_HEARD} bytes"
                ))));
            }
        }
        read
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A connection with TLS from its first byte.
#[derive(Debug)]
#[expect(deprecated, reason = "as above")]
struct Wrapped(AsyncNetworkStream);

impl AsyncTokioStream for Wrapped {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }
}

impl AsyncRead for Wrapped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.0).poll_read(cx, buf.initialize_unfilled());
        read.map_ok(|count| buf.advance(count))
    }
}

impl AsyncWrite for Wrapped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{io::AsyncWriteExt as _, net::TcpListener};

    fn letter() -> Message {
        let address = "ops@example.com".parse::<lettre::message::Mailbox>().unwrap();
        Message::builder().from(address.clone()).to(address).body("read me".to_owned()).unwrap()
    }

    /// A server that repeats this text, with a pause in between.
    async fn server(says: Vec<u8>, pause: Duration) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            while stream.write_all(&says).await.is_ok() {
                tokio::time::sleep(pause).await;
            }
        });
        Server { host: "127.0.0.1".into(), port, tls: Tls::None, credentials: None }
    }

    #[tokio::test]
    async fn a_mail_server_with_an_endless_line_is_disconnected() {
        let server = server(vec![b'2'; 64 << 10], Duration::ZERO).await;

        let untaken = server.deliver(&letter()).await.unwrap_err();

        let Untaken::Smtp(error) = untaken else { panic!("{untaken:?}") };
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(why.contains("more than 1048576 bytes"), "{why}");
    }

    #[tokio::test]
    async fn a_mail_server_that_sends_a_byte_now_and_then_times_out() {
        let (server, began) =
            (server(vec![b'2'], Duration::from_millis(50)).await, engine::Stopwatch::start());

        let untaken = server.deliver_within(&letter(), Duration::from_millis(300)).await.unwrap_err();

        assert!(matches!(untaken, Untaken::Unreached(_)), "{untaken:?}");
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}
