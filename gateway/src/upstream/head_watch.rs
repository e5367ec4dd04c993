//! What hyper lets through in a head and this gateway does not.
//!
//! Separate because these rules look at bytes that hyper has parsed away by the time we see a
//! message: a line that ends in a bare line feed, a head without end, a flood of interim answers.
//! It must never change a byte.

use std::cell::Cell;
use std::io;

/// Longest head of an answer, interim ones included.
const HEAD_BYTES_MAX: u32 = 64 * 1024;
/// Most interim answers before the answer.
const INTERIM_MAX: u32 = 16;
/// Bytes of a status line up to and including its code: `HTTP/1.1 200`.
const STATUS_END: u32 = 12;
/// Where the code's first digit stands.
const STATUS_AT: u32 = 9;
/// No answer comes after this head: the bytes are another protocol's.
const SWITCHED: u16 = 101;

/// Watches the bytes of one upstream connection, head by head.
#[derive(Debug, Default)]
pub(crate) struct HeadWatch {
    at: Cell<Place>,
}

/// Where in a head the next byte falls.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    watching: bool,
    bytes: u32,
    line_bytes: u32,
    interim: u32,
    /// The code of the head under way, as far as it was seen.
    status: u16,
    after_return: bool,
}

/// The answer breaks a rule; hyper is told that the connection failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(&'static str);

impl HeadWatch {
    /// A request is about to be sent: the next bytes are the head of its answer.
    pub(crate) fn expect_head(&self) {
        self.at.set(Place {
            watching: true,
            ..Place::default()
        });
    }

    /// Looks at bytes in the order they came.
    pub(crate) fn see(&self, bytes: &[u8]) -> io::Result<()> {
        let mut place = self.at.get();
        if !place.watching {
            return Ok(());
        }
        let result = place.see(bytes);
        self.at.set(place);
        result.map_err(|broken| io::Error::new(io::ErrorKind::InvalidData, broken))
    }
}

impl Place {
    fn see(&mut self, bytes: &[u8]) -> Result<(), Unreadable> {
        let mut rest = bytes;
        while self.watching && !rest.is_empty() {
            let end = rest.iter().position(|&byte| byte == b'\n');
            let (line, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
            rest = after;
            self.see_part(line);
            if self.bytes > HEAD_BYTES_MAX {
                return Err(Unreadable("the head of the answer is too long"));
            }
            if end.is_some() {
                let before = line.len().checked_sub(2).and_then(|at| line.get(at));
                let returned = before.map_or(self.after_return, |&byte| byte == b'\r');
                if !returned {
                    return Err(Unreadable(
                        "a line of the answer's head ends in a bare line feed",
                    ));
                }
                self.end_line()?;
            } else {
                self.after_return = line.last() == Some(&b'\r');
            }
        }
        Ok(())
    }

    /// Counts bytes and notes the status.
    fn see_part(&mut self, part: &[u8]) {
        let first_line = self.bytes == self.line_bytes;
        if first_line && self.line_bytes < STATUS_END {
            for (at, byte) in (self.line_bytes..STATUS_END).zip(part) {
                if at >= STATUS_AT {
                    let digit = u16::from(byte.wrapping_sub(b'0'));
                    self.status = self.status.wrapping_mul(10).wrapping_add(digit);
                }
            }
        }
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        self.bytes = self.bytes.saturating_add(length);
        self.line_bytes = self.line_bytes.saturating_add(length);
    }

    fn end_line(&mut self) -> Result<(), Unreadable> {
        let empty = self.line_bytes == 2;
        self.line_bytes = 0;
        self.after_return = false;
        if !empty {
            return Ok(());
        }
        if !(100..200).contains(&self.status) || self.status == SWITCHED {
            self.watching = false;
            return Ok(());
        }
        self.interim += 1;
        if self.interim > INTERIM_MAX {
            return Err(Unreadable("too many interim answers"));
        }
        *self = Self {
            watching: true,
            interim: self.interim,
            ..Self::default()
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\na: b\r\n\r\n";

    /// Whole, and cut at every place: a rule must not depend on how the bytes arrive.
    fn check(bytes: &[u8], want: bool) {
        for cut in 0..bytes.len().min(200) {
            let watch = HeadWatch::default();
            watch.expect_head();
            let (first, second) = bytes.split_at(cut);
            let seen = watch.see(first).and_then(|()| watch.see(second));
            assert_eq!(
                seen.is_ok(),
                want,
                "cut at {cut}: {:?}",
                &bytes[..bytes.len().min(60)]
            );
        }
    }

    #[test]
    fn heads_are_watched_to_their_end() {
        check(OK, true);
        check(&[OK, b"body\nwith line feeds\n".as_slice()].concat(), true);
        check(b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n", false);
        check(
            b"HTTP/1.1 200 OK\r\nX-A: b\nSet-Cookie: evil=1\r\n\r\n",
            false,
        );
        check(b"HTTP/1.1 200 OK\r\na: b\r\n\n", false);
    }

    #[test]
    fn interim_answers_have_a_bound() {
        let interim = b"HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n".repeat(16);
        check(&[&interim, OK].concat(), true);
        let flood = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(17);
        check(&[&flood, OK].concat(), false);
    }

    #[test]
    fn after_a_switch_come_bytes_of_another_protocol() {
        let switch = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n".as_slice();
        check(&[switch, b"\n\n no head \n"].concat(), true);
    }

    #[test]
    fn heads_have_a_bound() {
        let long = [
            b"HTTP/1.1 200 OK\r\na: ".as_slice(),
            &b"a".repeat(65 * 1024),
        ]
        .concat();
        check(&long, false);
        let fits = [
            b"HTTP/1.1 200 OK\r\na: ".as_slice(),
            &b"a".repeat(60 * 1024),
            b"\r\n\r\n",
        ];
        check(&fits.concat(), true);
    }

    #[test]
    fn nothing_is_watched_between_answers() {
        let watch = HeadWatch::default();
        assert!(watch.see(b"\n\n\n").is_ok());
    }
}
