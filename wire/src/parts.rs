//! A document in parts, each known by its content.
//!
//! Separate because the edit of one tenant must not move a document of 20 MB: both ends cut the
//! same bytes at the same places, and what the other end has is left out. Where to cut is decided
//! by the bytes just before, so an edit moves the cuts around it and no others. It must never be
//! trusted with the whole: the document's own digest is checked over what was put together.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};

use crate::document::DOCUMENT_BYTES_MAX;
use crate::stream::proto::Part;

/// A smaller document goes whole: its list of parts would be no shorter.
pub const SPLIT_BYTES_MIN: usize = 64 << 10;
/// No part is smaller, the last one excepted.
const PART_BYTES_MIN: usize = 4 << 10;
/// No part is larger.
const PART_BYTES_MAX: usize = 64 << 10;
/// Most parts of one document.
const PARTS_MAX: usize = DOCUMENT_BYTES_MAX / PART_BYTES_MIN + 1;
/// A cut where these bits of the rolling hash are 0: every 16 KiB beyond the smallest part.
const CUT_BITS: u64 = 0x3FFF << 48;

/// The first half of a part's SHA-256. Enough to find it by; the whole is checked by the whole.
pub type PartDigest = [u8; 16];

/// A document and where its parts lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    document: Bytes,
    list: Vec<(PartDigest, Range<usize>)>,
    digests: Arc<HashSet<PartDigest>>,
}

/// A part that was left out is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a part that was left out is not there")]
pub struct MissingPart;

impl Parts {
    /// Cuts a document.
    pub fn of(document: Bytes) -> Self {
        let list: Vec<_> = cuts(&document)
            .into_iter()
            .map(|range| {
                (
                    digest(document.get(range.clone()).unwrap_or_default()),
                    range,
                )
            })
            .collect();
        let digests = list.iter().map(|(digest, _)| *digest).collect();
        Self {
            document,
            list,
            digests: Arc::new(digests),
        }
    }

    /// The whole.
    pub const fn document(&self) -> &Bytes {
        &self.document
    }

    /// What somebody has who has this document; small beside it.
    pub fn digests(&self) -> Arc<HashSet<PartDigest>> {
        Arc::clone(&self.digests)
    }

    /// The parts in their order, without the content of those that the other end `has`.
    pub fn without(&self, has: &HashSet<PartDigest>) -> Vec<Part> {
        let part = |(digest, range): &(PartDigest, Range<usize>)| Part {
            digest: Bytes::copy_from_slice(digest),
            content: if has.contains(digest) {
                Bytes::new()
            } else {
                self.document.slice(range.clone())
            },
        };
        self.list.iter().map(part).collect()
    }
}

/// Puts a document together; what was left out is taken from `base`.
pub fn assemble(parts: &[Part], base: Option<&Parts>) -> Result<Bytes, MissingPart> {
    if parts.len() > PARTS_MAX {
        return Err(MissingPart);
    }
    let known: HashMap<&[u8], &Range<usize>> = base
        .into_iter()
        .flat_map(|base| &base.list)
        .map(|(digest, range)| (digest.as_slice(), range))
        .collect();
    let mut whole = BytesMut::new();
    for part in parts {
        let content = if part.content.is_empty() {
            let range = known.get(&*part.digest).ok_or(MissingPart)?;
            base.and_then(|base| base.document.get((*range).clone()))
                .ok_or(MissingPart)?
        } else {
            &part.content
        };
        if whole.len().saturating_add(content.len()) > DOCUMENT_BYTES_MAX {
            return Err(MissingPart);
        }
        whole.extend_from_slice(content);
    }
    Ok(whole.freeze())
}

/// Where the parts lie. The hash shifts by one bit with each byte, so the upper bits that decide
/// depend on the last 64 bytes alone (the "gear" hash of Xia and others, "`FastCDC`", USENIX ATC
/// 2016).
fn cuts(document: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut start, mut hash) = (0_usize, 0_u64);
    for (at, byte) in document.iter().enumerate() {
        hash = (hash << 1).wrapping_add(GEAR.get(usize::from(*byte)).copied().unwrap_or_default());
        let end = at.saturating_add(1);
        let length = end.saturating_sub(start);
        let is_cut = length >= PART_BYTES_MIN && hash & CUT_BITS == 0;
        if is_cut || length >= PART_BYTES_MAX {
            found.push(start..end);
            start = end;
        }
    }
    if start < document.len() {
        found.push(start..document.len());
    }
    found
}

