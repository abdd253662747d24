//! The targets, and whether they are met.

use std::time::Duration;

use crate::contender::Contender;
use crate::results::{Job, Results, Row, Sample, State, TinyRun};

const MB: f64 = 1e6;

/// A target, and the measured value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) about: String,
    pub(crate) wanted: String,
    pub(crate) measured: String,
    pub(crate) met: bool,
}

/// The program that a ratio compares with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Skopeo,
    Regsync,
}

/// All targets for which there are results.
pub(crate) fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut ratio = |job, state, ours, peer, wanted| {
        verdicts.extend(speed(results, job, state, ours, peer, wanted));
    };
    use Contender::{OcMirror, OcMirrorNoArchive};
    ratio(Job::ToDisk, State::Cold, OcMirrorNoArchive, Peer::Skopeo, 2.8);
    ratio(Job::ToDisk, State::Cold, OcMirror, Peer::Skopeo, 2.0);
    ratio(Job::FromDisk, State::Cold, OcMirror, Peer::Skopeo, 3.0);
    ratio(Job::Across, State::Cold, OcMirror, Peer::Skopeo, 1.5);
    ratio(Job::Across, State::Cold, OcMirror, Peer::Regsync, 2.0);
    for job in Job::ALL {
        ratio(job, State::Warm, OcMirror, Peer::Skopeo, 8.0);
        ratio(job, State::Warm, OcMirror, Peer::Regsync, 1.0);
    }
    verdicts.extend(against_others(results));
    verdicts.extend(Job::ALL.into_iter().filter_map(|job| nothing_to_do(results, job)));
    verdicts.extend(results.tiny.iter().map(tiny));
    verdicts.extend(fetched_once(results));
    verdicts.extend(processor(results));
    verdicts.extend(uploaded_once(results));
    verdicts.extend(requests(results));
    verdicts.extend(link_rate(results));
    verdicts.extend(memory(results));
    verdicts
}

fn ours(results: &Results, job: Job, state: State, contender: Contender) -> Option<&Row> {
    results.case(job, state).find(|row| row.contender == contender)
}

fn speed(
    results: &Results,
    job: Job,
    state: State,
    contender: Contender,
    peer: Peer,
    wanted: f64,
) -> Option<Verdict> {
    let own = ours(results, job, state, contender)?;
    let is_peer = |row: &&Row| match peer {
        Peer::Skopeo => row.contender.is_skopeo(),
        Peer::Regsync => matches!(row.contender, Contender::Regsync(_)),
    };
    let best = results.case(job, state).filter(is_peer).min_by_key(|row| row.best())?;
    let ratio = |peer: Duration, own: Duration| peer.as_secs_f64() / own.as_secs_f64();
    let (by_best, by_median) = (ratio(best.best(), own.best()), ratio(best.median(), own.median()));
    Some(Verdict {
        about: format!("{job}, {state}: {contender} against {}", best.contender),
        wanted: format!("≥ {wanted:.1}×"),
        measured: format!("{by_best:.1}× (medians {by_median:.1}×)"),
        met: by_best >= wanted,
    })
}

/// The time of ours as a share of the time of each other oc-mirror. Where the target is the same
/// time, 5 % more are allowed: the same program varies by that from run to run.
fn against_others(results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (job, most) in [(Job::ToDisk, 0.75), (Job::FromDisk, 1.05), (Job::Across, 1.05)] {
        let Some(own) = ours(results, job, State::Cold, Contender::OcMirror) else { continue };
        let is_other = |row: &&Row| matches!(row.contender, Contender::Other(_));
        for other in results.case(job, State::Cold).filter(is_other) {
            let compared = |until: &str, own: Duration, other_time: Duration| {
                let (time, of) = (own.as_secs_f64(), other_time.as_secs_f64());
                Verdict {
                    about: format!(
                        "{job}, cold: time{until} of oc-mirror in that of {}",
                        other.contender
                    ),
                    wanted: format!("≤ {most:.2} ×"),
                    measured: format!("{:.2} × ({time:.2} s, {of:.2} s)", time / of),
                    met: time <= most * of,
                }
            };
            verdicts.push(compared("", own.best(), other.best()));
            // A medium cannot be removed while content is only in the page cache.
            if job == Job::ToDisk {
                verdicts.push(compared(" until on disk", own.on_disk(), other.on_disk()));
            }
        }
    }
    verdicts
}

