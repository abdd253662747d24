//! A writer that hashes.

use std::io::{self, Write};

use crate::{Digest, Hasher};

/// Hashes what is written through it.
///
/// # Guarantees
///
/// Bytes that the inner writer did not accept are not hashed.
#[derive(Debug)]
pub struct HashingWriter<W> {
    inner: W,
    hasher: Hasher,
}

impl<W> HashingWriter<W> {
    pub fn new(inner: W) -> Self {
        Self { inner, hasher: Hasher::new() }
    }

    /// The number of bytes so far.
    pub fn length(&self) -> u64 {
        self.hasher.length()
    }

    /// The inner writer, which was not flushed, and the digest of everything that was written.
    pub fn finish(self) -> (W, Digest) {
        (self.inner, self.hasher.finish())
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_that_were_written_are_hashed() {
        let mut room = [0; 3];
        let mut writer = HashingWriter::new(&mut room[..]);
        assert_eq!(writer.write(b"abcd").unwrap(), 3);
        assert_eq!(writer.length(), 3);
        let (rest, digest) = writer.finish();
        assert!(rest.is_empty());
        assert_eq!(digest, Digest::of(b"abc"));
    }
}