fn digest(content: &[u8]) -> PartDigest {
    let whole: [u8; 32] = Sha256::digest(content).into();
    let mut half = PartDigest::default();
    half.copy_from_slice(whole.first_chunk::<16>().unwrap_or(&[0; 16]));
    half
}

/// A number for each byte that has no pattern: both ends compute the same.
const GEAR: [u64; 256] = gear();

/// The first numbers of `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014) from 0.
const fn gear() -> [u64; 256] {
    let mut table = [0_u64; 256];
    let mut state = 0_u64;
    let mut rest: &mut [u64] = &mut table;
    while let Some((first, others)) = rest.split_first_mut() {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        *first = mixed ^ (mixed >> 31);
        rest = others;
    }
    table
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tenants as a policy writes them.
    fn document(tenants: usize) -> String {
        let mut text = String::from("{\"tenants\":{");
        for n in 0..tenants {
            let (limit, key) = (n % 97, n * 7_919);
            text.push_str(&format!(
                "\"tenant-{n:06}\":{{\"plan\":\"p\",\"limit\":{limit},"
            ));
            text.push_str(&format!("\"api_keys\":[\"sha256:{key:064x}\"]}},"));
        }
        text.push_str("\"last\":{\"limit\":1}}}");
        text
    }

    fn moved(parts: &[Part]) -> usize {
        let bytes = |part: &Part| part.digest.len() + part.content.len() + 6;
        parts.iter().map(bytes).sum()
    }

    #[test]
    fn the_parts_are_the_document_and_within_their_bounds() {
        let text = document(10_000);
        let parts = Parts::of(text.clone().into());
        let sent = parts.without(&HashSet::new());
        let last = sent.len() - 1;
        assert!(
            sent.iter()
                .enumerate()
                .all(|(n, part)| part.content.len() <= PART_BYTES_MAX
                    && (n == last || part.content.len() >= PART_BYTES_MIN))
        );
        let mean = text.len() / sent.len();
        assert!((12 << 10..32 << 10).contains(&mean), "{mean}");
        assert_eq!(assemble(&sent, None).unwrap(), text);
        assert!(Parts::of(Bytes::new()).list.is_empty());
    }

    #[test]
    fn the_edit_of_one_tenant_moves_kilobytes_of_megabytes() {
        let old = document(30_000);
        let base = Parts::of(old.clone().into());
        for (from, to) in [
            (
                "\"tenant-015000\":{\"plan\":\"p\",\"limit\":62",
                "\"tenant-015000\":{\"limit\":7000",
            ),
            (
                "\"tenant-000000\":",
                "\"tenant-0\":{\"limit\":9},\"tenant-000000\":",
            ),
            ("\"last\"", "\"the-very-last\""),
        ] {
            let new = old.replacen(from, to, 1);
            assert_ne!(old, new);
            let sent = Parts::of(new.clone().into()).without(&base.digests());
            let (moved, whole) = (moved(&sent), new.len());
            assert!(whole > 3 << 20 && moved < 192 << 10, "{moved} of {whole}");
            assert_eq!(assemble(&sent, Some(&base)).unwrap(), new);
        }
    }

    #[test]
    fn what_is_missing_or_too_large_is_told() {
        let base = Parts::of(document(2_000).into());
        let sent = base.without(&base.digests());
        assert!(sent.iter().all(|part| part.content.is_empty()));
        assert_eq!(assemble(&sent, None), Err(MissingPart));
        let other = Parts::of(document(3_000).replace("limit", "LIMIT").into());
        assert_eq!(assemble(&sent, Some(&other)), Err(MissingPart));
        // A list that names one part again and again.
        let again = vec![sent[0].clone(); PARTS_MAX];
        assert_eq!(assemble(&again, Some(&base)), Err(MissingPart));
        let more = vec![sent[0].clone(); PARTS_MAX + 1];
        assert_eq!(assemble(&more, Some(&base)), Err(MissingPart));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_edit_comes_out_as_it_went_in(
            tenants in 0_usize..1_500,
            at in any::<prop::sample::Index>(),
            out in 0_usize..200_000,
            put in prop::collection::vec(any::<u8>(), 0..70_000),
        ) {
            let old = document(tenants).into_bytes();
            let at = at.index(old.len());
            let mut new = old.clone();
            new.splice(at..(at + out).min(old.len()), put);
            let base = Parts::of(old.into());
            let sent = Parts::of(new.clone().into()).without(&base.digests());
            prop_assert_eq!(assemble(&sent, Some(&base)).unwrap(), new);
        }
    }
}
