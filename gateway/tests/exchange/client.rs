//! A client that reads answers exactly, and can leave at any point.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::PATIENCE;

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

/// One answer. Its head is in lower case.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// It ended as its framing says.
    pub(crate) whole: bool,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        self.field("x-bulkhead-reason")
    }
}

impl Client {
    pub(crate) fn connect(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// The next answer on this connection; of a HEAD request use [`Client::head`].
    pub(crate) fn answer(&mut self) -> Answer {
        let mut answer = self.head();
        let bodiless = matches!(answer.status, 204 | 304);
        let length = answer
            .field("content-length")
            .map(|length| length.parse::<usize>().unwrap());
        if bodiless {
            answer.whole = true;
        } else if answer.field("transfer-encoding") == Some("chunked") {
            self.chunks(&mut answer);
        } else if let Some(length) = length {
            while self.unread.len() < length && self.more() {}
            answer.whole = self.unread.len() >= length;
            let body: Vec<u8> = self.unread.drain(..length.min(self.unread.len())).collect();
            answer.body = String::from_utf8(body).unwrap();
        } else {
            while self.more() {}
            answer.whole = true;
            answer.body = String::from_utf8(std::mem::take(&mut self.unread)).unwrap();
        }
        answer
    }

    /// A head alone.
    pub(crate) fn head(&mut self) -> Answer {
        let end = self.until(b"\r\n\r\n").unwrap();
        let head = String::from_utf8(self.unread.drain(..end).collect()).unwrap();
        let head = head.to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer {
            status,
            head,
            body: String::new(),
            whole: true,
        }
    }

    fn chunks(&mut self, answer: &mut Answer) {
        answer.whole = false;
        while let Some(end) = self.until(b"\r\n") {
            let line: Vec<u8> = self.unread.drain(..end).collect();
            let size = std::str::from_utf8(&line).unwrap().trim_end();
            let size = usize::from_str_radix(size, 16).unwrap();
            if size == 0 {
                // Trailers, if any, then an empty line.
                while let Some(end) = self.until(b"\r\n") {
                    let line: Vec<u8> = self.unread.drain(..end).collect();
                    if line == b"\r\n" {
                        answer.whole = true;
                        return;
                    }
                    answer.head += std::str::from_utf8(&line).unwrap();
                }
                return;
            }
            while self.unread.len() < size + 2 {
                if !self.more() {
                    return;
                }
            }
            let chunk: Vec<u8> = self.unread.drain(..size + 2).collect();
            answer.body += std::str::from_utf8(&chunk[..size]).unwrap();
        }
    }

    /// So many bytes, whatever they are.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count && self.more() {}
        self.unread.drain(..count.min(self.unread.len())).collect()
    }

    /// True when something comes within `patience`.
    pub(crate) fn has_answer(&mut self, patience: std::time::Duration) -> bool {
        self.stream.set_read_timeout(Some(patience)).unwrap();
        let came = self.stream.peek(&mut [0]).is_ok();
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        came
    }

    /// What was read too far.
    pub(crate) fn rest(self) -> Vec<u8> {
        self.unread
    }

    /// True when the gateway closes without another byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.unread.is_empty() && !self.more()
    }

    /// Leaves with a reset.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.stream)
            .set_linger(Some(std::time::Duration::ZERO))
            .unwrap();
    }

    fn until(&mut self, mark: &[u8]) -> Option<usize> {
        loop {
            let at = self
                .unread
                .windows(mark.len())
                .position(|window| window == mark);
            match at {
                Some(at) => return Some(at + mark.len()),
                None if self.more() => {}
                None => return None,
            }
        }
    }

    /// False at the end, clean or not.
    fn more(&mut self) -> bool {
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.unread.extend_from_slice(&bytes[..count]);
                true
            }
            Err(error) => {
                assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "nothing came");
                false
            }
        }
    }
}
