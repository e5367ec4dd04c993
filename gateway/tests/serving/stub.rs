//! A scripted upstream, and the judge of what reached it.
//!
//! A path's last segment says what it does: `hold` answers when the gate opens, `stream` sends a
//! head and bytes until the gate opens, anything else answers at once with the path.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

#[derive(Clone)]
pub(crate) struct Stub {
    pub(crate) at: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    arrived: AtomicUsize,
    gone: AtomicUsize,
    stopped: AtomicBool,
    gate: Mutex<bool>,
    opened: Condvar,
}

impl Stub {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stub = Self {
            at: listener.local_addr().unwrap(),
            seen: Arc::default(),
        };
        let seen = Arc::clone(&stub.seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || serve(stream, &seen));
            }
        });
        stub
    }

    /// Requests whose head has arrived.
    pub(crate) fn arrived(&self) -> usize {
        self.seen.arrived.load(Ordering::SeqCst)
    }

    /// Requests whose connection was closed before they were answered.
    pub(crate) fn gone(&self) -> usize {
        self.seen.gone.load(Ordering::SeqCst)
    }

    pub(crate) fn open(&self) {
        *self.seen.gate.lock().unwrap() = true;
        self.seen.opened.notify_all();
    }
}

impl Seen {
    /// True when the gate opened, false when the other side left first.
    fn wait(&self, stream: &mut TcpStream) -> bool {
        stream
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        loop {
            let gate = self.gate.lock().unwrap();
            let (gate, _) = self
                .opened
                .wait_timeout(gate, Duration::from_millis(5))
                .unwrap();
            if *gate {
                return true;
            }
            drop(gate);
            if stream.read(&mut [0; 4096]).is_ok_and(|count| count == 0) {
                self.gone.fetch_add(1, Ordering::SeqCst);
                return false;
            }
        }
    }
}

fn serve(mut stream: TcpStream, seen: &Seen) {
    let mut unread = Vec::new();
    while !seen.stopped.load(Ordering::SeqCst) {
        let Some(head) = take_head(&mut stream, &mut unread) else {
            return;
        };
        seen.arrived.fetch_add(1, Ordering::SeqCst);
        let path = head.split(' ').nth(1).unwrap().to_owned();
        if path.ends_with("/hold") && !seen.wait(&mut stream) {
            return;
        }
        if path.ends_with("/stream") {
            let mut chunk = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
            while stream.write_all(&chunk).is_ok() {
                chunk = b"5\r\nbytes\r\n".to_vec();
            }
            seen.gone.fetch_add(1, Ordering::SeqCst);
            return;
        }
        let length = head
            .to_lowercase()
            .split("content-length: ")
            .nth(1)
            .map_or(0, |rest| {
                rest.split("\r\n").next().unwrap().parse::<usize>().unwrap()
            });
        while unread.len() < length {
            if !more(&mut stream, &mut unread) {
                seen.gone.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
        unread.drain(..length);
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}",
            path.len()
        );
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
        stream.set_read_timeout(None).unwrap();
    }
}

fn take_head(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(at) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            return Some(String::from_utf8(unread.drain(..at + 4).collect()).unwrap());
        }
        if !more(stream, unread) {
            return None;
        }
    }
}

fn more(stream: &mut TcpStream, unread: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 16 * 1024];
    match stream.read(&mut buffer) {
        Ok(count) if count > 0 => {
            unread.extend_from_slice(&buffer[..count]);
            true
        }
        _ => false,
    }
}
