//! Where values come from: a user at a terminal, or the current network of the node.

use std::io::{self, BufRead, Write};

use anyhow::{Result, bail};

/// A prompt for a value, and the flag that sets it instead.
pub(super) struct Question<'a> {
    pub(super) text: &'a str,
    pub(super) proposal: Option<String>,
    pub(super) flag: &'a str,
}

/// A source of values.
pub(super) trait Prompt {
    fn answer(&mut self, question: &Question<'_>) -> Result<String>;
    /// Shows something to choose from.
    fn show(&mut self, text: &str);
    /// Whether another value can be entered after an invalid one.
    fn can_correct(&self) -> bool;
}

/// Prompts until the value is valid, if another one can be entered.
pub(super) fn ask<T>(
    prompt: &mut dyn Prompt,
    question: &Question<'_>,
    read: impl Fn(&str) -> Result<T>,
) -> Result<T> {
    loop {
        match read(&prompt.answer(question)?) {
            Ok(value) => return Ok(value),
            Err(error) if prompt.can_correct() => prompt.show(&format!("{error:#}")),
            Err(error) => return Err(error),
        }
    }
}

/// A person at a terminal.
pub(super) struct Terminal;

impl Prompt for Terminal {
    fn answer(&mut self, question: &Question<'_>) -> Result<String> {
        loop {
            let mut out = io::stderr().lock();
            match &question.proposal {
                Some(proposal) => write!(out, "{} [{proposal}]: ", question.text)?,
                None => write!(out, "{}: ", question.text)?,
            }
            out.flush()?;
            let mut line = String::new();
            if io::stdin().lock().read_line(&mut line)? == 0 {
                bail!("the input ended before all values were entered; nothing was written");
            }
            match (line.trim(), &question.proposal) {
                ("", Some(proposal)) => return Ok(proposal.clone()),
                ("", None) => {}
                (answer, _) => return Ok(answer.to_owned()),
            }
        }
    }

    fn show(&mut self, text: &str) {
        command_line::print_message(text);
    }

    fn can_correct(&self) -> bool {
        true
    }
}

/// No terminal: proposals are accepted, or a missing flag is an error.
pub(super) struct Silent {
    pub(super) accepts_proposals: bool,
}

impl Prompt for Silent {
    fn answer(&mut self, question: &Question<'_>) -> Result<String> {
        match &question.proposal {
            Some(proposal) if self.accepts_proposals => Ok(proposal.clone()),
            Some(_) => bail!(
                "{} is not given; give it, or --yes to accept what the node has",
                question.flag
            ),
            None => bail!(
                "{} is not given; give it, or a node that has one (--nns FILE or --node NAME)",
                question.flag
            ),
        }
    }

    fn show(&mut self, _: &str) {}

    fn can_correct(&self) -> bool {
        false
    }
}
