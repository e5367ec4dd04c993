//! HTTP/2 by hand: what no honest client sends.

use std::io::ErrorKind;

use super::*;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}

fn preface() -> Vec<u8> {
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, b""),
    ]
    .concat()
}

#[test]
fn a_head_that_does_not_end_ends_the_connection() {
    let server = server(|bounds| bounds.header_timeout_us = 200_000);
    // `:method: GET`, and then nothing; once the frame is cut, once the block is not ended.
    for head in [
        frame(1, 5, 1, &[0x82, 0x87])[..10].to_vec(),
        frame(1, 1, 1, &[0x82]),
    ] {
        let mut client = server.with([preface(), head].concat());
        client.rest();
        eventually("it to be gone", || server.census.open() == 0);
    }
    assert_eq!(count(&server.seen.started), 0);
}

#[test]
fn a_preface_that_does_not_end_is_a_head_that_does_not_end() {
    let server = server(|bounds| bounds.header_timeout_us = 100_000);
    assert_eq!(server.with("PRI * HTTP/2.0\r\n").answer().status, 408);
}

#[test]
fn floods_of_frames_that_carry_nothing_end_the_connection() {
    let server = server(|_| {});
    for (kind, payload) in [(0, b"".as_slice()), (2, b"\0\0\0\0\0"), (9, b"")] {
        let mut client = server.with(preface());
        if kind != 2 {
            // An open request: `:method: POST`, its head ended or not.
            client.send(frame(
                1,
                if kind == 0 { 4 } else { 0 },
                1,
                &[0x83, 0x86, 0x84],
            ));
        }
        let flood = frame(kind, 0, if kind == 2 { 3 } else { 1 }, payload).repeat(500);
        let stream = &mut client.stream;
        stream
            .set_read_timeout(Some(Duration::from_millis(2)))
            .unwrap();
        eventually("an end", || {
            let refused = stream.write_all(&flood).is_err();
            let waits = |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut);
            let read = stream.read(&mut [0; 1024]);
            refused || read.map_or_else(|error| !waits(error.kind()), |count| count == 0)
        });
        drop(client);
        eventually("it to be gone", || server.census.open() == 0);
    }
}
