//! Memory with few and with many images.

use std::fs;

use anyhow::{Context, Result};
use lab::corpus::Corpus;
use lab::registry::{LabRegistry, Settings};

use crate::contender::{Contender, Programs, Task};
use crate::launch;
use crate::results::{Footprint, Job, State};
use crate::test_bed::TestBed;

const ARCHIVE: &str = "mirror_000001.tar";
/// How many images are few.
const FEW: usize = 60;

/// Measures all jobs with few and with `many` tiny images. The registries run in this
/// process: their memory does not count.
pub(crate) fn measure(
    test_bed: &TestBed,
    programs: &Programs,
    many: usize,
) -> Result<Vec<Footprint>> {
    let mut footprints = Vec::new();
    for images in [FEW, many] {
        println!("memory with {images} tiny images");
        let corpus = Corpus::tiny(images)?;
        let source = LabRegistry::start(Settings::default())?;
        corpus.fill(&source)?;
        let (disk, other_side) = (test_bed.folder()?, test_bed.folder()?);
        let (workspace, scratch) = (test_bed.folder()?, test_bed.folder()?);
        for job in [Job::ToDisk, Job::FromDisk, Job::Across] {
            let destination = LabRegistry::start(Settings::default())?;
            let folder = match job {
                Job::ToDisk => disk.path(),
                Job::FromDisk => other_side.path(),
                Job::Across => workspace.path(),
            };
            let task = Task {
                job,
                corpus: &corpus,
                source: &source.host()?,
                disk: folder,
                destination: Some(&destination.host()?),
                scratch: scratch.path(),
                state: State::Cold,
            };
            let invocation = Contender::OcMirror.invocation(programs, &task)?;
            test_bed.settle();
            let usage = launch::measure(&invocation, &scratch.path().join("log"))
                .with_context(|| format!("{job} with {images} tiny images"))?;
            footprints.push(Footprint { job, images, usage });
            if job == Job::ToDisk {
                fs::rename(disk.path().join(ARCHIVE), other_side.path().join(ARCHIVE))
                    .context("moving the archive")?;
            }
        }
    }
    Ok(footprints)
}
