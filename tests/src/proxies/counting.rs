//! A wire to a PostgreSQL server that counts statements, and can be as slow as a network.

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// The traffic of a wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How often the server received a request and its answer was awaited.
    pub round_trips: u64,
    /// Transactions with an explicit begin; every other statement is its own transaction.
    pub begun: u64,
    /// Notifications that the server sent.
    pub told: u64,
    /// Bytes to the server.
    pub bytes: u64,
    /// How often each statement was executed, by its text.
    pub statements: BTreeMap<String, u64>,
}

impl Traffic {
    /// Returns the traffic since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let statements = self.statements.iter().map(|(text, count)| {
            (text.clone(), count - before.statements.get(text).copied().unwrap_or_default())
        });
        Self {
            round_trips: self.round_trips - before.round_trips,
            begun: self.begun - before.begun,
            told: self.told - before.told,
            bytes: self.bytes - before.bytes,
            statements: statements.filter(|(_, count)| *count > 0).collect(),
        }
    }

    /// Returns the executions of statements whose text contains `part`.
    #[must_use]
    pub fn of(&self, part: &str) -> u64 {
        self.statements.iter().filter(|(text, _)| text.contains(part)).map(|(_, count)| count).sum()
    }
}

/// A wire to a server of this machine. It accepts connections until the process ends.
#[derive(Debug)]
pub struct Wire {
    port: u16,
    traffic: Arc<Mutex<Traffic>>,
    delay: Arc<AtomicU64>,
}

impl Wire {
    /// A wire to the server at `target`, on a port of its own.
    ///
    /// # Errors
    /// If no port is available.
    pub fn to(target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let wire =
            Self { port: listener.local_addr()?.port(), traffic: Arc::default(), delay: Arc::default() };
        let (traffic, delay) = (wire.traffic.clone(), wire.delay.clone());
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", target)) else { continue };
                _ = carry(near, far, &traffic, &delay);
            }
        });
        Ok(wire)
    }

    /// Returns its address as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://tenure@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    /// Returns the traffic so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes every round trip longer by this span.
    pub fn slow(&self, by: Duration) {
        self.delay.store(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::Release);
    }
}

fn carry(
    near: TcpStream,
    far: TcpStream,
    traffic: &Arc<Mutex<Traffic>>,
    delay: &Arc<AtomicU64>,
) -> io::Result<()> {
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (from, to) = (near.try_clone()?, far.try_clone()?);
    let (asked, wait) = (traffic.clone(), delay.clone());
    thread::spawn(move || {
        let mut reader = Reader { asks: true, ..Reader::default() };
        pour(from, to, |bytes| {
            reader.read(bytes, &asked);
            thread::sleep(Duration::from_micros(wait.load(Ordering::Acquire)));
        });
    });
    let told = traffic.clone();
    thread::spawn(move || {
        let mut reader = Reader { begun: true, ..Reader::default() };
        pour(far, near, |bytes| reader.read(bytes, &told));
    });
    Ok(())
}

fn pour(mut from: TcpStream, mut to: TcpStream, mut seen: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 256 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let bytes = &buffer[..count];
        seen(bytes);
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    _ = from.shutdown(Shutdown::Both);
    _ = to.shutdown(Shutdown::Both);
}

/// Reads messages of the protocol, version 3, in one direction.
#[derive(Default)]
struct Reader {
    /// True in the direction from the client to the server.
    asks: bool,
    /// True once the client's first message, which has no type, is complete.
    begun: bool,
    rest: Vec<u8>,
    named: HashMap<Vec<u8>, String>,
}

impl Reader {
    fn read(&mut self, bytes: &[u8], traffic: &Mutex<Traffic>) {
        self.rest.extend_from_slice(bytes);
        let mut traffic = traffic.lock().unwrap_or_else(PoisonError::into_inner);
        if self.asks {
            traffic.bytes += bytes.len() as u64;
        }
        let mut at = 0;
        loop {
            let typed = usize::from(self.begun);
            let Some(length) = self.rest.get(at + typed..at + typed + 4) else { break };
            let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
            let end = at + typed + length;
            let Some(body) = self.rest.get(at + typed + 4..end) else { break };
            match (self.begun, self.rest[at]) {
                (false, _) => self.begun = true,
                (true, kind) => note(kind, body, self.asks, &mut self.named, &mut traffic),
            }
            at = end;
        }
        self.rest.drain(..at);
    }
}

fn note(kind: u8, body: &[u8], asks: bool, named: &mut HashMap<Vec<u8>, String>, traffic: &mut Traffic) {
    let mut parts = body.split(|byte| *byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    match kind {
        b'Q' if asks => {
            traffic.round_trips += 1;
            let text = String::from_utf8_lossy(part()).into_owned();
            traffic.begun += u64::from(text.starts_with("BEGIN"));
            *traffic.statements.entry(text).or_default() += 1;
        }
        b'P' if asks => {
            let (name, text) = (part(), part());
            named.insert(name.to_vec(), String::from_utf8_lossy(text).into_owned());
        }
        b'B' if asks => {
            let (_portal, name) = (part(), part());
            let text = named.get(name).cloned().unwrap_or_default();
            *traffic.statements.entry(text).or_default() += 1;
        }
        b'S' if asks => traffic.round_trips += 1,
        b'A' if !asks => traffic.told += 1,
        _ => {}
    }
}
