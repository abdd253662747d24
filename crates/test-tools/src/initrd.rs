//! Writes the initial root of a kernel, an archive in cpio's `newc` format.

/// An archive that is being written.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;

impl Archive {
    pub(super) fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, &[]);
    }

    pub(super) fn program(&mut self, path: &str, content: &[u8]) {
        self.entry(path, PROGRAM, content);
    }

    pub(super) fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, FILE, content);
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name = u32::try_from(path.len() + 1).unwrap_or(u32::MAX);
        // inode, mode, owner, group, links, time, size, four numbers of devices, length of the
        // name, checksum
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_laid_out_as_the_kernel_reads_them() {
        let mut archive = Archive::default();
        archive.file("ab", b"hello");
        let bytes = archive.finish();
        // From the kernel's documentation: a header of 110 bytes, then the name and the content,
        // each up to the next multiple of four.
        assert_eq!(&bytes[..14], b"07070100000001");
        assert_eq!(&bytes[14..22], b"000081A4", "a plain file, 0644");
        assert_eq!(&bytes[54..62], b"00000005", "its size");
        assert_eq!(&bytes[94..102], b"00000003", "the length of its name with its end");
        assert_eq!(&bytes[110..116], b"ab\0\0\0\0");
        assert_eq!(&bytes[116..124], b"hello\0\0\0");
        assert_eq!(&bytes[124..130], b"070701");
        assert!(bytes[234..].starts_with(b"TRAILER!!!\0"));
    }
}
