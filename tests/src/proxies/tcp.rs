//! A TCP proxy that can be cut, between a process and its server.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU16, Ordering},
    },
    thread,
};

/// A wire to a port of this machine.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    cut: Arc<AtomicBool>,
    target: Arc<AtomicU16>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// A wire to `target`, on a port of its own.
    ///
    /// # Errors
    /// If no port is available.
    pub fn to(target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let (cut, open) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<TcpStream>>>::default());
        let target = Arc::new(AtomicU16::new(target));
        let (is_cut, ends, to) = (cut.clone(), open.clone(), target.clone());
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if is_cut.load(Ordering::Acquire) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", to.load(Ordering::Acquire))) else { continue };
                _ = carry(near, far, &ends);
            }
        });
        Ok(Self { port, cut, target, open })
    }

    /// Returns its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Directs it to another port from now on; open connections break.
    pub fn lead_to(&self, target: u16) {
        self.target.store(target, Ordering::Release);
        self.cut(false);
    }

    /// Cuts or restores the wire: open connections break, and new ones fail.
    pub fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Release);
        for end in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            _ = end.shutdown(Shutdown::Both);
        }
    }
}

fn carry(near: TcpStream, far: TcpStream, ends: &Mutex<Vec<TcpStream>>) -> io::Result<()> {
    for (from, to) in [(near.try_clone()?, far.try_clone()?), (far.try_clone()?, near.try_clone()?)] {
        thread::spawn(move || pour(from, to));
    }
    let mut ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
    // A broken connection keeps a descriptor open until it is dropped.
    ends.retain(|end| end.peer_addr().is_ok());
    ends.extend([near, far]);
    Ok(())
}

fn pour(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if buffer.get(..count).is_none_or(|bytes| to.write_all(bytes).is_err()) {
            break;
        }
    }
    _ = from.shutdown(Shutdown::Both);
    _ = to.shutdown(Shutdown::Both);
}
