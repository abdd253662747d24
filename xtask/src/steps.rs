//! A list of named steps: runs them in order, tells what each does and how long it took, stops at
//! the first that fails.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// One thing to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// What `--only` takes.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn() -> Result<Outcome>,
}

/// How a step that did not fail ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// A part could not be looked at here. It is repeated in the summary, lest it be overlooked.
    NotChecked(String),
}

/// What was done.
#[derive(Debug)]
pub(crate) struct Summary {
    steps: Vec<&'static str>,
    not_checked: Vec<String>,
    took: Duration,
}

/// The steps with these names, in the order of the list; all of them when no name is given.
pub(crate) fn select(steps: &[Step], names: &[String]) -> Result<Vec<Step>> {
    let known = || steps.iter().map(|step| step.name).collect::<Vec<_>>().join(", ");
    for name in names {
        if !steps.iter().any(|step| step.name == name) {
            bail!("there is no step `{name}`; the steps are {}", known());
        }
    }
    let wanted = |step: &&Step| names.is_empty() || names.iter().any(|name| name == step.name);
    Ok(steps.iter().filter(wanted).copied().collect())
}

/// Runs all. `rerun` is the command to which a step's name is added to run it alone.
pub(crate) fn run(steps: &[Step], rerun: &str) -> Result<Summary> {
    let start = Instant::now();
    let mut not_checked = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        println!("==> {}/{} {}: {}", index + 1, steps.len(), step.name, step.about);
        let began = Instant::now();
        let outcome = (step.run)().with_context(|| {
            format!("step {} failed; run it alone with `{rerun} {}`", step.name, step.name)
        })?;
        if let Outcome::NotChecked(what) = outcome {
            println!("not checked: {what}");
            not_checked.push(what);
        }
        println!("    {} took {:.1} s", step.name, began.elapsed().as_secs_f64());
    }
    let steps = steps.iter().map(|step| step.name).collect();
    Ok(Summary { steps, not_checked, took: start.elapsed() })
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs_f64();
        write!(f, "passed in {seconds:.0} s: {}", self.steps.join(", "))?;
        self.not_checked.iter().try_for_each(|what| write!(f, "\nnot checked: {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Step = Step { name: "good", about: "works", run: || Ok(Outcome::Done) };
    const PARTLY: Step = Step {
        name: "partly",
        about: "works in part",
        run: || Ok(Outcome::NotChecked("the far side".into())),
    };
    const BAD: Step = Step { name: "bad", about: "fails", run: || bail!("no luck") };
    const UNREACHED: Step = Step { name: "unreached", about: "never", run: || panic!("was run") };

    fn names(steps: &[Step]) -> Vec<&str> {
        steps.iter().map(|step| step.name).collect()
    }

    #[test]
    fn a_failing_step_ends_the_run_with_the_command_that_repeats_it() {
        let error = run(&[GOOD, BAD, UNREACHED], "again --only").unwrap_err();
        let text = format!("{error:#}");
        assert_eq!(text, "step bad failed; run it alone with `again --only bad`: no luck");
    }

    #[test]
    fn what_was_not_checked_is_in_the_summary() {
        let summary = run(&[PARTLY, GOOD], "again").unwrap().to_string();
        assert!(summary.ends_with("s: partly, good\nnot checked: the far side"), "{summary}");
    }

    #[test]
    fn chosen_steps_keep_the_order_of_the_list() {
        let chosen = select(&[GOOD, PARTLY, BAD], &["bad".into(), "good".into()]).unwrap();
        assert_eq!(names(&chosen), ["good", "bad"]);
        assert_eq!(names(&select(&[GOOD, BAD], &[]).unwrap()), ["good", "bad"]);
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_known_ones() {
        let error = select(&[GOOD, BAD], &["god".into()]).unwrap_err().to_string();
        assert_eq!(error, "there is no step `god`; the steps are good, bad");
    }
}
