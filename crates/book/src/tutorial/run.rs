//! Runs a tutorial on this machine only, with generated content in place of public registries.
//!
//! The commands are those of the page, except for addresses: registries of this machine listen on
//! free ports, so that nothing else is disturbed. Public names are redirected by `registries.conf`.

use std::fs::{self, File};
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lab::images::Image;
use lab::registry::{LabRegistry, Settings};

use super::Tutorial;
use crate::pages::write;

/// The registry that tutorials mirror from, and what it has.
const SOURCE: &str = "registry.access.redhat.com";
const IMAGES: [(&str, &str); 2] = [("ubi9/ubi-micro", "latest"), ("ubi9/ubi-minimal", "latest")];

/// The registry on the disconnected side, and the address that `oc-mirror serve` gets.
const TARGET: &str = "localhost:5000";
const SERVER: &str = "127.0.0.1:5001";

/// Ends a tutorial that hangs.
const DEADLINE: Duration = Duration::from_secs(300);

/// Printed before each block, to separate the output of the blocks.
const MARK: &str = "@@ block of line ";

/// Runs the commands of a tutorial. Returns what differs from the page, with the line.
pub(crate) fn run(tutorial: &Tutorial, programs: &Path) -> Result<Vec<String>> {
    if tutorial.blocks.is_empty() {
        return Ok(Vec::new());
    }
    let folder =
        tempfile::Builder::new().prefix("tutorial-").tempdir().context("creating a folder")?;
    let (source, target) =
        (LabRegistry::start(Settings::default())?, LabRegistry::start(Settings::default())?);
    for (repository, tag) in IMAGES {
        source.put_image(&Image::tiny(repository)?, repository, tag)?;
    }
    let home = folder.path().join("home");
    let registries = format!(
        "[[registry]]\nprefix = {SOURCE:?}\nlocation = {:?}\ninsecure = true\n",
        source.address().to_string()
    );
    write(&home.join(".config/containers/registries.conf"), registries)?;
    let addresses = [(TARGET, target.address().to_string()), (SERVER, free_address()?)];
    let script = addresses
        .iter()
        .fold(script(tutorial), |script, (printed, real)| script.replace(printed, real));
    let output = shell(&script, folder.path(), &home, programs)?;
    // The page has the printed addresses.
    let text =
        addresses.iter().fold(output.text, |text, (printed, real)| text.replace(real, printed));
    Ok(findings(tutorial, &text, output.success))
}

fn free_address() -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("finding a free port")?;
    Ok(listener.local_addr().context("finding a free port")?.to_string())
}

fn script(tutorial: &Tutorial) -> String {
    let mut script =
        "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n".to_owned();
    for block in &tutorial.blocks {
        script += &format!("printf '\\n%s\\n' '{MARK}{}'\n{}", block.line, block.commands);
    }
    script
}

struct Output {
    text: String,
    success: bool,
}

/// Runs a script in an empty folder. Its output goes to a file: a server that keeps
/// running in the background must not delay the end.
fn shell(script: &str, folder: &Path, home: &Path, programs: &Path) -> Result<Output> {
    let (work, log) = (folder.join("work"), folder.join("output"));
    fs::create_dir_all(&work).context("creating a folder")?;
    write(&folder.join("script"), script)?;
    let file = File::create(&log).context("creating a file for the output")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut child = Command::new("bash")
        .arg(folder.join("script"))
        .current_dir(&work)
        .env_clear()
        .env("HOME", home)
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("LANG", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(file.try_clone().context("sharing the file for the output")?)
        .stderr(file)
        .spawn()
        .context("starting bash")?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().context("waiting for bash")? {
            break status;
        }
        if start.elapsed() > DEADLINE {
            child.kill().context("ending bash")?;
            bail!("the commands did not end within {} s", DEADLINE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut bytes = Vec::new();
    File::open(&log)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .context("reading the output")?;
    Ok(Output { text: String::from_utf8_lossy(&bytes).into_owned(), success: status.success() })
}

/// Compares what each block printed with the page.
fn findings(tutorial: &Tutorial, output: &str, success: bool) -> Vec<String> {
    let mut findings = Vec::new();
    let printed = |line: usize| {
        let mark = format!("{MARK}{line}\n");
        let after = output.split_once(&mark)?.1;
        Some(after.split_once(MARK).map_or(after, |(before, _)| before))
    };
    for block in &tutorial.blocks {
        let Some(printed) = printed(block.line) else { continue };
        for line in &block.expected {
            if !line.occurs_in(printed) {
                findings.push(format!(
                    "{}: expected the line `{}`, found\n{}",
                    line.line,
                    line.text,
                    printed.trim_end()
                ));
            }
        }
    }
    if !success {
        let last =
            tutorial.blocks.iter().rev().find_map(|block| Some((block.line, printed(block.line)?)));
        let (line, printed) = last.unwrap_or((1, output));
        findings.push(format!("{line}: a command failed:\n{}", printed.trim_end()));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn run_page(text: &str) -> Vec<String> {
        run(&parse(text).unwrap(), Path::new("/nowhere")).unwrap()
    }

    #[test]
    fn blocks_share_a_shell_and_their_output_is_compared() {
        let page = "```sh run\nx=1; echo one\n```\n```text output\none\n```\n```sh run\necho $x\n```\n```text output\n1\n```\n";
        assert_eq!(run_page(page), Vec::<String>::new());
    }

    #[test]
    fn another_output_is_found_with_its_line() {
        let findings = run_page("```sh run\necho one\n```\n```text output\ntwo\n```\n");
        assert_eq!(findings, ["5: expected the line `two`, found\none"]);
    }

    #[test]
    fn a_failing_command_ends_the_tutorial() {
        let findings = run_page("```sh run\necho a; false\necho b\n```\n```sh run\necho c\n```\n");
        assert_eq!(findings, ["1: a command failed:\na"]);
    }

    #[test]
    fn a_server_in_the_background_does_not_keep_the_tutorial_from_ending() {
        assert_eq!(run_page("```sh run\nsleep 6000 &\n```\n"), Vec::<String>::new());
    }
}
