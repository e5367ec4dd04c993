//! Where the body of a message ends, by its head.
//!
//! Separate because requests and answers are read by the same rule, and everything that follows on
//! a connection hangs by it. It must never choose between two readings: what can be read in two
//! ways is refused.

use http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};

/// How a message says where its body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// No field speaks of a body.
    None,
    /// So many bytes.
    Length(u64),
    Chunked,
}

/// The framing can be read in two ways, so what follows on the connection could be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DoubtfulFraming;

/// Reads the framing fields as strictly as they are written: exactly one of the two, once.
pub(crate) fn framing(headers: &HeaderMap) -> Result<Framing, DoubtfulFraming> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    match (
        codings.next(),
        lengths.next(),
        codings.next(),
        lengths.next(),
    ) {
        (None, None, ..) => Ok(Framing::None),
        (Some(coding), None, None, _) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => {
            Ok(Framing::Chunked)
        }
        (None, Some(length), _, None) => digits(length.as_bytes()).map(Framing::Length),
        _ => Err(DoubtfulFraming),
    }
}

/// A number in decimal digits alone: no sign, no list, no space.
fn digits(text: &[u8]) -> Result<u64, DoubtfulFraming> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(DoubtfulFraming);
    }
    let text = std::str::from_utf8(text).map_err(|_| DoubtfulFraming)?;
    text.parse().map_err(|_| DoubtfulFraming)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn framing_is_read_one_way_or_refused() {
        let length = |text| ("content-length", text);
        let coding = |text| ("transfer-encoding", text);
        for (fields, want) in [
            (vec![], Ok(Framing::None)),
            (vec![length("0")], Ok(Framing::Length(0))),
            (vec![length("007")], Ok(Framing::Length(7))),
            (vec![coding("chunked")], Ok(Framing::Chunked)),
            (vec![coding("Chunked")], Ok(Framing::Chunked)),
            (vec![coding("chunked"), length("4")], Err(DoubtfulFraming)),
            (vec![length("5"), length("5")], Err(DoubtfulFraming)),
            (vec![length("5, 5")], Err(DoubtfulFraming)),
            (vec![length("+5")], Err(DoubtfulFraming)),
            (vec![length("-5")], Err(DoubtfulFraming)),
            (vec![length("0x5")], Err(DoubtfulFraming)),
            (vec![length("1e1")], Err(DoubtfulFraming)),
            (vec![length("")], Err(DoubtfulFraming)),
            (vec![length("18446744073709551621")], Err(DoubtfulFraming)),
            (vec![coding("chunked, chunked")], Err(DoubtfulFraming)),
            (
                vec![coding("chunked"), coding("identity")],
                Err(DoubtfulFraming),
            ),
            (vec![coding("xchunked")], Err(DoubtfulFraming)),
            (vec![coding("chunked;q=1")], Err(DoubtfulFraming)),
            (vec![coding("gzip, chunked")], Err(DoubtfulFraming)),
            (vec![coding("identity")], Err(DoubtfulFraming)),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in &fields {
                headers.append(*name, HeaderValue::from_static(value));
            }
            assert_eq!(framing(&headers), want, "{fields:?}");
        }
    }
}
