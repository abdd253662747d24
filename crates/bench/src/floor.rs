//! The minimum for every client: each byte is hashed and written once.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use oci::Hasher;

use crate::launch::{self, Invocation, Usage};
use crate::test_bed::TestBed;

/// One reader and one buffer: the fastest way without special system calls.
const BUFFER: usize = 1 << 20;

/// Measures it with the blobs of the corpus, as the source registry stores them.
pub(crate) fn measure(test_bed: &TestBed, runs: usize) -> Result<Vec<Usage>> {
    println!("hashing and copying, without network");
    (0..runs)
        .map(|_| {
            let folder = test_bed.folder()?;
            let list = folder.path().join("list");
            fs::write(&list, test_bed.blob_files()?.join("\n"))
                .with_context(|| format!("writing {}", list.display()))?;
            let to = folder.path().join("copy");
            let (list, to) = (list.display().to_string(), to.display().to_string());
            let invocation = Invocation::of_this_program(&["hash-and-copy", &list, &to])?;
            test_bed.settle();
            launch::measure(&invocation, &folder.path().join("log"))
        })
        .collect()
}

/// The measured process: copies each file of a list into a folder and hashes it.
pub(crate) fn hash_and_copy(list: &Path, to: &Path) -> Result<()> {
    let files = fs::read_to_string(list).with_context(|| format!("reading {}", list.display()))?;
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    let mut buffer = vec![0; BUFFER];
    for (number, file) in files.lines().enumerate() {
        let copying = || format!("copying {file}");
        let mut source = File::open(file).with_context(copying)?;
        let mut target = File::create(to.join(number.to_string())).with_context(copying)?;
        let mut hasher = Hasher::new();
        loop {
            let count = source.read(&mut buffer).with_context(copying)?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            target.write_all(&buffer[..count]).with_context(copying)?;
        }
        // Printed, so that the compiler cannot remove the hashing as unused.
        println!("{} {file}", hasher.finish());
    }
    Ok(())
}
