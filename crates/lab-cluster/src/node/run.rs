//! The result of one boot of a machine.

use anyhow::{Result, ensure};

/// How a boot ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The scenario ended with this code, and the machine was powered off.
    Exit(i32),
    /// The scenario cut the power.
    PowerCut,
}

/// The result of one boot.
#[derive(Debug, Clone)]
pub struct Run {
    pub end: End,
    /// All that the scenario printed.
    pub output: String,
    /// The output of the machine's own programs: the ends of their logs, or its journal.
    pub logs: String,
}

impl Run {
    /// What the scenario printed, if it ended well.
    pub fn succeeded(&self) -> Result<&str> {
        let Self { end, output, logs } = self;
        ensure!(*end == End::Exit(0), "the scenario ended with {end:?}:\n{output}\n{logs}");
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_that_failed_is_an_error_with_what_it_printed() {
        let run = |end| Run { end, output: "no carrier".into(), logs: "--- log".into() };
        assert_eq!(run(End::Exit(0)).succeeded().unwrap(), "no carrier");
        let error = run(End::Exit(3)).succeeded().unwrap_err().to_string();
        assert!(error.contains("Exit(3)") && error.contains("no carrier"), "{error}");
        assert!(run(End::PowerCut).succeeded().is_err());
    }
}
