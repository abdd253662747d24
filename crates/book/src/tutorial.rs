//! Tutorials: pages whose commands are run as they are printed.
//!
//! A block of commands is marked in its first line:
//!
//! | first line | meaning |
//! |---|---|
//! | ` ```sh run ` | run, in the order of the page, in one shell and one empty folder |
//! | ` ```sh skip: REASON ` | not run, for the reason, which is reported |
//! | ` ```text output ` | every line occurs in what the block before printed; `…` stands for anything |
//!
//! A block of commands without a mark is an error, so that none is left out by oversight.

mod run;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

pub(crate) use run::run;

/// A page, as far as it is run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tutorial {
    pub(crate) blocks: Vec<Block>,
    pub(crate) skips: Vec<Skip>,
}

/// Commands, and what they must print.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line of the page that the block begins in.
    pub(crate) line: usize,
    pub(crate) commands: String,
    pub(crate) expected: Vec<Line>,
}

/// A line of expected output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// Commands that are not run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    pub(crate) line: usize,
    pub(crate) reason: String,
}

/// Whether a page is a tutorial, by its name.
pub(crate) fn is_tutorial(page: &Path) -> bool {
    let name = page.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("tutorial-") && name.ends_with(".md")
}

/// Reads a tutorial of the repository at `root`.
pub(crate) fn read(root: &Path, page: &Path) -> Result<Tutorial> {
    let path = root.join(page);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text).with_context(|| format!("reading {}", page.display()))
}

fn parse(text: &str) -> Result<Tutorial> {
    let mut tutorial = Tutorial::default();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(mark) = line.strip_prefix("```") else { continue };
        let line = at + 1;
        let content: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        match mark.split_once(' ').unwrap_or((mark, "")) {
            ("sh", "run") => tutorial.blocks.push(Block {
                line,
                commands: content.join("\n") + "\n",
                expected: Vec::new(),
            }),
            ("sh", mark) => match mark.strip_prefix("skip: ") {
                Some(reason) if !reason.trim().is_empty() => {
                    tutorial.skips.push(Skip { line, reason: reason.trim().to_owned() });
                }
                _ => {
                    bail!("line {line}: expected `sh run` or `sh skip: REASON`, found `sh {mark}`")
                }
            },
            ("text", "output") => {
                let Some(block) = tutorial.blocks.last_mut() else {
                    bail!("line {line}: output without commands before it");
                };
                let lines = content.iter().enumerate();
                block.expected.extend(lines.map(|(count, text)| Line {
                    line: line + 1 + count,
                    text: (*text).to_owned(),
                }));
            }
            _ => {}
        }
    }
    if tutorial.blocks.is_empty() && tutorial.skips.is_empty() {
        bail!("a tutorial has commands");
    }
    Ok(tutorial)
}

impl Line {
    /// Whether a line of `output` has all parts of this one, in their order.
    fn occurs_in(&self, output: &str) -> bool {
        output.lines().any(|line| {
            let mut rest = line;
            self.text.trim().split('…').all(|part| match rest.find(part) {
                Some(at) => {
                    rest = &rest[at + part.len()..];
                    true
                }
                None => false,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_blocks_are_run_or_skipped_with_their_reason() {
        let text = "# T\n\n```sh run\na\nb\n```\n\n```text output\nx … z\n```\n\n```yaml\nc: 1\n```\n\n```sh skip: needs a cluster\nd\n```\n";
        let tutorial = parse(text).unwrap();
        assert_eq!(
            tutorial,
            Tutorial {
                blocks: vec![Block {
                    line: 3,
                    commands: "a\nb\n".to_owned(),
                    expected: vec![Line { line: 9, text: "x … z".to_owned() }],
                }],
                skips: vec![Skip { line: 16, reason: "needs a cluster".to_owned() }],
            }
        );
    }

    #[test]
    fn a_block_without_a_mark_is_an_error() {
        for text in
            ["```sh\na\n```\n", "```sh skip:\na\n```\n", "```text output\na\n```\n", "# T\n"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_ellipsis_stands_for_anything_within_a_line() {
        let occurs =
            |text: &str, output: &str| Line { line: 1, text: text.to_owned() }.occurs_in(output);
        assert!(occurs("a … c", "x\n1 a 2 c 3\n"));
        assert!(occurs("  a", "a\n"));
        assert!(!occurs("a … c", "a\nc\n"));
        assert!(!occurs("c … a", "a c\n"));
    }
}
