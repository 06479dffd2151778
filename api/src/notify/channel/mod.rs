//! Channels in use: created from the settings with their secrets, at the start of the server.

pub(crate) mod email;
pub(crate) mod file;
pub(crate) mod pagerduty;
pub(crate) mod signature;
pub(crate) mod slack;
mod smtp;
pub(crate) mod webhook;

use crate::{
    config,
    notify::text::{NotificationText, Templates},
};
use backends::outbound;
use email::Email;
use engine::{Notification, RetryPolicy};
use file::LogFile;
use pagerduty::Pagerduty;
use reqwest::{Client, RequestBuilder, Response, header};
use slack::Slack;
use std::{fs, time::Duration};
use store::Timestamp;
use webhook::Webhook;
use workflows::notices::{NoticeKind, QuietHours, Severity, kind_of, matter};

/// The timeout of an attempt.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum delay between two attempts.
const MOST_PAUSE: Duration = Duration::from_secs(3_600);
/// The maximum delay that a receiver may request.
const MOST_ASKED: Duration = Duration::from_secs(86_400);
/// The maximum length of a stored answer, in characters.
const KEPT: usize = 200;

/// One channel.
pub(crate) struct Channel {
    /// The name.
    pub(crate) name: String,
    /// The settings.
    pub(crate) settings: config::Channel,
    line: Transport,
}

/// The transport.
enum Transport {
    Webhook(Webhook),
    Slack(Slack),
    Pagerduty(Pagerduty),
    Email(Box<Email>),
    File(LogFile),
}

/// A notification to be sent.
pub(super) struct Message<'a> {
    pub(super) told: &'a Notification,
    pub(super) kind: NoticeKind,
    pub(super) matter: String,
    /// The trace context, as a `traceparent` header.
    pub(super) trace: Option<String>,
    /// The text for readers.
    pub(super) words: NotificationText,
    /// The time of sending.
    pub(super) now: Timestamp,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Accepted, with this answer.
    Taken(String),
    /// Refused, with this answer and the requested delay, if any.
    Refused(String, Option<Duration>),
    /// No answer.
    Unreached(String),
}

impl Channel {
    /// Creates the channel `name` from its settings.
    ///
    /// # Errors
    /// The invalid setting: an unreadable file, a short secret, or an invalid address.
    pub(super) fn of(name: &str, settings: &config::Channel) -> Result<Self, String> {
        let line = match settings.kind {
            config::ChannelKind::Webhook => Webhook::of(settings).map(Transport::Webhook),
            config::ChannelKind::Slack => Slack::of(settings).map(Transport::Slack),
            config::ChannelKind::Pagerduty => Pagerduty::of(settings).map(Transport::Pagerduty),
            config::ChannelKind::Email => Email::of(settings).map(|email| Transport::Email(Box::new(email))),
            config::ChannelKind::File => LogFile::of(settings).map(Transport::File),
        };
        let line = line.map_err(|why| match name {
            config::Notify::DEFAULT => format!("notify.{why}"),
            name => format!("notify.channels.{name}.{why}"),
        })?;
        Ok(Self { name: name.into(), settings: settings.clone(), line })
    }

    /// Sends `told` with the text of `texts`.
    pub(super) async fn send(
        &self,
        told: &Notification,
        (texts, trace): (&Templates, Option<String>),
        now: Timestamp,
    ) -> Sent {
        let kind = kind_of(told);
        let message = Message { told, kind, matter: matter(told), trace, words: texts.words(told), now };
        match &self.line {
            Transport::Webhook(webhook) => webhook.send(&message).await,
            Transport::Slack(slack) => slack.send(&message).await,
            Transport::Pagerduty(pagerduty) => pagerduty.send(&message).await,
            Transport::Email(email) => email.send(&message).await,
            Transport::File(lines) => lines.send(&message).await,
        }
    }

