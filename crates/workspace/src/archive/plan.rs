//! Which blob goes into which chunk, and where. Pure.

use mirror_plan::BlobRef;
use oci::Digest;

use super::entry::{BLOCK, footprint, padded};

/// The room that chunks have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// The largest a chunk may be.
    pub(crate) limit: u64,
    /// What of it every chunk spends on its index and its end.
    pub(crate) reserved: u64,
}

/// A piece of a blob in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) blob: Digest,
    /// Where in the blob it begins.
    pub(crate) from: u64,
    pub(crate) length: u64,
    /// Which piece of its blob it is, from 1; `None` when it is all of it.
    pub(crate) part: Option<usize>,
    /// Where its content begins in the chunk, counted from the end of the index.
    pub(crate) offset: u64,
}

/// What a chunk holds behind its index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlannedChunk {
    pub(crate) pieces: Vec<Piece>,
    /// Headers, contents and padding together.
    pub(crate) length: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a chunk of {limit} bytes has no room beside its index, which takes {reserved}")]
pub(crate) struct NoRoom {
    pub(crate) limit: u64,
    pub(crate) reserved: u64,
}

/// Fills chunks with `blobs` in their order. A blob that does not fit into
/// what is left of a chunk continues in the next one, so chunks are full and
/// none is larger than its limit. There is always at least one.
pub(crate) fn fill(blobs: &[BlobRef], room: Room) -> Result<Vec<PlannedChunk>, NoRoom> {
    let capacity = room.limit.saturating_sub(room.reserved) / BLOCK * BLOCK;
    // A header and one block of content: less would never get a blob across.
    if capacity < 2 * BLOCK {
        return Err(NoRoom { limit: room.limit, reserved: room.reserved });
    }
    let mut chunks = vec![PlannedChunk::default()];
    for blob in blobs {
        place(blob, capacity, &mut chunks);
    }
    for chunk in &mut chunks {
        chunk.pieces.shrink_to_fit();
    }
    Ok(chunks)
}

/// As [`fill`], with each group in chunks of its own. There is always at least one chunk.
pub(crate) fn fill_groups(
    groups: &[Vec<BlobRef>],
    room: Room,
) -> Result<Vec<PlannedChunk>, NoRoom> {
    let mut chunks = Vec::new();
    for group in groups.iter().filter(|group| !group.is_empty()) {
        chunks.extend(fill(group, room)?);
    }
    match chunks.is_empty() {
        true => fill(&[], room),
        false => Ok(chunks),
    }
}

fn place(blob: &BlobRef, capacity: u64, chunks: &mut Vec<PlannedChunk>) {
    let (mut from, mut count) = (0, 0);
    loop {
        let used = chunks.last().map_or(capacity, |chunk| chunk.length);
        let (left, rest) = (capacity - used, blob.size - from);
        // Not even a header and one block, or not the header of an empty blob.
        if left < BLOCK + padded(rest).min(BLOCK) {
            chunks.push(PlannedChunk::default());
            continue;
        }
        let length = rest.min(left - BLOCK);
        let whole = length == blob.size;
        count += 1;
        let piece = Piece {
            blob: blob.digest,
            from,
            length,
            part: if whole { None } else { Some(count) },
            offset: used + BLOCK,
        };
        if let Some(chunk) = chunks.last_mut() {
            chunk.pieces.push(piece);
            chunk.length += footprint(length);
        }
        from += length;
        if from == blob.size {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn blob(number: usize, size: u64) -> BlobRef {
        BlobRef { digest: Digest::of(&number.to_be_bytes()), size }
    }

    #[test]
    fn a_blob_that_does_not_fit_continues_in_the_next_chunk() {
        let room = Room { limit: 4096 + 512, reserved: 512 };
        let blobs = [blob(0, 1000), blob(1, 3000), blob(2, 0)];
        let chunks = fill(&blobs, room).unwrap();
        let shape = |chunk: &PlannedChunk| -> Vec<(u64, u64, Option<usize>, u64)> {
            chunk.pieces.iter().map(|p| (p.from, p.length, p.part, p.offset)).collect()
        };
        // 512 + 1024 for the first; 512 + 2048 are left of 4096 for the second.
        assert_eq!(shape(&chunks[0]), [(0, 1000, None, 512), (0, 2048, Some(1), 2048)]);
        assert_eq!(shape(&chunks[1]), [(2048, 952, Some(2), 512), (0, 0, None, 2048)]);
        assert_eq!(chunks[0].length, 4096);
    }

    #[test]
    fn groups_do_not_share_chunks() {
        let room = Room { limit: 4096 + 512, reserved: 512 };
        let groups = [vec![blob(0, 10)], vec![], vec![blob(1, 5000), blob(2, 1)]];
        let chunks = fill_groups(&groups, room).unwrap();
        let blobs: Vec<Vec<Digest>> =
            chunks.iter().map(|chunk| chunk.pieces.iter().map(|p| p.blob).collect()).collect();
        let name = |number: usize| Digest::of(&number.to_be_bytes());
        assert_eq!(blobs, [vec![name(0)], vec![name(1)], vec![name(1), name(2)]]);
        assert_eq!(fill_groups(&[], room).unwrap().len(), 1);
    }

    #[test]
    fn no_blobs_make_one_chunk_and_no_room_is_refused() {
        assert_eq!(fill(&[], Room { limit: 10_000, reserved: 0 }).unwrap().len(), 1);
        let room = Room { limit: 10_000, reserved: 9_500 };
        assert_eq!(fill(&[], room), Err(NoRoom { limit: 10_000, reserved: 9_500 }));
    }

    proptest! {
        #[test]
        fn no_chunk_exceeds_its_limit_and_every_byte_is_there_once(
            sizes in prop::collection::vec(prop_oneof![0_u64..5_000, 0_u64..200_000], 0..40),
            limit in 3_000_u64..100_000,
            reserved in 0_u64..1_976,
        ) {
            let blobs: Vec<BlobRef> =
                sizes.iter().enumerate().map(|(n, size)| blob(n, *size)).collect();
            let room = Room { limit, reserved };
            let chunks = fill(&blobs, room).unwrap();
            prop_assert_eq!(&fill(&blobs, room).unwrap(), &chunks);
            let mut seen: BTreeMap<Digest, (u64, usize)> = BTreeMap::new();
            for chunk in &chunks {
                prop_assert!(reserved + chunk.length <= limit);
                let mut end = 0;
                for piece in &chunk.pieces {
                    prop_assert_eq!(piece.offset, end + BLOCK);
                    end = piece.offset + piece.length.div_ceil(512) * 512;
                    let (bytes, parts) = seen.entry(piece.blob).or_default();
                    prop_assert_eq!(piece.from, *bytes);
                    *bytes += piece.length;
                    *parts += 1;
                    prop_assert!(piece.part.is_none_or(|part| part == *parts));
                    prop_assert!(piece.part.is_some() || *parts == 1);
                }
                prop_assert_eq!(end, chunk.length);
            }
            for blob in &blobs {
                prop_assert_eq!(seen[&blob.digest].0, blob.size);
            }
        }
    }
}
