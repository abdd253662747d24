//! Compresses a layer with gzip: the same bytes give the same result, with every version of every
//! library.
//!
//! The output of other compressors may change from one release to the next, and with it the digest
//! of a layer. This one is part of the program: greedy matching with one candidate per position and
//! the fixed codes of RFC 1951, like fast levels of other compressors. Any change of its output
//! changes the digests of all rebuilt catalogs; a test detects that.

use std::io::{self, Write};

use flate2::Crc;

/// The size of a block. Matches do not reach from one block into another.
const BLOCK: usize = 1 << 20;
const HASH_BITS: u32 = 15;
const MIN_MATCH: usize = 4;
const MAX_MATCH: usize = 258;
const MAX_DISTANCE: usize = 32 << 10;
const ABSENT: u32 = u32::MAX;

/// No time, no name, no hints, an unknown system: nothing depends on the machine.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// The lowest length of each length code, and its number of extra bits.
const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];

/// The same for distances.
const DISTANCES: [(u16, u8); 30] = [
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 1),
    (7, 1),
    (9, 2),
    (13, 2),
    (17, 3),
    (25, 3),
    (33, 4),
    (49, 4),
    (65, 5),
    (97, 5),
    (129, 6),
    (193, 6),
    (257, 7),
    (385, 7),
    (513, 8),
    (769, 8),
    (1025, 9),
    (1537, 9),
    (2049, 10),
    (3073, 10),
    (4097, 11),
    (6145, 11),
    (8193, 12),
    (12289, 12),
    (16385, 13),
    (24577, 13),
];

/// Compresses what is written to it, and writes the result to `W`.
#[derive(Debug)]
pub struct GzipWriter<W: Write> {
    bits: Bits<W>,
    block: Vec<u8>,
    /// The last position in the block of four bytes with a hash.
    seen: Vec<u32>,
    crc: Crc,
}

impl<W: Write> GzipWriter<W> {
    /// Writes the header.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&HEADER)?;
        Ok(Self {
            bits: Bits { out, held: 0, count: 0 },
            block: Vec::with_capacity(BLOCK),
            seen: vec![ABSENT; 1 << HASH_BITS],
            crc: Crc::new(),
        })
    }

    /// Writes the rest, and returns the inner writer. Without this call the result is incomplete.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_block()?;
        // An empty block ends the stream.
        self.bits.write(0b011, 3)?;
        self.bits.write(0, 7)?;
        let mut out = self.bits.finish()?;
        out.write_all(&self.crc.sum().to_le_bytes())?;
        out.write_all(&self.crc.amount().to_le_bytes())?;
        Ok(out)
    }

    fn flush_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        self.crc.update(&self.block);
        // Not the last block, and one with fixed codes.
        self.bits.write(0b010, 3)?;
        self.seen.fill(ABSENT);
        let mut at = 0;
        while at < self.block.len() {
            match self.find_match(at) {
                Some((length, distance)) => {
                    self.bits.length(length)?;
                    self.bits.distance(distance)?;
                    for inside in at + 1..at + length {
                        self.record(inside);
                    }
                    at += length;
                }
                None => {
                    self.bits.literal(self.block[at])?;
                    at += 1;
                }
            }
        }
        self.bits.symbol(256)?;
        self.block.clear();
        Ok(())
    }

    /// Records the position; returns the previous one with the same hash.
    fn record(&mut self, at: usize) -> Option<usize> {
        let word: [u8; 4] = self.block.get(at..at + MIN_MATCH)?.try_into().ok()?;
        let hash = u32::from_le_bytes(word).wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS);
        let slot = self.seen.get_mut(usize::try_from(hash).ok()?)?;
        let before = std::mem::replace(slot, u32::try_from(at).ok()?);
        usize::try_from(before).ok().filter(|_| before != ABSENT)
    }

    /// Length and distance of an earlier match for the bytes at `at`.
    fn find_match(&mut self, at: usize) -> Option<(usize, usize)> {
        let before = self.record(at)?;
        let limit = MAX_MATCH.min(self.block.len() - at);
        let pairs = self.block[before..].iter().zip(&self.block[at..]);
        let length = pairs.take(limit).take_while(|(one, other)| one == other).count();
        (length >= MIN_MATCH && at - before <= MAX_DISTANCE).then_some((length, at - before))
    }
}

impl<W: Write> Write for GzipWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = BLOCK - self.block.len();
        let taken = &bytes[..bytes.len().min(room)];
        self.block.extend_from_slice(taken);
        if self.block.len() == BLOCK {
            self.flush_block()?;
        }
        Ok(taken.len())
    }

    /// Does not write an unfinished block: flushing must not change the result.
    fn flush(&mut self) -> io::Result<()> {
        self.bits.out.flush()
    }
}

/// A stream of bits; the first is the lowest bit of a byte.
#[derive(Debug)]
struct Bits<W> {
    out: W,
    held: u64,
    count: u32,
}

impl<W: Write> Bits<W> {
    fn write(&mut self, bits: u32, count: u32) -> io::Result<()> {
        self.held |= u64::from(bits) << self.count;
        self.count += count;
        if self.count >= 32 {
            self.out.write_all(&self.held.to_le_bytes()[..4])?;
            self.held >>= 32;
            self.count -= 32;
        }
        Ok(())
    }

