//! Results go to standard output, messages to standard error.

use std::io::{self, Write};

use anyhow::{Context, Result};

/// Writes a result to standard output. A reader who has gone away wanted no more.
pub fn print(text: impl AsRef<[u8]>) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("writing to standard output"),
    }
}

/// Writes a line for people to standard error.
pub fn say(text: &str) {
    // If standard error is closed, there is no one to inform.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
