//! What of an HTTP/1 request cannot be read without doubt.
//!
//! Separate because hyper is a kind reader: it takes a bare line feed, a length beside chunks, a
//! repeated length, and what it takes kindly another reader behind us may take otherwise. This
//! one follows the same bytes before hyper sees them and stops at the first that two readers
//! could understand in two ways. It must never change a byte, and never be kinder than RFC 9112.

/// Longest line of a chunk's size with its extension, and most bytes and fields of trailers.
const CHUNK_LINE_BYTES_MAX: usize = 256;
const TRAILER_BYTES_MAX: usize = 4096;
const TRAILER_FIELDS_MAX: usize = 16;
/// Empty lines before a request line, as a kindness of the RFC.
const LEADING_LINES_MAX: u32 = 4;
/// A longer line is no matter of doubt: hyper refuses it as too large.
const LINE_BYTES_MAX: usize = 1 << 20;

/// The request cannot be read without doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// So many of the bytes given may be read.
    pub(crate) clear_bytes: usize,
    /// The doubt is in a head, so nobody has seen this request yet.
    pub(crate) in_head: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    RequestLine,
    Fields,
    /// So many bytes of a body or a chunk are to come; and what follows them.
    Data(u64, After),
    ChunkSize,
    /// The CRLF after a chunk's bytes.
    ChunkEnd,
    Trailers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Request,
    Chunk,
}

/// What a head has said so far.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    length: Option<u64>,
    chunked: bool,
    is_old: bool,
}

/// Follows one connection's bytes.
#[derive(Debug)]
pub(crate) struct Reader {
    place: Place,
    head: Head,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    leading: u32,
    trailer_bytes: usize,
    trailer_fields: usize,
    /// Heads read to their end, and whether the last one's body comes in chunks.
    heads: u32,
    in_chunks: bool,
}

/// The line is no line of its place.
struct Odd;

impl Reader {
    pub(crate) fn new() -> Self {
        Self {
            place: Place::RequestLine,
            head: Head::default(),
            line: Vec::new(),
            leading: 0,
            trailer_bytes: 0,
            trailer_fields: 0,
            heads: 0,
            in_chunks: false,
        }
    }

    /// The same, with so many heads read before.
    pub(crate) fn after(heads: u32) -> Self {
        Self {
            heads,
            ..Self::new()
        }
    }

    /// Heads read to their end.
    pub(crate) fn heads(&self) -> u32 {
        self.heads
    }

    /// True when hyper may have to give up on the body of the last head that nobody takes: part
    /// of it has not come, or it is in chunks, of which hyper passes over one at most.
    pub(crate) fn is_body_open(&self) -> bool {
        self.in_chunks || !matches!(self.place, Place::RequestLine | Place::Fields)
    }

