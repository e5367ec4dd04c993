//! A copy of an answer that is on its way to its client.
//!
//! Separate because it is made beside the passing: byte by byte, bounded, and given up at the
//! first doubt that the whole answer came. It must never keep a piece of what is passed on: that
//! would hold the buffers it was read from.

use bytes::Bytes;
use http::header::{
    AGE, CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, TRAILER, TRANSFER_ENCODING,
};
use http::{StatusCode, Version};

use super::room::Room;
use super::rules::{Storable, variant};
use super::store::{Slot, Store, Stored};
use crate::error::REQUEST_ID;
use crate::framing::{Framing, framing};

/// The largest body of a stored answer.
pub(crate) const BODY_BYTES_MAX: usize = 256 * 1024;
/// The largest head.
pub(crate) const FIELDS_BYTES_MAX: usize = 16 * 1024;

/// How much room a copy begins with when the answer does not say how long it is.
const ROOM_BYTES: usize = 4 * 1024;

/// What is known of an answer before its fields are made ready for the client.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) slot: Slot,
    pub(crate) storable: Storable,
    pub(crate) variant: Vec<u8>,
    pub(crate) head_us: u64,
    pub(crate) age_us_max: u64,
    /// Its length, where it says so.
    pub(crate) length: Option<usize>,
}

/// One copy under way.
#[derive(Debug)]
pub(crate) struct Copy {
    begun: Begun,
    status: StatusCode,
    fields: Vec<u8>,
    body: Vec<u8>,
    room: Room,
}

/// How long the answer is, when its end can be told from its being cut; `None`: it cannot, or it
/// is too long. The inner `None`: it does not say.
pub(crate) fn length(headers: &HeaderMap, version: Version) -> Option<Option<usize>> {
    match framing(headers).ok()? {
        Framing::Length(bytes) => {
            let bytes = usize::try_from(bytes).ok()?;
            (bytes <= BODY_BYTES_MAX).then_some(Some(bytes))
        }
        Framing::Chunked => Some(None),
        // Over HTTP/1 it would end with its connection, whole or not.
        Framing::None => (version == Version::HTTP_2).then_some(None),
    }
}

impl Begun {
    /// The copy of an answer with these fields, as the client gets them. `date`: of an answer
    /// that has none, made when it is needed. `None`: its fields are too large, or there is no
    /// room.
    pub(crate) fn copy(
        self,
        status: StatusCode,
        headers: &HeaderMap,
        date: impl FnOnce() -> String,
        store: &Store,
    ) -> Option<Copy> {
        let mut room = store.room(&self.slot);
        let mut fields = Vec::with_capacity(512);
        for (name, value) in headers.iter().filter(|(name, _)| is_kept(name)) {
            put(&mut fields, name.as_str().as_bytes(), value.as_bytes())?;
        }
        if !self.storable.has_date {
            put(&mut fields, DATE.as_str().as_bytes(), date().as_bytes())?;
        }
        let bytes = self.length.unwrap_or(ROOM_BYTES);
        let fits = fields.len() <= FIELDS_BYTES_MAX && room.grow(fields.capacity() + bytes);
        fits.then(|| Copy {
            body: Vec::with_capacity(bytes),
            begun: self,
            status,
            fields,
            room,
        })
    }
}

impl Copy {
    /// Takes the next piece; false when it is too long to go on, or there is no room.
    pub(crate) fn take(&mut self, data: &Bytes) -> bool {
        let bytes = self.body.len() + data.len();
        let fits = bytes <= BODY_BYTES_MAX && self.make_room(bytes);
        if fits {
            self.body.extend_from_slice(data);
        }
        fits
    }

    fn make_room(&mut self, bytes: usize) -> bool {
        let known = self.body.capacity();
        if bytes <= known {
            return true;
        }
        let wanted = known.saturating_mul(2).clamp(bytes, BODY_BYTES_MAX);
        let fits = self.room.grow(wanted - known);
        if fits {
            self.body.reserve_exact(wanted - self.body.len());
        }
        fits
    }

    /// The answer came to its clean end.
    pub(crate) fn end(mut self, store: &Store) {
        let begun = self.begun;
        if begun.length.is_some_and(|length| length != self.body.len()) {
            return;
        }
        self.room.done();
        let stored = Stored {
            status: self.status,
            vary: begun.storable.vary,
            variant: begun.variant.into_boxed_slice(),
            fields: self.fields.into_boxed_slice(),
            body: Bytes::from(self.body.into_boxed_slice()),
            is_public: begun.storable.is_public,
            head_us: begun.head_us,
            age_us: begun.storable.age_us,
            fresh_us: begun.storable.fresh_us,
            age_us_max: match begun.storable.fresh_only {
                true => begun.age_us_max.min(begun.storable.fresh_us),
                false => begun.age_us_max,
            },
        };
        store.put(&begun.slot, stored);
    }
}

/// What the next answer says anew, or what spoke of one transfer.
fn is_kept(name: &HeaderName) -> bool {
    let anew = [AGE, CONTENT_LENGTH, REQUEST_ID, TRAILER, TRANSFER_ENCODING];
    !anew.contains(name)
}

