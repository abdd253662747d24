//! Commands of this program whose result a page shows: lists and upgrade paths. They run as
//! processes, so pages show what the commands print, and their memory is free afterwards.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// More of a result is not read.
const MAX_BYTES: u64 = 16 << 20;
const MAX_ERROR_BYTES: u64 = 64 << 10;
/// Registries and update services that do not respond are given up.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone)]
pub(crate) struct Commands {
    program: PathBuf,
}

impl Commands {
    pub(crate) fn new(program: &Path) -> Self {
        Self { program: program.to_owned() }
    }

    /// What a command prints, or the message of its failure.
    pub(crate) async fn output(&self, arguments: &[String]) -> Result<Vec<u8>, String> {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A page that is closed does not need the result.
        command.kill_on_drop(true);
        let run = async {
            let mut child = command.spawn()?;
            let (out, err) = (child.stdout.take(), child.stderr.take());
            let (mut result, mut error_output) = (Vec::new(), Vec::new());
            let read_out = async {
                match out {
                    Some(out) => out.take(MAX_BYTES).read_to_end(&mut result).await,
                    None => Ok(0),
                }
            };
            let read_err = async {
                match err {
                    Some(err) => err.take(MAX_ERROR_BYTES).read_to_end(&mut error_output).await,
                    None => Ok(0),
                }
            };
            let (out, err) = tokio::join!(read_out, read_err);
            out?;
            err?;
            let status = child.wait().await?;
            std::io::Result::Ok((status, result, error_output))
        };
        match tokio::time::timeout(PATIENCE, run).await {
            Ok(Ok((status, result, _))) if status.success() => Ok(result),
            Ok(Ok((_, _, error_output))) => Err(errors(&String::from_utf8_lossy(&error_output))),
            Ok(Err(error)) => Err(format!("running {}: {error}", self.program.display())),
            Err(_) => Err(format!("no result within {} s", PATIENCE.as_secs())),
        }
    }
}

/// The errors in a log, without times.
pub(crate) fn errors(log: &str) -> String {
    let lines = log.lines().filter_map(|line| {
        line.split_once("[ERROR]").map(|(_, text)| text.trim_start_matches([' ', ':']))
    });
    let found: Vec<&str> = lines.collect();
    match found.is_empty() {
        true => log.trim().to_owned(),
        false => found.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_displayed_without_times() {
        let log =
            "2026/11/17 09:45:32  [INFO]   : started\n2026/11/17 09:45:40  [ERROR]  : no route\n";
        assert_eq!(errors(log), "no route");
        assert_eq!(errors("error: unexpected argument\n"), "error: unexpected argument");
    }

    #[tokio::test]
    async fn a_failure_has_the_printed_message() {
        let commands = Commands::new(Path::new("/bin/sh"));
        let words = |text: &str| ["-c", text].map(str::to_owned);
        assert_eq!(commands.output(&words("echo result")).await.unwrap(), b"result\n");
        assert_eq!(commands.output(&words("echo oh >&2; exit 1")).await.unwrap_err(), "oh");
        let absent = Commands::new(Path::new("/absent")).output(&[]).await.unwrap_err();
        assert!(absent.contains("/absent"), "{absent}");
    }
}