    /// Follows the next bytes.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(), Doubt> {
        let mut at = 0;
        // A head is given to hyper only up to where it is still clear.
        let mut clear = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let in_head = matches!(self.place, Place::RequestLine | Place::Fields);
            let doubt = Doubt {
                clear_bytes: if in_head { clear } else { at },
                in_head,
            };
            if let Place::Data(left, after) = self.place {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                at += taken;
                let left = left.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX));
                self.place = match (left, after) {
                    (0, After::Request) => Place::RequestLine,
                    (0, After::Chunk) => Place::ChunkEnd,
                    (left, after) => Place::Data(left, after),
                };
            } else {
                match rest.iter().position(|byte| *byte == b'\n') {
                    Some(end) => {
                        let (line, _) = rest.split_at(end);
                        at += end + 1;
                        self.whole_line(line).map_err(|Odd| doubt)?;
                    }
                    None => {
                        at = bytes.len();
                        self.part_of_line(rest).map_err(|Odd| doubt)?;
                    }
                }
            }
            let between = self.place == Place::RequestLine && self.line.is_empty();
            if between || !matches!(self.place, Place::RequestLine | Place::Fields) {
                clear = at;
            }
        }
        Ok(())
    }

    fn part_of_line(&mut self, part: &[u8]) -> Result<(), Odd> {
        let longest = match self.place {
            Place::ChunkSize | Place::ChunkEnd => CHUNK_LINE_BYTES_MAX,
            Place::Trailers => TRAILER_BYTES_MAX,
            Place::RequestLine | Place::Fields | Place::Data(..) => LINE_BYTES_MAX,
        };
        if self.line.len() + part.len() > longest {
            return Err(Odd);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn whole_line(&mut self, end: &[u8]) -> Result<(), Odd> {
        if self.line.is_empty() {
            return self.line(end);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(end);
        let result = self.line(&line);
        line.clear();
        self.line = line;
        result
    }

    /// A line without its line feed; the carriage return must be there.
    fn line(&mut self, line: &[u8]) -> Result<(), Odd> {
        let line = line.strip_suffix(b"\r").ok_or(Odd)?;
        match self.place {
            Place::RequestLine => self.request_line(line),
            Place::Fields if line.is_empty() => self.end_of_head(),
            Place::Fields => self.field(line),
            Place::ChunkSize => self.chunk_size(line),
            Place::ChunkEnd if line.is_empty() => {
                self.place = Place::ChunkSize;
                Ok(())
            }
            Place::Trailers if line.is_empty() => {
                self.begin();
                Ok(())
            }
            Place::Trailers => self.trailer(line),
            Place::ChunkEnd | Place::Data(..) => Err(Odd),
        }
    }

    fn begin(&mut self) {
        self.place = Place::RequestLine;
        self.head = Head::default();
        self.leading = 0;
    }

    fn request_line(&mut self, line: &[u8]) -> Result<(), Odd> {
        if line.is_empty() {
            self.leading += 1;
            return if self.leading <= LEADING_LINES_MAX {
                Ok(())
            } else {
                Err(Odd)
            };
        }
        let mut words = line.split(|byte| *byte == b' ');
        let (method, target, version) = (words.next(), words.next(), words.next());
        let (Some(method), Some(target), Some(version), None) =
            (method, target, version, words.next())
        else {
            return Err(Odd);
        };
        let is_target = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#' || *byte >= 0x80;
        if !is_token(method) || target.is_empty() || !target.iter().all(is_target) {
            return Err(Odd);
        }
        self.head.is_old = match version {
            b"HTTP/1.1" => false,
            b"HTTP/1.0" => true,
            _ => return Err(Odd),
        };
        self.place = Place::Fields;
        Ok(())
    }

    fn field(&mut self, line: &[u8]) -> Result<(), Odd> {
        let (name, value) = split_field(line)?;
        if name.eq_ignore_ascii_case(b"content-length") {
            // Twice the same is still twice: readers differ on what to make of it.
            if self.head.length.is_some() || self.head.chunked {
                return Err(Odd);
            }
            self.head.length = Some(decimal(value)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let clear = value.eq_ignore_ascii_case(b"chunked") && !self.head.is_old;
            if !clear || self.head.chunked || self.head.length.is_some() {
                return Err(Odd);
            }
            self.head.chunked = true;
        }
        Ok(())
    }

    fn end_of_head(&mut self) -> Result<(), Odd> {
        let head = std::mem::take(&mut self.head);
        self.begin();
        self.heads = self.heads.saturating_add(1);
        self.in_chunks = head.chunked;
        match head.length {
            _ if head.chunked => self.place = Place::ChunkSize,
            None | Some(0) => {}
            Some(length) => self.place = Place::Data(length, After::Request),
        }
        Ok(())
    }

    fn chunk_size(&mut self, line: &[u8]) -> Result<(), Odd> {
        if line.len() > CHUNK_LINE_BYTES_MAX {
            return Err(Odd);
        }
        let digits = line
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        let (size, extension) = line.split_at(digits);
        if !is_extension(extension) || digits > 16 {
            return Err(Odd);
        }
        let size = std::str::from_utf8(size).map_err(|_| Odd)?;
        let size = u64::from_str_radix(size, 16).map_err(|_| Odd)?;
        self.place = if size == 0 {
            (self.trailer_bytes, self.trailer_fields) = (0, 0);
            Place::Trailers
        } else {
            Place::Data(size, After::Chunk)
        };
        Ok(())
    }

    fn trailer(&mut self, line: &[u8]) -> Result<(), Odd> {
        self.trailer_bytes += line.len();
        self.trailer_fields += 1;
        let many = self.trailer_bytes > TRAILER_BYTES_MAX;
        if many || self.trailer_fields > TRAILER_FIELDS_MAX {
            return Err(Odd);
        }
        split_field(line).map(|_| ())
    }
}

/// Name and value without the white space around it.
fn split_field(line: &[u8]) -> Result<(&[u8], &[u8]), Odd> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Odd)?;
    let (name, value) = line.split_at(colon);
    let value = value.get(1..).unwrap_or_default();
    let is_value = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    // No space before the colon, no line that continues another: both are no token.
    if !is_token(name) || !value.iter().all(is_value) {
        return Err(Odd);
    }
    Ok((name, value.trim_ascii()))
}

fn is_token(word: &[u8]) -> bool {
    let is_one = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !word.is_empty() && word.iter().all(is_one)
}

fn decimal(text: &[u8]) -> Result<u64, Odd> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(Odd);
    }
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(Odd)
}

