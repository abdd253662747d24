//! One job after the other: each contender cold, then with nothing to do, then with one image
//! changed.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use oci::RegistryHost;
use tempfile::TempDir;

use super::contender::{Contender, Programs, Task};
use super::ground::{Destination, Edition, Ground, forget_blob_info};
use super::launch;
use super::results::{Job, Row, Sample, State};
use super::traffic::{Traffic, Watch};

/// A peer's setting that took this many times as long as the best peer is not measured again.
const HOPELESS: u32 = 2;
/// A registry writes its log once it has answered; this is how long that may take.
const LOG_LAG: Duration = Duration::from_millis(50);

/// Measures all contenders at one job.
pub(super) fn measure(
    ground: &Ground,
    programs: &Programs,
    job: Job,
    runs: usize,
) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    // Prepared once per kind of content, and removed before the next kind.
    for group in Contender::at(job).chunk_by(|a, b| same_content(*a, *b)) {
        let carried = match job {
            Job::FromDisk => Some(Carried::prepare(ground, programs, group[0])?),
            Job::ToDisk | Job::Across => None,
        };
        for contender in group {
            let mut own: Vec<Row> = Vec::new();
            for run in 0..runs {
                if run > 0 && is_hopeless(&own, &rows) {
                    break;
                }
                println!("{job}, {contender}, run {} of {runs}", run + 1);
                let stand = Stand::new(ground, programs, job, *contender, carried.as_ref())?;
                for state in contender.states(job) {
                    let sample = stand.measure(*state)?;
                    match own.iter_mut().find(|row| row.state == *state) {
                        Some(row) => row.samples.push(sample),
                        None => own.push(Row {
                            job,
                            state: *state,
                            contender: *contender,
                            samples: vec![sample],
                        }),
                    }
                }
            }
            rows.extend(own);
        }
    }
    Ok(rows)
}

/// Whether what one leaves on a disk is what the other reads from it.
fn same_content(a: Contender, b: Contender) -> bool {
    std::mem::discriminant(&a) == std::mem::discriminant(&b)
}

/// Whether a peer is so slow at its cold run that repeating it tells nothing.
fn is_hopeless(own: &[Row], others: &[Row]) -> bool {
    let cold = |row: &&Row| row.state == State::Cold && !row.contender.is_ours();
    let best = others.iter().filter(cold).map(Row::best).min();
    let mine = own.iter().filter(cold).map(Row::best).min();
    matches!((mine, best), (Some(mine), Some(best)) if mine > best * HOPELESS)
}

/// Content on a disk, ready to be pushed.
struct Carried {
    folder: TempDir,
}

impl Carried {
    /// Mirrors both editions to disk, unmeasured.
    fn prepare(ground: &Ground, programs: &Programs, contender: Contender) -> Result<Self> {
        println!("preparing content for {contender}");
        let (folder, scratch) = (ground.place()?, ground.place()?);
        let source = ground.source_host()?;
        let base = Task {
            job: Job::ToDisk,
            corpus: &ground.corpus,
            source: &source,
            disk: folder.path(),
            destination: None,
            scratch: scratch.path(),
            state: State::Cold,
        };
        let log = scratch.path().join("log");
        let quick = match contender {
            Contender::SkopeoCopy(_) => Contender::SkopeoCopy(4),
            other => other,
        };
        launch::measure(&quick.invocation(programs, &base)?, &log)?;
        if !contender.states(Job::FromDisk).contains(&State::Changed) {
            return Ok(Self { folder });
        }
        ground.serve(Edition::Changed)?;
        let changed = match contender {
            // The layout of the changed image beside the others, its blobs among theirs.
            Contender::SkopeoCopy(_) => {
                let mut invocation = quick.invocation(programs, &base)?;
                let reference = ground.corpus.references(&source).next();
                let reference = reference.context("the corpus is empty")?;
                let layout = folder.path().join("changed/0");
                let line = format!("docker://{reference} oci:{}\n", layout.display());
                let list = scratch.path().join("changed-list");
                fs::write(&list, line).context("writing the list of changed images")?;
                invocation.arguments[1] = list.display().to_string();
                launch::measure(&invocation, &log)
            }
            _ => launch::measure(&quick.invocation(programs, &base)?, &log),
        };
        ground.serve(Edition::First)?;
        changed?;
        Ok(Self { folder })
    }

