//! Measures one job after the other: each contender cold, then with nothing to do, then with one
//! image changed.

use std::fs;
use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use oci::RegistryHost;
use tempfile::TempDir;

use crate::contender::{CHANGED, Contender, Programs, Task};
use crate::launch;
use crate::results::{Job, Row, Sample, State};
use crate::test_bed::{Destination, Edition, TestBed, remove_blob_info_cache};
use crate::traffic::{Traffic, Watch};

/// A peer's setting that took this many times as long as the best peer is not measured again.
const TOO_SLOW: u32 = 2;
/// A registry writes its log after it has responded; this is how long that may take.
const LOG_LAG: Duration = Duration::from_millis(50);

const FIRST_ARCHIVE: &str = "mirror_000001.tar";
const SECOND_ARCHIVE: &str = "mirror_000002.tar";

/// Measures all contenders at one job. They take turns, so that a change of the load on the machine
/// affects all of them.
pub(crate) fn measure(
    test_bed: &TestBed,
    programs: &Programs,
    job: Job,
    runs: usize,
) -> Result<Vec<Row>> {
    let mut contenders = Contender::for_job(job, programs.others.len());
    if programs.only_oc_mirror {
        contenders.retain(|contender| contender.is_oc_mirror());
    }
    if programs.one_setting_each {
        contenders.retain(|contender| !contender.is_further_setting());
    }
    let mut disks: Vec<PreparedDisk> = Vec::new();
    if job == Job::FromDisk {
        for contender in &contenders {
            if !disks.iter().any(|disk| disk.is_for(*contender)) {
                disks.push(PreparedDisk::prepare(test_bed, programs, *contender)?);
            }
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for run in 1..=runs {
        for contender in &contenders {
            if is_too_slow(*contender, &rows) {
                continue;
            }
            println!("{job}, {contender}, run {run} of {runs}");
            let prepared = disks.iter().find(|disk| disk.is_for(*contender));
            let contender_run = ContenderRun::new(test_bed, programs, job, *contender, prepared)?;
            for state in contender.states(job) {
                add_sample(&mut rows, job, *state, *contender, contender_run.measure(*state)?);
            }
        }
    }
    Ok(rows)
}

/// Adds a sample to its row.
fn add_sample(rows: &mut Vec<Row>, job: Job, state: State, contender: Contender, sample: Sample) {
    match rows.iter_mut().find(|row| row.state == state && row.contender == contender) {
        Some(row) => row.samples.push(sample),
        None => rows.push(Row { job, state, contender, samples: vec![sample] }),
    }
}

/// Whether a peer was so slow in its cold run that there is no need to repeat it.
fn is_too_slow(contender: Contender, rows: &[Row]) -> bool {
    let is_peer = |row: &&Row| row.state == State::Cold && !row.contender.is_oc_mirror();
    let peers = || rows.iter().filter(is_peer);
    let best = peers().map(Row::best).min();
    let own = peers().find(|row| row.contender == contender).map(Row::best);
    matches!((own, best), (Some(own), Some(best)) if own > best * TOO_SLOW)
}

/// Content on a disk, ready to be pushed.
struct PreparedDisk {
    contender: Contender,
    folder: TempDir,
}

impl PreparedDisk {
    /// Mirrors both editions to disk, without measuring it.
    fn prepare(test_bed: &TestBed, programs: &Programs, contender: Contender) -> Result<Self> {
        println!("preparing content for {contender}");
        let (folder, scratch) = (test_bed.folder()?, test_bed.folder()?);
        let source = test_bed.source_host()?;
        let base = Task {
            job: Job::ToDisk,
            corpus: &test_bed.corpus,
            source: &source,
            disk: folder.path(),
            destination: None,
            scratch: scratch.path(),
            state: State::Cold,
        };
        let log = scratch.path().join("log");
        let fast = match contender {
            Contender::SkopeoCopy(_) => Contender::SkopeoCopy(4),
            other => other,
        };
        launch::measure(&fast.invocation(programs, &base)?, &log)?;
        if !contender.states(Job::FromDisk).contains(&State::Changed) {
            return Ok(Self { contender, folder });
        }
        test_bed.serve(Edition::Changed)?;
        let changed = match contender {
            // The changed image gets its own layout; its blobs are in the shared folder.
            Contender::SkopeoCopy(_) => {
                let mut invocation = fast.invocation(programs, &base)?;
                let reference = test_bed.corpus.references(&source).next();
                let reference = reference.context("the corpus is empty")?;
                let layout = folder.path().join(CHANGED).join("0");
                let line = format!("docker://{reference} oci:{}\n", layout.display());
                let list = scratch.path().join("changed-list");
                fs::write(&list, line).context("writing the list of changed images")?;
                invocation.arguments[1] = list.display().to_string();
                launch::measure(&invocation, &log)
            }
            _ => launch::measure(&fast.invocation(programs, &base)?, &log),
        };
        test_bed.serve(Edition::First)?;
        changed?;
        if matches!(contender, Contender::OcMirror | Contender::Other(_)) {
            let output = fs::read_to_string(&log).unwrap_or_default();
            let second = folder.path().join(SECOND_ARCHIVE);
            ensure!(second.exists(), "{contender} wrote no {SECOND_ARCHIVE}:\n{output}");
        }
        Ok(Self { contender, folder })
    }

    /// Whether a contender reads this content. It does not depend on how many images are copied in
    /// parallel.
    fn is_for(&self, contender: Contender) -> bool {
        match (self.contender, contender) {
            (Contender::Other(one), Contender::Other(other)) => one == other,
            (one, other) => discriminant(&one) == discriminant(&other),
        }
    }

    /// Links an archive into the folder that it is pushed from. It is only read.
    fn link_archive(&self, archive: &str, to: &Path) -> Result<()> {
        fs::hard_link(self.folder.path().join(archive), to.join(archive))
            .with_context(|| format!("linking {archive}"))
    }
}

/// One contender's run through all states.
struct ContenderRun<'a> {
    test_bed: &'a TestBed,
    programs: &'a Programs,
    job: Job,
    contender: Contender,
    prepared: Option<&'a PreparedDisk>,
    disk: TempDir,
    scratch: TempDir,
    source: RegistryHost,
    destination: Option<(Destination, RegistryHost)>,
}

impl<'a> ContenderRun<'a> {
    fn new(
        test_bed: &'a TestBed,
        programs: &'a Programs,
        job: Job,
        contender: Contender,
        prepared: Option<&'a PreparedDisk>,
    ) -> Result<Self> {
        let destination = match job {
            Job::ToDisk => None,
            Job::FromDisk | Job::Across => {
                let destination = test_bed.destination()?;
                let host = destination.registry.host()?;
                Some((destination, host))
            }
        };
        Ok(Self {
            test_bed,
            programs,
            job,
            contender,
            prepared,
            disk: test_bed.folder()?,
            scratch: test_bed.folder()?,
            source: test_bed.source_host()?,
            destination,
        })
    }

    fn measure(&self, state: State) -> Result<Sample> {
        let edition = if state == State::Changed { Edition::Changed } else { Edition::First };
        self.test_bed.serve(edition)?;
        let sample = self.measure_on(state);
        self.test_bed.serve(Edition::First)?;
        sample.with_context(|| format!("{}, {}, {state}", self.job, self.contender))
    }

    fn measure_on(&self, state: State) -> Result<Sample> {
        if state == State::Cold {
            remove_blob_info_cache()?;
        }
        let disk = self.disk(state)?;
        let task = Task {
            job: self.job,
            corpus: if state == State::Changed {
                &self.test_bed.changed
            } else {
                &self.test_bed.corpus
            },
            source: &self.source,
            disk: &disk,
            destination: self.destination.as_ref().map(|(_, host)| host),
            scratch: self.scratch.path(),
            state,
        };
        let invocation = self.contender.invocation(self.programs, &task)?;
        self.test_bed.settle();
        let source = Watch::start(&self.test_bed.source)?;
        let destination = match &self.destination {
            Some((destination, _)) => Some(Watch::start(&destination.registry)?),
            None => None,
        };
        let mut usage = launch::measure(&invocation, &self.scratch.path().join("log"))?;
        if self.job == Job::ToDisk {
            usage.sync = self.test_bed.settle();
        }
        thread::sleep(LOG_LAG);
        let mut sizes = self.test_bed.corpus.blobs();
        sizes.extend(self.test_bed.changed.blobs());
        let destination = match destination {
            Some(watch) => watch.traffic(&sizes)?,
            None => Traffic::default(),
        };
        Ok(Sample { usage, source: source.traffic(&sizes)?, destination })
    }

    /// The folder to work on, with what this state needs in it.
    fn disk(&self, state: State) -> Result<PathBuf> {
        let Some(prepared) = self.prepared else { return Ok(self.disk.path().to_owned()) };
        if !matches!(self.contender, Contender::OcMirror | Contender::Other(_)) {
            return Ok(prepared.folder.path().to_owned());
        }
        match state {
            State::Cold => prepared.link_archive(FIRST_ARCHIVE, self.disk.path())?,
            State::Warm => {}
            State::Changed => prepared.link_archive(SECOND_ARCHIVE, self.disk.path())?,
        }
        Ok(self.disk.path().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Usage;

    #[test]
    fn a_peer_that_took_more_than_twice_as_long_as_the_best_is_not_repeated() {
        let mut rows = Vec::new();
        for (contender, seconds) in [
            (Contender::OcMirror, 50),
            (Contender::SkopeoCopy(4), 10),
            (Contender::SkopeoCopy(8), 20),
            (Contender::SkopeoSync, 21),
        ] {
            let usage = Usage {
                wall: Duration::from_secs(seconds),
                sync: Duration::ZERO,
                cpu: Duration::ZERO,
                peak: 0,
            };
            let nothing = Traffic::default();
            let sample = Sample { usage, source: nothing, destination: nothing };
            add_sample(&mut rows, Job::ToDisk, State::Cold, contender, sample);
        }
        let too_slow =
            Contender::for_job(Job::ToDisk, 0).into_iter().filter(|peer| is_too_slow(*peer, &rows));
        assert_eq!(too_slow.collect::<Vec<_>>(), [Contender::SkopeoSync]);
    }
}