/// Nothing, or `;name[=value]` as often as there is room; quotes are closed on the line.
fn is_extension(text: &[u8]) -> bool {
    let Some(first) = text.first() else {
        return true;
    };
    let mut quoted = false;
    let mut escaped = false;
    for byte in text {
        if !(*byte == b'\t' || byte.is_ascii_graphic() || *byte == b' ') {
            return false;
        }
        match (quoted, escaped, byte) {
            (true, true, _) => escaped = false,
            (true, false, b'\\') => escaped = true,
            (_, false, b'"') => quoted = !quoted,
            _ => {}
        }
    }
    *first == b';' && !quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(parts: &[&[u8]]) -> Result<(), (usize, bool)> {
        let (mut reader, mut before) = (Reader::new(), 0);
        for part in parts {
            reader
                .read(part)
                .map_err(|doubt| (before + doubt.clear_bytes, doubt.in_head))?;
            before += part.len();
        }
        Ok(())
    }

    /// The verdict is the same for the bytes as a whole, cut in two anywhere, and one by one.
    fn check(bytes: &[u8], clear: bool) {
        let whole = follow(&[bytes]);
        assert_eq!(whole.is_ok(), clear, "{}", bytes.escape_ascii());
        for cut in 1..bytes.len() {
            let (one, two) = bytes.split_at(cut);
            let halves = follow(&[one, two]);
            assert_eq!(
                halves.is_ok(),
                clear,
                "{} | {}",
                one.escape_ascii(),
                two.escape_ascii()
            );
        }
        let single: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(follow(&single).is_ok(), clear, "{}", bytes.escape_ascii());
    }

    #[test]
    fn clear_requests_are_clear() {
        for bytes in [
            b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".as_slice(),
            b"\r\nGET / HTTP/1.1\r\nhost:a\r\nx:\t y \r\n\r\nGET / HTTP/1.0\r\n\r\n",
            b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\na\nb\0cGET /x HTTP/1.1\r\n\r\n",
            b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\nGET /x HTTP/1.1\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhe\nlo\r\n0\r\n\r\n",
            b"POST / HTTP/1.1\r\ntransfer-encoding:chunked\r\n\r\n1;a=b;c=\"d;e\"\r\nx\r\n\
              0\r\nx-a: b\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        ] {
            check(bytes, true);
        }
    }

    #[test]
    fn what_two_readers_could_take_in_two_ways_is_not() {
        for head in [
            "content-length: 5\r\ncontent-length: 5",
            "content-length: 5\r\ntransfer-encoding: chunked",
            "transfer-encoding: chunked\r\ncontent-length: 5",
            "content-length: 5, 5",
            "content-length: +5",
            "content-length: 0x5",
            "content-length: 18446744073709551621",
            "content-length:",
            "transfer-encoding: xchunked",
            "transfer-encoding: chunked, chunked",
            "transfer-encoding: chunked;q=1",
            "transfer-encoding:\r\n chunked",
            "x : y",
            " x: y",
            "x y: z",
            ": y",
            "no colon",
            "x: a\0b",
            "x: a\rb",
            "x: a\nb: c",
        ] {
            check(
                format!("POST / HTTP/1.1\r\n{head}\r\n\r\n").as_bytes(),
                false,
            );
        }
        for line in [
            "GET  / HTTP/1.1",
            "GET /a b HTTP/1.1",
            "GET /a#b HTTP/1.1",
            "GET / HTTP/1.2",
            "GET / HTTP/2.0",
            "GET /",
            "G(T / HTTP/1.1",
            "GET /\t HTTP/1.1",
            "\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1",
        ] {
            check(format!("{line}\r\nhost: a\r\n\r\n").as_bytes(), false);
        }
        check(b"GET / HTTP/1.1\nhost: a\n\n", false);
        check(
            b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
            false,
        );
    }

    #[test]
    fn chunks_are_held_to_the_letter() {
        let long = format!("5;{}\r\n", "a".repeat(300));
        let fields = "x: y\r\n".repeat(17);
        for body in [
            "0x5\r\nhello\r\n0\r\n\r\n",
            "5 \r\nhello\r\n0\r\n\r\n",
            "+5\r\nhello\r\n0\r\n\r\n",
            "5_0\r\n",
            "\r\n",
            "11111111111111111\r\n",
            "5\nhello\r\n0\r\n\r\n",
            "5;a=1\nhello\r\n0\r\n\r\n",
            "5;a=\"\r\nhello\r\n0\r\n\r\n",
            "5\r\nhelloXX0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5\r\nhello\r\n0\r\n\n",
            "0\r\nx : y\r\n\r\n",
            &long,
            &format!("0\r\n{fields}\r\n"),
        ] {
            let bytes = format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{body}");
            check(bytes.as_bytes(), false);
        }
    }

    #[test]
    fn hyper_gets_everything_before_the_doubt() {
        let first = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".as_slice();
        let second = b"GET / HTTP/1.1\r\nhost : a\r\n\r\n".as_slice();
        assert_eq!(
            follow(&[&[first, second].concat()]),
            Err((first.len(), true))
        );
        let chunked = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n".as_slice();
        let clear = [chunked, b"1\r\nx\r\n"].concat();
        assert_eq!(
            follow(&[&[&clear, b"z\r\n".as_slice()].concat()]),
            Err((clear.len(), false))
        );
    }
}