    /// Puts an archive where it is pushed from. The file is shared, for nobody writes to it.
    fn bring(&self, archive: &str, to: &Path) -> Result<()> {
        fs::hard_link(self.folder.path().join(archive), to.join(archive))
            .with_context(|| format!("bringing {archive}"))
    }
}

/// One contender's run through all states.
struct Stand<'a> {
    ground: &'a Ground,
    programs: &'a Programs,
    job: Job,
    contender: Contender,
    carried: Option<&'a Carried>,
    disk: TempDir,
    scratch: TempDir,
    source: RegistryHost,
    destination: Option<(Destination, RegistryHost)>,
}

impl<'a> Stand<'a> {
    fn new(
        ground: &'a Ground,
        programs: &'a Programs,
        job: Job,
        contender: Contender,
        carried: Option<&'a Carried>,
    ) -> Result<Self> {
        let destination = match job {
            Job::ToDisk => None,
            Job::FromDisk | Job::Across => {
                let destination = ground.destination()?;
                let host = destination.registry.host()?;
                Some((destination, host))
            }
        };
        Ok(Self {
            ground,
            programs,
            job,
            contender,
            carried,
            disk: ground.place()?,
            scratch: ground.place()?,
            source: ground.source_host()?,
            destination,
        })
    }

    fn measure(&self, state: State) -> Result<Sample> {
        let edition = if state == State::Changed { Edition::Changed } else { Edition::First };
        self.ground.serve(edition)?;
        let sample = self.measure_on(state);
        self.ground.serve(Edition::First)?;
        sample.with_context(|| format!("{}, {}, {state}", self.job, self.contender))
    }

    fn measure_on(&self, state: State) -> Result<Sample> {
        if state == State::Cold {
            forget_blob_info()?;
        }
        let disk = self.disk(state)?;
        let task = Task {
            job: self.job,
            corpus: if state == State::Changed {
                &self.ground.changed
            } else {
                &self.ground.corpus
            },
            source: &self.source,
            disk: &disk,
            destination: self.destination.as_ref().map(|(_, host)| host),
            scratch: self.scratch.path(),
            state,
        };
        let invocation = self.contender.invocation(self.programs, &task)?;
        self.ground.settle();
        let source = Watch::start(&self.ground.source)?;
        let destination = match &self.destination {
            Some((destination, _)) => Some(Watch::start(&destination.registry)?),
            None => None,
        };
        let usage = launch::measure(&invocation, &self.scratch.path().join("log"))?;
        thread::sleep(LOG_LAG);
        let mut sizes = self.ground.corpus.blobs();
        sizes.extend(self.ground.changed.blobs());
        let destination = match destination {
            Some(watch) => watch.traffic(&sizes)?,
            None => Traffic::default(),
        };
        Ok(Sample { usage, source: source.traffic(&sizes)?, destination })
    }

    /// The folder to work on, with what this state needs in it.
    fn disk(&self, state: State) -> Result<std::path::PathBuf> {
        let Some(carried) = self.carried else { return Ok(self.disk.path().to_owned()) };
        if self.contender != Contender::OcMirror {
            return Ok(carried.folder.path().to_owned());
        }
        match state {
            State::Cold => carried.bring("mirror_000001.tar", self.disk.path())?,
            State::Warm => {}
            State::Changed => carried.bring("mirror_000002.tar", self.disk.path())?,
        }
        Ok(self.disk.path().to_owned())
    }
}
