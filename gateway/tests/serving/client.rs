//! A client that can be as rude as real ones.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::PATIENCE;

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

/// One answer with a content-length; its head in lower case.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn has(&self, field: &str) -> &Self {
        assert!(
            self.head.contains(&format!("\r\n{field}\r\n")),
            "no {field} in {}",
            self.head
        );
        self
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

    pub(crate) fn answer(&mut self) -> Answer {
        let end = loop {
            let at = self
                .unread
                .windows(4)
                .position(|window| window == b"\r\n\r\n");
            match at {
                Some(at) => break at + 4,
                None => self.more(),
            }
        };
        let head = String::from_utf8(self.unread.drain(..end).collect())
            .unwrap()
            .to_lowercase();
        let length = head.split("\r\ncontent-length: ").nth(1);
        let length = length.map_or(0, |rest| {
            rest.split("\r\n").next().unwrap().parse().unwrap()
        });
        while self.unread.len() < length {
            self.more();
        }
        let body = String::from_utf8(self.unread.drain(..length).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body }
    }

    /// Everything until the gateway closes, and whether it closed without a reset.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, bool) {
        let mut bytes = std::mem::take(&mut self.unread);
        let clean = self.stream.read_to_end(&mut bytes).is_ok();
        (bytes, clean)
    }

    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }

    fn more(&mut self) {
        let mut buffer = [0; 4096];
        let count = self.stream.read(&mut buffer).unwrap();
        assert!(
            count > 0,
            "closed after {:?}",
            String::from_utf8_lossy(&self.unread)
        );
        self.unread.extend_from_slice(&buffer[..count]);
    }
}
