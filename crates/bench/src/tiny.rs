//! Many tiny images: the time of runs that transfer only a few bytes.

use anyhow::{Context, Result};
use lab::corpus::Corpus;
use lab::registry::{LabRegistry, Settings};

use crate::contender::{Contender, Programs, Task};
use crate::launch;
use crate::results::{Job, State, TinyRun};
use crate::test_bed::TestBed;

const ARCHIVE: &str = "mirror_000001.tar";

/// Measures all jobs, cold and with nothing to do; the best of `runs`. The registries run in
/// this process.
pub(crate) fn measure(
    test_bed: &TestBed,
    programs: &Programs,
    images: usize,
    runs: usize,
) -> Result<Vec<TinyRun>> {
    let corpus = Corpus::tiny(images)?;
    let source = LabRegistry::start(Settings::default())?;
    corpus.fill(&source)?;
    let mut best: Vec<TinyRun> = Vec::new();
    for run in 1..=runs {
        println!("{images} tiny images, run {run} of {runs}");
        let (disk, other_side) = (test_bed.folder()?, test_bed.folder()?);
        let (workspace, scratch) = (test_bed.folder()?, test_bed.folder()?);
        for job in Job::ALL {
            let destination = LabRegistry::start(Settings::default())?;
            let folder = match job {
                Job::ToDisk => disk.path(),
                Job::FromDisk => other_side.path(),
                Job::Across => workspace.path(),
            };
            for state in [State::Cold, State::Warm] {
                let task = Task {
                    job,
                    corpus: &corpus,
                    source: &source.host()?,
                    disk: folder,
                    destination: Some(&destination.host()?),
                    scratch: scratch.path(),
                    state,
                };
                let invocation = Contender::OcMirror.invocation(programs, &task)?;
                test_bed.settle();
                let usage = launch::measure(&invocation, &scratch.path().join("log"))
                    .with_context(|| format!("{job} with {images} tiny images"))?;
                let measured = TinyRun { job, state, images, usage };
                match best.iter_mut().find(|known| (known.job, known.state) == (job, state)) {
                    Some(known) if known.usage.wall <= usage.wall => {}
                    Some(known) => *known = measured,
                    None => best.push(measured),
                }
            }
            if job == Job::ToDisk {
                std::fs::hard_link(disk.path().join(ARCHIVE), other_side.path().join(ARCHIVE))
                    .context("linking the archive")?;
            }
        }
    }
    Ok(best)
}