fn nothing_to_do(results: &Results, job: Job) -> Option<Verdict> {
    let best = ours(results, job, State::Warm, Contender::OcMirror)?.best().as_secs_f64();
    Some(Verdict {
        about: format!("{job}, nothing to do, {} images", results.images),
        wanted: "≤ 0.15 s".into(),
        measured: format!("{best:.3} s"),
        met: best <= 0.15,
    })
}

fn tiny(run: &TinyRun) -> Verdict {
    let most = if run.state == State::Cold { 6.0 } else { 0.8 };
    let seconds = run.usage.wall.as_secs_f64();
    Verdict {
        about: format!("{}, {}, {} tiny images", run.job, run.state, run.images),
        wanted: format!("≤ {most} s"),
        measured: format!("{seconds:.2} s"),
        met: seconds <= most,
    }
}

fn fetched_once(results: &Results) -> Option<Verdict> {
    let row = ours(results, Job::ToDisk, State::Cold, Contender::OcMirrorNoArchive)?;
    let worst = row.samples.iter().map(|sample| sample.source).max_by_key(|t| t.blob_bytes)?;
    Some(Verdict {
        about: "registry → disk: unique bytes fetched".into(),
        wanted: format!("{:.1} MB, none twice", results.unique_bytes as f64 / MB),
        measured: format!(
            "{:.1} MB, {:.1} MB twice",
            worst.blob_bytes as f64 / MB,
            worst.blob_bytes_again as f64 / MB
        ),
        met: worst.blob_bytes == results.unique_bytes && worst.blob_bytes_again == 0,
    })
}

fn processor(results: &Results) -> Option<Verdict> {
    let row = ours(results, Job::ToDisk, State::Cold, Contender::OcMirrorNoArchive)?;
    let floor = results.floor.as_ref()?.iter().map(|usage| usage.cpu).min()?;
    let (floor, own) = (floor.as_secs_f64(), row.cpu().as_secs_f64());
    Some(Verdict {
        about: "registry → disk: processor time against hashing + copying".into(),
        wanted: format!("≤ 1.3 × {floor:.2} s"),
        measured: format!("{own:.2} s = {:.2} ×", own / floor),
        met: own <= 1.3 * floor,
    })
}

fn uploaded_once(results: &Results) -> Vec<Verdict> {
    let verdict = |job| {
        let row = ours(results, job, State::Cold, Contender::OcMirror)?;
        let sample = row.samples.iter().max_by_key(|sample| sample.destination.uploads)?;
        let traffic = sample.destination;
        Some(Verdict {
            about: format!("{job}: uploads of an existing blob, mounts"),
            wanted: "0, some".into(),
            measured: format!("{}, {}", traffic.uploads_again, traffic.mounts),
            met: traffic.uploads_again == 0
                && traffic.upload_bytes == results.unique_bytes
                && traffic.mounts > 0,
        })
    };
    [Job::FromDisk, Job::Across].into_iter().filter_map(verdict).collect()
}

/// With nothing to do there is one HEAD request for each image on each side, and no other request.
/// (All images of the corpus have tags.)
fn requests(results: &Results) -> Vec<Verdict> {
    let images = results.images as u64;
    let verdict = |job| {
        let row = ours(results, job, State::Warm, Contender::OcMirror)?;
        let (at_source, at_destination) = match job {
            Job::ToDisk => (images, 0),
            Job::FromDisk => (0, images),
            Job::Across => (images, images),
        };
        let counts = |sample: &Sample| {
            let sides = [sample.source, sample.destination];
            sides.map(|side| (side.heads, side.requests - side.heads))
        };
        let met = |sample: &Sample| counts(sample) == [(at_source, 0), (at_destination, 0)];
        let reported = row.samples.iter().find(|sample| !met(sample)).or(row.samples.first())?;
        let [(source, other), (destination, also)] = counts(reported);
        Some(Verdict {
            about: format!("{job}, nothing to do: HEADs at source and destination"),
            wanted: format!("{at_source} and {at_destination}"),
            measured: format!("{source} and {destination}; others {other} and {also}"),
            met: row.samples.iter().all(met),
        })
    };
    Job::ALL.into_iter().filter_map(verdict).collect()
}

fn link_rate(results: &Results) -> Option<Verdict> {
    let best = results.link.iter().map(|sample| sample.usage.wall).min()?;
    let fraction = results.unique_bytes as f64 / results.link_rate as f64 / best.as_secs_f64();
    Some(Verdict {
        about: "registry → disk over a link of 40 ms, 20 MB/s per connection, 125 MB/s".into(),
        wanted: "≥ 90 % of its rate".into(),
        measured: format!("{:.0} % ({:.1} s)", fraction * 100.0, best.as_secs_f64()),
        met: fraction >= 0.9,
    })
}

