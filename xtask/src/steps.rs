//! A list of named steps: runs them in order, prints what each does and how long it took, stops at
//! the first that fails.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// One step. `C` is what earlier steps passed to it.
pub(crate) struct Step<C> {
    /// What `--only` takes.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(&mut C) -> Result<Outcome>,
}

/// How a step that did not fail ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// Parts that could not be checked here. The summary repeats them.
    Skipped(Vec<String>),
}

/// What was done.
#[derive(Debug)]
pub(crate) struct Summary {
    steps: Vec<(&'static str, Duration)>,
    skipped: Vec<String>,
    total: Duration,
}

/// The steps with these names, in the order of the list.
pub(crate) fn select<'a, C: 'a>(
    steps: impl Iterator<Item = &'a Step<C>>,
    names: &[String],
) -> Result<Vec<&'a Step<C>>> {
    let mut steps: Vec<&Step<C>> = steps.collect();
    if let Some(name) = names.iter().find(|name| !steps.iter().any(|step| step.name == **name)) {
        let known: Vec<&str> = steps.iter().map(|step| step.name).collect();
        bail!("unknown step `{name}`; the steps are {}", known.join(", "));
    }
    steps.retain(|step| names.iter().any(|name| name == step.name));
    Ok(steps)
}

/// Runs all. `rerun` is the command to which a step's name is added to run it alone.
pub(crate) fn run<C>(steps: &[&Step<C>], context: &mut C, rerun: &str) -> Result<Summary> {
    let start = Instant::now();
    let mut summary =
        Summary { steps: Vec::new(), skipped: Vec::new(), total: Duration::default() };
    for (index, step) in steps.iter().enumerate() {
        println!("==> {}/{} {}: {}", index + 1, steps.len(), step.name, step.about);
        let step_start = Instant::now();
        let name = step.name;
        let outcome = (step.run)(context);
        summary.steps.push((step.name, step_start.elapsed()));
        summary.total = start.elapsed();
        let outcome = outcome.with_context(|| {
            println!("\n{summary}");
            format!("step {name} failed; run it alone with `{rerun} {name}`")
        })?;
        if let Outcome::Skipped(parts) = outcome {
            summary.skipped.extend(parts);
        }
        println!("    {name} took {:.1} s", step_start.elapsed().as_secs_f64());
    }
    Ok(summary)
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:14} {:>8}", "step", "seconds")?;
        for (name, took) in &self.steps {
            writeln!(f, "{name:14} {:>8.1}", took.as_secs_f64())?;
        }
        write!(f, "{:14} {:>8.1}", "total", self.total.as_secs_f64())?;
        self.skipped.iter().try_for_each(|part| write!(f, "\nskipped: {part}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Step<()> = Step { name: "good", about: "works", run: |()| Ok(Outcome::Done) };
    const PARTLY: Step<()> = Step {
        name: "partly",
        about: "works in part",
        run: |()| Ok(Outcome::Skipped(vec!["advisories".into()])),
    };
    const BAD: Step<()> = Step { name: "bad", about: "fails", run: |()| bail!("the reason") };
    const UNREACHED: Step<()> =
        Step { name: "unreached", about: "never", run: |()| panic!("was run") };

    fn names(steps: &[&Step<()>]) -> Vec<&'static str> {
        steps.iter().map(|step| step.name).collect()
    }

    #[test]
    fn a_failing_step_ends_the_run_with_the_command_that_repeats_it() {
        let error = run(&[&GOOD, &BAD, &UNREACHED], &mut (), "again --only").unwrap_err();
        let text = format!("{error:#}");
        assert_eq!(text, "step bad failed; run it alone with `again --only bad`: the reason");
    }

    #[test]
    fn the_summary_has_every_step_and_what_was_skipped() {
        let summary = run(&[&PARTLY, &GOOD], &mut (), "again").unwrap().to_string();
        let first_words: Vec<_> =
            summary.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(first_words, ["step", "partly", "good", "total", "skipped:"]);
        assert!(summary.ends_with("\nskipped: advisories"), "{summary}");
    }

    #[test]
    fn selected_steps_keep_the_order_of_the_list() {
        let steps = [GOOD, PARTLY, BAD];
        let selected = select(steps.iter(), &["bad".into(), "good".into()]).unwrap();
        assert_eq!(names(&selected), ["good", "bad"]);
    }

    #[test]
    fn an_unknown_step_is_rejected_with_the_known_ones() {
        let error =
            select([GOOD, BAD].iter(), &["god".into()]).map(|_| ()).unwrap_err().to_string();
        assert_eq!(error, "unknown step `god`; the steps are good, bad");
    }
}
