//! Registry to disk over a slow link.

use anyhow::Result;
use lab::link::{Link, SlowLink};
use oci::RegistryHost;

use crate::contender::{Contender, Programs, Task};
use crate::launch;
use crate::results::{Job, Sample, State};
use crate::test_bed::TestBed;
use crate::traffic::{Traffic, Watch};

/// 40 ms, 20 MB/s per connection, 125 MB/s in total.
pub(crate) const LINK: Link = Link::DISTANT;

/// Measures oc-mirror without an archive, so that the link is the only bottleneck.
pub(crate) fn measure(test_bed: &TestBed, programs: &Programs, runs: usize) -> Result<Vec<Sample>> {
    let link = SlowLink::start(test_bed.source.address(), LINK)?;
    let host: RegistryHost = link.address().to_string().parse()?;
    (0..runs)
        .map(|run| {
            println!("over a slow link, run {} of {runs}", run + 1);
            let (disk, scratch) = (test_bed.folder()?, test_bed.folder()?);
            let task = Task {
                job: Job::ToDisk,
                corpus: &test_bed.corpus,
                source: &host,
                disk: disk.path(),
                destination: None,
                scratch: scratch.path(),
                state: State::Cold,
            };
            let invocation = Contender::OcMirrorNoArchive.invocation(programs, &task)?;
            test_bed.settle();
            let watch = Watch::start(&test_bed.source)?;
            let usage = launch::measure(&invocation, &scratch.path().join("log"))?;
            let source = watch.traffic(&test_bed.corpus.blobs())?;
            Ok(Sample { usage, source, destination: Traffic::default() })
        })
        .collect()
}
