//! Looks at the frames that an HTTP/2 client sends, and only at their first nine bytes.
//!
//! Separate because h2 bounds neither the time of a head nor frames that carry nothing. It must
//! never change a byte, and it decides nothing about streams.

use crate::clock::Clock;

const PREFACE_BYTES: usize = 24;
const FRAME_HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

/// Within this time a client may send so many:
const WINDOW_US: u64 = 10_000_000;
/// streams that it takes back,
const RESETS_MAX: u32 = 100;
/// frames that carry nothing: empty data, pieces of heads, priorities, settings, unknown ones,
const HOLLOW_MAX: u32 = 1_000;
/// and pings, which honest clients use to measure the line.
const PINGS_MAX: u32 = 10_000;

/// The client does what only an attacker does.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flood;

/// So many in a window of time; the clock is asked only when they are used up.
#[derive(Debug)]
struct Allowance {
    max: u32,
    left: u32,
    since_us: u64,
}

impl Allowance {
    const fn new(max: u32, since_us: u64) -> Self {
        Self {
            max,
            left: max,
            since_us,
        }
    }

    fn take(&mut self, clock: Clock) -> Result<(), Flood> {
        if self.left == 0 {
            let now_us = clock.now_us();
            if now_us.saturating_sub(self.since_us) < WINDOW_US {
                return Err(Flood);
            }
            (self.left, self.since_us) = (self.max, now_us);
        }
        self.left = self.left.saturating_sub(1);
        Ok(())
    }
}

/// Where in the client's bytes we are.
#[derive(Debug)]
pub(super) struct FrameWatch {
    clock: Clock,
    /// Bytes to pass over: the preface, then each frame's payload.
    skip: usize,
    head: [u8; FRAME_HEAD_BYTES],
    filled: usize,
    /// The frame whose payload is being passed over belongs to a head.
    in_head_frame: bool,
    /// A head whose last piece has not begun.
    block_open: bool,
    resets: Allowance,
    hollow: Allowance,
    pings: Allowance,
}

impl FrameWatch {
    pub(super) fn new(clock: Clock) -> Self {
        let now_us = clock.now_us();
        Self {
            clock,
            skip: PREFACE_BYTES,
            head: [0; FRAME_HEAD_BYTES],
            filled: 0,
            in_head_frame: false,
            block_open: false,
            resets: Allowance::new(RESETS_MAX, now_us),
            hollow: Allowance::new(HOLLOW_MAX, now_us),
            pings: Allowance::new(PINGS_MAX, now_us),
        }
    }

    /// True while a head has begun and not ended.
    pub(super) fn is_head_open(&self) -> bool {
        self.block_open || (self.in_head_frame && self.skip > 0)
    }

    /// The next bytes of the client.
    pub(super) fn see(&mut self, mut bytes: &[u8]) -> Result<(), Flood> {
        while !bytes.is_empty() {
            let passed = self.skip.min(bytes.len());
            self.skip = self.skip.saturating_sub(passed);
            bytes = bytes.get(passed..).unwrap_or_default();
            while let (true, Some((byte, rest))) = (self.skip == 0, bytes.split_first()) {
                bytes = rest;
                if let Some(place) = self.head.get_mut(self.filled) {
                    *place = *byte;
                }
                self.filled = self.filled.saturating_add(1);
                if self.filled == FRAME_HEAD_BYTES {
                    self.filled = 0;
                    self.frame()?;
                }
            }
        }
        Ok(())
    }

    fn frame(&mut self) -> Result<(), Flood> {
        let [high, middle, low, kind, flags, ..] = self.head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.skip = length;
        self.in_head_frame = matches!(kind, HEADERS | CONTINUATION);
        if self.in_head_frame {
            self.block_open = flags & END_HEADERS == 0;
        }
        match kind {
            DATA if length > 0 || flags & END_STREAM != 0 => Ok(()),
            HEADERS | WINDOW_UPDATE => Ok(()),
            RST_STREAM => self.resets.take(self.clock),
            PING => self.pings.take(self.clock),
            _ => self.hollow.take(self.clock),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn watch() -> FrameWatch {
        let mut watch = FrameWatch::new(Clock::start());
        watch.see(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        watch
    }

    #[test]
    fn a_head_is_open_from_its_first_byte_to_its_last_wherever_it_is_cut() {
        let bytes = [
            frame(HEADERS, 0, b"abc"),
            frame(CONTINUATION, END_HEADERS, b"de"),
        ]
        .concat();
        for cut in FRAME_HEAD_BYTES..bytes.len() {
            let mut watch = watch();
            watch.see(&bytes[..cut]).unwrap();
            assert!(watch.is_head_open(), "{cut} bytes");
            watch.see(&bytes[cut..]).unwrap();
            assert!(!watch.is_head_open(), "{cut} bytes and the rest");
        }
    }

    #[test]
    fn hollow_frames_are_bounded_and_full_ones_are_not() {
        for (kind, flags, payload, bound) in [
            (RST_STREAM, 0, b"1234".as_slice(), Some(RESETS_MAX)),
            (DATA, 0, b"", Some(HOLLOW_MAX)),
            (CONTINUATION, 0, b"", Some(HOLLOW_MAX)),
            (2, 0, b"12345", Some(HOLLOW_MAX)),
            (4, 0, b"", Some(HOLLOW_MAX)),
            (PING, 0, b"12345678", Some(PINGS_MAX)),
            (DATA, 0, b"x", None),
            (DATA, END_STREAM, b"", None),
            (WINDOW_UPDATE, 0, b"1234", None),
        ] {
            let mut watch = watch();
            let frame = frame(kind, flags, payload);
            let taken = (0..20_000)
                .take_while(|_| watch.see(&frame).is_ok())
                .count();
            let expected = bound.map_or(20_000, |bound| usize::try_from(bound).unwrap());
            assert_eq!(taken, expected, "kind {kind}, flags {flags}");
        }
    }
}
