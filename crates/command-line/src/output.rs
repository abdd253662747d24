//! Results go to standard output, messages to standard error.

use std::io::{self, Write};

use anyhow::{Context, Result};

/// Writes a result to standard output.
pub fn print(text: impl AsRef<[u8]>) -> Result<()> {
    write_result(text.as_ref()).context("writing to standard output")
}

/// Writes a result to standard output. A closed pipe is not an error: its reader has read enough.
pub fn write_result(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes a message to standard error.
pub fn print_message(text: &str) {
    // If standard error is closed, the message has no reader.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