fn memory(results: &Results) -> Vec<Verdict> {
    let verdict = |about: String, peak: u64| Verdict {
        about: format!("memory, {about}"),
        wanted: "≤ 48 MB".into(),
        measured: format!("{:.1} MB", peak as f64 / MB),
        met: peak <= 48_000_000,
    };
    let rows = results.rows.iter().filter(|row| row.contender.is_ours());
    let corpus = rows.max_by_key(|row| row.peak()).map(|row| {
        let about = format!("{} images of the corpus ({}, {})", results.images, row.job, row.state);
        verdict(about, row.peak())
    });
    let tiny = results.memory.iter().map(|footprint| {
        let about = format!("{} tiny images ({})", footprint.images, footprint.job);
        verdict(about, footprint.usage.peak)
    });
    corpus.into_iter().chain(tiny).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Usage;
    use crate::traffic::Traffic;

    fn row(job: Job, state: State, contender: Contender, millis: &[u64]) -> Row {
        let sample = |wall: &u64| Sample {
            usage: Usage {
                sync: Duration::ZERO,
                wall: Duration::from_millis(*wall),
                cpu: Duration::from_millis(100),
                peak: 20_000_000,
            },
            source: Traffic::default(),
            destination: Traffic::default(),
        };
        Row { job, state, contender, samples: millis.iter().map(sample).collect() }
    }

    fn results(rows: Vec<Row>) -> Results {
        Results {
            images: 62,
            unique_bytes: 1_000,
            rows,
            floor: None,
            link: vec![],
            link_rate: 125_000_000,
            memory: vec![],
            tiny: vec![],
        }
    }

    #[test]
    fn speed_is_judged_by_the_best_run_against_the_best_setting_of_the_peer() {
        let cold = |contender, millis: &[u64]| row(Job::FromDisk, State::Cold, contender, millis);
        let rows = vec![
            cold(Contender::OcMirror, &[1_000, 1_100, 1_500]),
            cold(Contender::SkopeoCopy(1), &[9_000]),
            cold(Contender::SkopeoCopy(4), &[2_900, 3_300, 3_400]),
            cold(Contender::Regsync(4), &[500]),
        ];
        let verdicts = verdicts(&results(rows));
        let speed = verdicts.iter().find(|verdict| verdict.wanted == "≥ 3.0×").unwrap();
        assert_eq!(speed.about, "disk → registry, cold: oc-mirror against skopeo copy, 4 at once");
        assert_eq!(speed.measured, "2.9× (medians 3.0×)");
        assert!(!speed.met);
    }

    #[test]
    fn the_target_is_less_time_to_disk_and_no_more_elsewhere_than_an_older_build() {
        let cold = |job, contender, millis: &[u64]| row(job, State::Cold, contender, millis);
        let rows = vec![
            cold(Job::ToDisk, Contender::OcMirror, &[3_000, 3_500]),
            cold(Job::ToDisk, Contender::Other(0), &[4_000]),
            cold(Job::Across, Contender::OcMirror, &[4_300]),
            cold(Job::Across, Contender::Other(0), &[4_000]),
        ];
        let verdicts = against_others(&results(rows));
        let judged: Vec<(&str, bool)> =
            verdicts.iter().map(|verdict| (&*verdict.measured, verdict.met)).collect();
        let to_disk = ("0.75 × (3.00 s, 4.00 s)", true);
        assert_eq!(judged, [to_disk, to_disk, ("1.07 × (4.30 s, 4.00 s)", false)]);
    }

    #[test]
    fn one_additional_request_misses_the_target() {
        let mut warm = row(Job::ToDisk, State::Warm, Contender::OcMirror, &[10, 10]);
        for sample in &mut warm.samples {
            sample.source = Traffic { requests: 62, heads: 62, ..Traffic::default() };
        }
        assert!(requests(&results(vec![warm.clone()]))[0].met);
        warm.samples[1].source.requests += 1;
        let verdict = &requests(&results(vec![warm]))[0];
        assert_eq!(verdict.measured, "62 and 0; others 1 and 0");
        assert!(!verdict.met);
    }

    #[test]
    fn the_link_rate_is_that_of_the_unique_bytes() {
        let mut results = results(vec![]);
        results.unique_bytes = 1_250_000_000;
        results.link =
            row(Job::ToDisk, State::Cold, Contender::OcMirrorNoArchive, &[12_500]).samples;
        let verdict = link_rate(&results).unwrap();
        assert_eq!(verdict.measured, "80 % (12.5 s)");
        assert!(!verdict.met);
    }
}
