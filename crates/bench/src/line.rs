//! Registry to disk over a slow line.

use anyhow::Result;
use lab::line::{Line, SlowLine};
use oci::RegistryHost;

use crate::contender::{Contender, Programs, Task};
use crate::ground::Ground;
use crate::launch;
use crate::results::{Job, Sample, State};
use crate::traffic::{Traffic, Watch};

/// 40 ms, 20 MB/s per connection, 125 MB/s in all.
pub(crate) const LINE: Line = Line::DISTANT;

/// Measures oc-mirror without an archive, so that the line is all there is to wait for.
pub(crate) fn measure(ground: &Ground, programs: &Programs, runs: usize) -> Result<Vec<Sample>> {
    let line = SlowLine::start(ground.source.address(), LINE)?;
    let host: RegistryHost = line.address().to_string().parse()?;
    (0..runs)
        .map(|run| {
            println!("over a slow line, run {} of {runs}", run + 1);
            let (disk, scratch) = (ground.place()?, ground.place()?);
            let task = Task {
                job: Job::ToDisk,
                corpus: &ground.corpus,
                source: &host,
                disk: disk.path(),
                destination: None,
                scratch: scratch.path(),
                state: State::Cold,
            };
            let invocation = Contender::OcMirrorNoArchive.invocation(programs, &task)?;
            ground.settle();
            let watch = Watch::start(&ground.source)?;
            let usage = launch::measure(&invocation, &scratch.path().join("log"))?;
            let source = watch.traffic(&ground.corpus.blobs())?;
            Ok(Sample { usage, source, destination: Traffic::default() })
        })
        .collect()
}
