//! Bytes that look random and are the same every time.

use std::io::{self, Read};

use aws_lc_rs::cipher::{AES_256, EncryptionContext, StreamingEncryptingKey, UnboundCipherKey};
use oci::Digest;

const BLOCK: usize = 64 << 10;
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// An endless stream of bytes named by a text: the key stream of AES in
/// counter mode, which costs little even in an unoptimised build.
pub(crate) struct Keystream {
    key: StreamingEncryptingKey,
    // The cipher requires room for one block more than it writes.
    block: Box<[u8]>,
    used: usize,
}

impl Keystream {
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let failed = |_| io::Error::other("AES in counter mode is not available");
        let key = Digest::of(name.as_bytes()).hex();
        let key = UnboundCipherKey::new(&AES_256, &key.as_bytes()[..32]).map_err(failed)?;
        let start = EncryptionContext::Iv128([0; 16].into());
        let key = StreamingEncryptingKey::less_safe_ctr(key, start).map_err(failed)?;
        Ok(Self { key, block: vec![0; BLOCK + 16].into(), used: BLOCK })
    }
}

impl Read for Keystream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used == BLOCK {
            self.key.update(&ZEROS, &mut self.block).map_err(io::Error::other)?;
            self.used = 0;
        }
        let count = buffer.len().min(BLOCK - self.used);
        buffer[..count].copy_from_slice(&self.block[self.used..self.used + count]);
        self.used += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(name: &str, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        Keystream::new(name).unwrap().read_exact(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_name_gives_the_same_bytes_every_time_and_no_other_name_does() {
        let long = take("a", 3 * BLOCK);
        assert_eq!(long, take("a", 3 * BLOCK));
        assert_ne!(long, take("b", 3 * BLOCK));
        assert_ne!(long[..BLOCK], long[BLOCK..2 * BLOCK]);
    }
}
