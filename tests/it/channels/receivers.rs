//! Receivers of notifications: an HTTP server and a mail server for tests, which record their input.

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
};
use serde_json::Value;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

/// A received request.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
}

/// Accepts all requests, unless it was configured to answer otherwise.
#[derive(Clone, Default)]
pub(super) struct Receiver {
    heard: Arc<Mutex<Vec<Told>>>,
    answers: Arc<Mutex<VecDeque<StatusCode>>>,
}

impl Receiver {
    /// Opens the receiver and returns its address.
    pub(super) async fn open(&self) -> String {
        let hear = async |State(me): State<Self>, uri: Uri, headers: HeaderMap, body: Bytes| {
            let body = serde_json::from_slice(&body).unwrap();
            me.heard.lock().unwrap().push(Told { path: uri.path().into(), headers, body });
            me.answers.lock().unwrap().pop_front().unwrap_or(StatusCode::ACCEPTED)
        };
        let router = Router::new().fallback(hear).with_state(self.clone());
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(socket, router).await });
        url
    }

    /// Sets the answers to the next requests.
    pub(super) fn answer(&self, with: impl IntoIterator<Item = StatusCode>) {
        self.answers.lock().unwrap().extend(with);
    }

    pub(super) fn heard(&self) -> Vec<Told> {
        self.heard.lock().unwrap().clone()
    }

    /// Returns the requests to `path`, once there are `count`.
    pub(super) async fn at(&self, path: &str, count: usize) -> Vec<Told> {
        for _ in 0..600 {
            let found: Vec<Told> = self.heard().into_iter().filter(|told| told.path == path).collect();
            if found.len() >= count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{count} were to come to {path}: {:?}", self.heard());
    }
}

/// A received mail.
#[derive(Clone, Debug, Default)]
pub(super) struct Letter {
    /// The user who signed in: the answer to `AUTH PLAIN`.
    pub(super) auth: String,
    pub(super) from: String,
    pub(super) to: Vec<String>,
    pub(super) text: String,
}

/// A mail server with as much SMTP as a delivery needs. It offers no TLS.
#[derive(Clone, Default)]
pub(super) struct Mailbox {
    letters: Arc<Mutex<Vec<Letter>>>,
    /// Refusals before the first accepted mail.
    pub(super) refusals: Arc<Mutex<u32>>,
}

impl Mailbox {
    /// Opens the mailbox and returns its address.
    pub(super) async fn open(&self) -> String {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = socket.local_addr().unwrap().to_string();
        let me = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                tokio::spawn(me.clone().talk(stream));
            }
        });
        at
    }

    async fn talk(self, mut stream: TcpStream) {
        let (read, mut write) = stream.split();
        let mut lines = BufReader::new(read).lines();
        let mut letter = Letter::default();
        let mut answer = "220 post.example ESMTP".to_owned();
        loop {
            if write.write_all(format!("{answer}\r\n").as_bytes()).await.is_err() {
                return;
            }
            let Ok(Some(line)) = lines.next_line().await else { return };
            let word = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            answer = match word.as_str() {
                "EHLO" => "250-post.example\r\n250-8BITMIME\r\n250 AUTH PLAIN".into(),
                "AUTH" => {
                    letter.auth = line.rsplit(' ').next().unwrap_or_default().into();
                    "235 welcome".into()
                }
                "MAIL" if std::mem::take(&mut *self.refusals.lock().unwrap()) > 0 => "451 later".into(),
                "MAIL" => {
                    letter.from = line;
                    "250 ok".into()
                }
                "RCPT" => {
                    letter.to.push(line);
                    "250 ok".into()
                }
                "DATA" => {
                    let _ = write.write_all(b"354 go on\r\n").await;
                    while let Ok(Some(line)) = lines.next_line().await {
                        if line == "." {
                            break;
                        }
                        letter.text.push_str(&line);
                        letter.text.push('\n');
                    }
                    self.letters.lock().unwrap().push(letter.clone());
                    "250 queued as 1".into()
                }
                "QUIT" => "221 bye".into(),
                _ => "500 what".into(),
            };
        }
    }

    pub(super) fn letters(&self) -> Vec<Letter> {
        self.letters.lock().unwrap().clone()
    }

    /// Returns the mails, once there are `count`.
    pub(super) async fn wait(&self, count: usize) -> Vec<Letter> {
        for _ in 0..600 {
            let letters = self.letters();
            if letters.len() >= count {
                return letters;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{count} letters were to come: {:?}", self.letters());
    }
}