    /// Codes are written with their highest bit first.
    fn code(&mut self, code: u32, count: u32) -> io::Result<()> {
        self.write(code.reverse_bits() >> (32 - count), count)
    }

    fn literal(&mut self, byte: u8) -> io::Result<()> {
        self.symbol(u32::from(byte))
    }

    /// The fixed codes of RFC 1951, 3.2.6.
    fn symbol(&mut self, symbol: u32) -> io::Result<()> {
        match symbol {
            0..=143 => self.code(0x30 + symbol, 8),
            144..=255 => self.code(0x190 + symbol - 144, 9),
            256..=279 => self.code(symbol - 256, 7),
            _ => self.code(0xc0 + symbol - 280, 8),
        }
    }

    fn length(&mut self, length: usize) -> io::Result<()> {
        let (code, extra, bits) = coded(&LENGTHS, length);
        self.symbol(257 + code)?;
        self.write(extra, bits)
    }

    fn distance(&mut self, distance: usize) -> io::Result<()> {
        let (code, extra, bits) = coded(&DISTANCES, distance);
        self.code(code, 5)?;
        self.write(extra, bits)
    }

    fn finish(mut self) -> io::Result<W> {
        let bytes = self.count.div_ceil(8);
        self.out.write_all(&self.held.to_le_bytes()[..bytes as usize])?;
        Ok(self.out)
    }
}

/// The code of a value, its extra bits, and their number.
fn coded(table: &[(u16, u8)], value: usize) -> (u32, u32, u32) {
    let index = table.partition_point(|(lowest, _)| usize::from(*lowest) <= value).max(1) - 1;
    let (lowest, bits) = table[index];
    let extra = value - usize::from(lowest);
    // Both fit: there are 30 codes, and at most 13 extra bits.
    (u32::try_from(index).unwrap_or(0), u32::try_from(extra).unwrap_or(0), u32::from(bits))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn pack(bytes: &[u8], step: usize) -> Vec<u8> {
        let mut gzip = GzipWriter::new(Vec::new()).unwrap();
        for part in bytes.chunks(step.max(1)) {
            gzip.write_all(part).unwrap();
            gzip.flush().unwrap();
        }
        gzip.finish().unwrap()
    }

    /// Unpacks with gzip, which checks length and checksum.
    fn unpack(packed: &[u8]) -> Vec<u8> {
        let mut child = std::process::Command::new("gzip")
            .arg("-dc")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let packed = packed.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&packed));
        let mut bytes = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
        writer.join().unwrap().unwrap();
        assert!(child.wait().unwrap().success());
        bytes
    }

    /// Bytes that a generator with this seed makes, in words of a small alphabet.
    fn text(seed: u32, length: usize) -> Vec<u8> {
        let mut state = seed;
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let word =
                [&b"\"name\": "[..], b"\"image\": ", b"quay.io/", b"\n", b"sha256:", b"{", b"},"]
                    [(state >> 24) as usize % 7];
            bytes.extend_from_slice(word);
            bytes.push((state >> 16) as u8);
        }
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn packed_bytes_are_unpacked_unchanged() {
        let zeros = vec![0; BLOCK + 5];
        let all: Vec<u8> = (0..=255).cycle().take(70_000).collect();
        for bytes in [&b""[..], b"a", b"abcd", b"aaaaaaaaaaaaaaaaaaaaaaaaa", &zeros, &all] {
            assert!(unpack(&pack(bytes, 1 << 16)) == bytes, "{} bytes", bytes.len());
        }
        for length in [1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17] {
            let bytes = text(7, length);
            assert!(unpack(&pack(&bytes, 4096)) == bytes, "{length} bytes");
        }
    }

    #[test]
    fn the_result_depends_only_on_the_bytes_and_not_on_how_they_are_written() {
        let bytes = text(3, 100_000);
        let packed = pack(&bytes, 1 << 20);
        assert!(packed.len() < bytes.len() / 2, "{}", packed.len());
        for step in [1, 7, 512, 65_537] {
            assert!(pack(&bytes, step) == packed, "{step}");
        }
    }

    /// Written out by hand from RFC 1951 and RFC 1952: `a` ten times is a literal, then a match of
    /// nine at distance one.
    #[test]
    fn the_bits_are_those_of_the_specification() {
        let packed = pack(b"aaaaaaaaaa", 10);
        // 0,10 | a = 0x30+0x61 = 10010001 | 9 → code 263 = 0000111 | distance 1 = 00000 | end = 0000000,
        // then the empty last block 1,10 0000000; checksum; length.
        let bits = "010".chars().rev().collect::<String>()
            + "10010001"
            + "0000111"
            + "00000"
            + "0000000"
            + &"011".chars().rev().collect::<String>()
            + "0000000";
        let mut expected = vec![0u8; bits.len().div_ceil(8)];
        for (index, bit) in bits.chars().enumerate() {
            expected[index / 8] |= u8::from(bit == '1') << (index % 8);
        }
        assert_eq!(packed[10..packed.len() - 8], expected[..]);
        assert_eq!(packed[packed.len() - 4..], 10u32.to_le_bytes());
    }
}