    /// Returns the end of the quiet hours for `told` at `at`, if any.
    pub(crate) fn silent(&self, told: &Notification, at: Timestamp) -> Option<Timestamp> {
        let urgent: Severity = self.settings.urgent;
        let quiet: Option<&QuietHours> = self.settings.quiet.as_ref();
        quiet.filter(|_| kind_of(told).severity < urgent).and_then(|quiet| quiet.quiet_until(at))
    }

    /// Returns the delay after `failed` attempts; `None` after the last one.
    pub(super) fn pause(&self, failed: u32, asked: Option<Duration>, seed: u64) -> Option<Duration> {
        let policy = RetryPolicy {
            first: Duration::from_secs(2),
            cap: MOST_PAUSE,
            attempts: self.settings.attempts,
            ..RetryPolicy::default()
        };
        let pause = policy.delay(failed, seed)?;
        Some(pause.max(asked.unwrap_or_default().min(MOST_ASKED)))
    }
}

/// Returns a client that follows no redirects.
pub(super) fn client() -> Result<Client, String> {
    let client = outbound::client().timeout(PATIENCE).build();
    client.map_err(|error| format!("url: {error}"))
}

/// Reads the file of a secret.
pub(super) fn secret(key: &str, file: &str) -> Result<String, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{key}: {file}: {error}"))?;
    let text = text.trim();
    if text.is_empty() {
        return Err(format!("{key}: {file} is empty"));
    }
    Ok(text.into())
}

/// Sends a request, and returns the result with `secret` masked.
pub(super) async fn send_request(request: RequestBuilder, secret: &str) -> Sent {
    match request.send().await {
        Ok(answer) => outcome(answer, secret).await,
        Err(error) => Sent::Unreached(connection_error(&error)),
    }
}

/// Describes a connection error without the URL, which may be a secret.
fn connection_error(error: &reqwest::Error) -> String {
    match error {
        error if error.is_timeout() => format!("no answer within {} s", PATIENCE.as_secs()),
        error if error.is_connect() => "cannot connect".into(),
        _ => "the connection was closed".into(),
    }
}

async fn outcome(answer: Response, secret: &str) -> Sent {
    let status = answer.status();
    let asked = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let asked = asked.and_then(|text| text.trim().parse::<u64>().ok()).map(Duration::from_secs);
    if status.is_success() {
        return Sent::Taken(status.to_string());
    }
    // Receivers describe errors in the body.
    let body = outbound::excerpt_text(answer).await;
    Sent::Refused(shortened(&format!("{status} {body}"), secret), asked)
}

/// Prepares external text for storage: short, on one line, and without the secret.
pub(super) fn shortened(text: &str, secret: &str) -> String {
    let text = if secret.is_empty() { text.to_owned() } else { text.replace(secret, "***") };
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(KEPT).collect();
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    #[test]
    fn the_answer_of_a_receiver_is_stored_shortened_and_without_the_secret() {
        assert_eq!(shortened("400 no key\nR0UTE here", "R0UTE"), "400 no key *** here");
        assert_eq!(shortened(&"x".repeat(1_000), "").len(), KEPT);
    }

    /// A receiver that refuses with an endless body; counts the bytes that were read.
    async fn endless() -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (url, sent) =
            (format!("http://{}", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
        let count = sent.clone();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _asked = stream.read(&mut [0; 4096]).await;
            stream.write_all(b"HTTP/1.1 500 Oh\r\n\r\n").await.unwrap();
            while stream.write_all(&[b'x'; 64 << 10]).await.is_ok() {
                count.fetch_add(64 << 10, Ordering::Relaxed);
            }
        });
        (url, sent)
    }

    #[tokio::test]
    async fn only_the_start_of_an_endless_answer_is_read() {
        program::install_tls();
        let (url, sent) = endless().await;

        let told = send_request(client().unwrap().post(&url), "").await;

        let Sent::Refused(why, None) = told else { panic!("{told:?}") };
        assert!(why.starts_with("500 ") && why.len() <= KEPT, "{why}");
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(sent.load(Ordering::Relaxed) < 16 << 20, "{sent:?}");
    }
}
