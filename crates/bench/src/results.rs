//! The results of measurements.

use std::fmt;
use std::time::Duration;

use crate::contender::Contender;
use crate::launch::Usage;
use crate::test_bed::TestBed;
use crate::traffic::Traffic;

/// Where content is read and where it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    ToDisk,
    FromDisk,
    Across,
}

/// What the destination has when a run starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing.
    Cold,
    /// Everything.
    Warm,
    /// Everything but one image, which has changed at the source.
    Changed,
}

impl Job {
    pub(crate) const ALL: [Self; 3] = [Self::ToDisk, Self::FromDisk, Self::Across];
}

impl State {
    pub(crate) const ALL: [Self; 3] = [Self::Cold, Self::Warm, Self::Changed];
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToDisk => "registry → disk",
            Self::FromDisk => "disk → registry",
            Self::Across => "registry → registry",
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cold => "cold",
            Self::Warm => "nothing to do",
            Self::Changed => "one image changed",
        })
    }
}

/// One run of one contender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    pub(crate) usage: Usage,
    /// At the source registry; zero if the source is a disk.
    pub(crate) source: Traffic,
    /// At the destination registry; zero if the destination is a disk.
    pub(crate) destination: Traffic,
}

/// All runs of one contender in one case.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) job: Job,
    pub(crate) state: State,
    pub(crate) contender: Contender,
    /// At least one.
    pub(crate) samples: Vec<Sample>,
}

/// Memory of oc-mirror with this many images.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Footprint {
    pub(crate) job: Job,
    pub(crate) images: usize,
    pub(crate) usage: Usage,
}

/// The best run with many tiny images.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TinyRun {
    pub(crate) job: Job,
    pub(crate) state: State,
    pub(crate) images: usize,
    pub(crate) usage: Usage,
}

/// All results of `bench mirror`.
#[derive(Debug, Clone)]
pub(crate) struct Results {
    /// How many images the corpus has, and the bytes of its blobs, each counted once.
    pub(crate) images: usize,
    pub(crate) unique_bytes: u64,
    pub(crate) rows: Vec<Row>,
    /// Hashing and copying the corpus.
    pub(crate) floor: Option<Vec<Usage>>,
    /// Registry to disk over the slow link, and the rate of that link in bytes per second.
    pub(crate) link: Vec<Sample>,
    pub(crate) link_rate: u64,
    pub(crate) memory: Vec<Footprint>,
    pub(crate) tiny: Vec<TinyRun>,
}

impl Results {
    pub(crate) fn new(test_bed: &TestBed) -> Self {
        Self {
            images: test_bed.corpus.entries.len(),
            unique_bytes: test_bed.corpus.unique_bytes(),
            rows: Vec::new(),
            floor: None,
            link: Vec::new(),
            link_rate: crate::slow_link::LINK.total,
            memory: Vec::new(),
            tiny: Vec::new(),
        }
    }

    /// The rows of one case.
    pub(crate) fn case(&self, job: Job, state: State) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.job == job && row.state == state)
    }
}

impl Row {
    /// The fastest run. Other load on the machine can only slow a run down.
    pub(crate) fn best(&self) -> Duration {
        self.samples.iter().map(|sample| sample.usage.wall).min().unwrap_or_default()
    }

    /// The fastest run, measured until all written data was on the disk and a medium could be removed.
    pub(crate) fn on_disk(&self) -> Duration {
        let times = self.samples.iter().map(|sample| sample.usage.wall + sample.usage.sync);
        times.min().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> Duration {
        median(self.samples.iter().map(|sample| sample.usage.wall))
    }

    /// The least processor time. A virtual machine allocates memory on its first use, which can take
    /// as long as the work itself and does not depend on the program.
    pub(crate) fn cpu(&self) -> Duration {
        self.samples.iter().map(|sample| sample.usage.cpu).min().unwrap_or_default()
    }

    pub(crate) fn peak(&self) -> u64 {
        self.samples.iter().map(|sample| sample.usage.peak).max().unwrap_or_default()
    }
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    let middle = times.len() / 2;
    match times.len() {
        0 => Duration::ZERO,
        count if count % 2 == 1 => times[middle],
        _ => (times[middle - 1] + times[middle]) / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_lies_between_the_two_in_the_middle() {
        let of = |millis: &[u64]| median(millis.iter().map(|n| Duration::from_millis(*n)));
        assert_eq!(of(&[9, 1, 2]), Duration::from_millis(2));
        assert_eq!(of(&[1, 8, 2, 4]), Duration::from_millis(3));
        assert_eq!(of(&[]), Duration::ZERO);
    }
}