fn put(out: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Option<()> {
    out.extend_from_slice(&u16::try_from(name.len()).ok()?.to_be_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(&u16::try_from(value.len()).ok()?.to_be_bytes());
    out.extend_from_slice(value);
    Some(())
}

/// Adds the fields of a stored answer to `headers`.
pub(crate) fn put_back(mut fields: &[u8], headers: &mut HeaderMap) -> Option<()> {
    while !fields.is_empty() {
        let name = HeaderName::from_bytes(piece(&mut fields)?).ok()?;
        let value = HeaderValue::from_bytes(piece(&mut fields)?).ok()?;
        headers.append(name, value);
    }
    Some(())
}

fn piece<'a>(fields: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = fields.split_first_chunk::<2>()?;
    let (piece, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *fields = rest;
    Some(piece)
}

/// True when a request with these fields is one that the stored answer is for.
pub(crate) fn is_for(stored: &Stored, headers: &HeaderMap) -> bool {
    variant(&stored.vary, headers).is_some_and(|asked| *asked == *stored.variant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn begun(length: Option<usize>) -> Begun {
        Begun {
            slot: Slot {
                owner: Arc::from(b"a".as_slice()),
                target: Box::from(b"/".as_slice()),
                is_only_owner: false,
            },
            storable: Storable {
                is_public: false,
                age_us: 0,
                fresh_us: 0,
                fresh_only: false,
                vary: Vec::new(),
                has_date: false,
            },
            variant: Vec::new(),
            head_us: 1,
            age_us_max: 10,
            length,
        }
    }

    fn headers() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.append("x-a", HeaderValue::from_static("1"));
        headers.append("x-a", HeaderValue::from_static("2"));
        headers.append("x-bytes", HeaderValue::from_bytes(b"\xe4").unwrap());
        headers.append("age", HeaderValue::from_static("7"));
        headers.append("x-request-id", HeaderValue::from_static("r"));
        headers
    }

    #[test]
    fn fields_come_back_as_they_were_but_for_those_of_one_answer() {
        let store = Store::default();
        let copy = begun(None)
            .copy(StatusCode::OK, &headers(), || "then".to_owned(), &store)
            .unwrap();
        let mut back = HeaderMap::new();
        put_back(&copy.fields, &mut back).unwrap();
        let mut wanted = headers();
        wanted.remove("age");
        wanted.remove("x-request-id");
        wanted.insert("date", HeaderValue::from_static("then"));
        assert_eq!(back, wanted);
        assert!(put_back(b"\x00\x05abc", &mut back).is_none());
        let long = "x".repeat(FIELDS_BYTES_MAX);
        let mut large = HeaderMap::new();
        large.insert("x-a", HeaderValue::from_str(&long).unwrap());
        let copied = begun(None).copy(StatusCode::OK, &large, String::new, &store);
        assert!(copied.is_none());
    }

    #[test]
    fn only_a_whole_answer_is_stored_and_none_that_is_too_long() {
        let put = |length: Option<usize>, pieces: &[usize]| {
            let store = Store::default();
            let copied = begun(length).copy(StatusCode::OK, &headers(), String::new, &store);
            let mut copy = copied.unwrap();
            let whole = pieces
                .iter()
                .all(|bytes| copy.take(&Bytes::from(vec![0; *bytes])));
            if whole {
                copy.end(&store);
            } else {
                drop(copy);
            }
            let stored = store.size().0;
            let given_up = usize::try_from(store.rooms.given_up()).unwrap();
            assert_eq!((stored + given_up, store.rooms.bytes()), (1, 0));
            stored
        };
        assert_eq!(put(None, &[3, 4]), 1);
        assert_eq!(put(Some(7), &[3, 4]), 1);
        assert_eq!(put(Some(8), &[3, 4]), 0);
        assert_eq!(put(Some(0), &[]), 1);
        assert_eq!(put(None, &[BODY_BYTES_MAX]), 1);
        assert_eq!(put(None, &[BODY_BYTES_MAX, 1]), 0);
    }

    #[test]
    fn what_ends_with_its_connection_is_not_known_to_be_whole() {
        let of = |fields: &[(&'static str, &'static str)], version| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(*name, HeaderValue::from_static(value));
            }
            length(&headers, version)
        };
        assert_eq!(
            of(&[("content-length", "5")], Version::HTTP_11),
            Some(Some(5))
        );
        assert_eq!(
            of(&[("transfer-encoding", "chunked")], Version::HTTP_11),
            Some(None)
        );
        assert_eq!(of(&[], Version::HTTP_11), None);
        assert_eq!(of(&[], Version::HTTP_10), None);
        assert_eq!(of(&[], Version::HTTP_2), Some(None));
        assert_eq!(of(&[("content-length", "262145")], Version::HTTP_11), None);
        assert_eq!(of(&[("content-length", "5, 5")], Version::HTTP_11), None);
    }
}
